"""Where chains begin: maxima or ends of pilots, and points about them."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.maximum import Maximum
from gpnode.inference.starting.search import SearchResult
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_density

_DISPERSION = 1.5  # of first points, in standard deviations of the normal approximation
_NATS_PER_PARAMETER, _NATS_BELOW = 3.0, 10.0  # how far below the maximum a first point may lie


@dataclass(frozen=True)
class Start:
    """The problem on its final grid, its maxima from best to worst, and the record of the search.

    If ``piloted``, there is a "maximum" for every chain: the end of a pilot, where it begins. If ``hurried``, the time
    was up before pilots had shown the way, and there is but one maximum.
    """

    problem: Problem
    maxima: tuple[Maximum, ...]
    search: SearchResult
    piloted: bool = False
    hurried: bool = False

    def chains_each(self, chains: int) -> int:
        """How many of the chains begin at each maximum."""
        return 1 if self.piloted else share_chains(chains, len(self.maxima))

    def whitenings(self, chains: int) -> list[Whitening]:
        """Coordinates for chains, maximum after maximum."""
        shared = np.mean([maximum.curvature for maximum in self.maxima], axis=0)
        return [maximum.whitening(shared) for maximum in self.maxima for _ in range(self.chains_each(chains))]


def share_chains(chains: int, places: int) -> int:
    """Places share the ``chains`` asked for, but each has two at least, to be compared, unless one was asked for."""
    return max(min(chains, 2), chains // places)


def disperse(start: Start, chains: int, key: Array) -> list[np.ndarray]:
    """Starting points for chains, maximum after maximum, in the coordinates of its whitening.

    Points are drawn wider than the normal approximation; where the density falls off faster
    than that, they are drawn back towards the maximum. Ends of pilots are where they should be.
    """
    if start.piloted:
        return [np.zeros_like(maximum.centre) for maximum in start.maxima]
    points = []
    count = start.chains_each(chains)
    for i in range(count * len(start.maxima)):
        maximum = start.maxima[i // count]
        direction = np.asarray(jax.random.normal(jax.random.fold_in(key, i), maximum.centre.shape))
        points.append(_draw_back(start.problem, maximum, _DISPERSION * direction))
    return points


def _draw_back(problem: Problem, maximum: Maximum, z: np.ndarray) -> np.ndarray:
    whitening = maximum.whitening()
    lowest = maximum.log_density - _NATS_PER_PARAMETER * z.size - _NATS_BELOW
    for _ in range(12):
        value, _ = log_density(problem, whitening.point(jnp.asarray(z)))
        if value > lowest:
            return z
        z = 0.6 * z
    return np.zeros_like(z)
