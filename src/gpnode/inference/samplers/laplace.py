"""A normal approximation at the highest density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from gpnode.inference.checks import Check
from gpnode.inference.sampled import Sampled, count_failures
from gpnode.inference.samplers.base import ChainRunner, Method
from gpnode.inference.starting.settings import Search
from gpnode.inference.stopping.statistics import pareto_k
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities, report_draws

if TYPE_CHECKING:
    from gpnode.inference.starting.start import Start


@dataclass(frozen=True)
class Laplace(Method):
    """Highest posterior density and a normal approximation around it: seconds instead of minutes.

    >>> quick = gn.fit(model, data, method=gn.Laplace(draws=500), progress=False)
    """

    name: ClassVar[str] = "laplace"
    is_sample: ClassVar[bool] = False

    draws: int = 2000
    pareto_limit: float = 0.7
    """Beyond this shape of the tail of importance weights, the approximation is poor."""
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        if self.draws < 50:
            raise ValueError(f"draws must be at least 50; got {self.draws}.")

    def draw(
        self, start: Start, points: Sequence[np.ndarray], key: Array, chains: ChainRunner
    ) -> tuple[Start, Sampled]:
        return self.draw_approximation(start, key)

    def draw_approximation(self, start: Start, key: Array) -> tuple[Start, Sampled]:
        """Draws from the normal approximation at the best maximum, and how well it fits the density."""
        best = start.maxima[0]
        z = np.asarray(jax.random.normal(key, (self.draws, best.centre.size)))
        draws = best.centre + z @ best.scale_tril.T
        values, status = log_densities(start.problem, draws)
        log_weights = values + 0.5 * (z**2).sum(axis=1)
        sound = np.isfinite(log_weights)
        # Where more than a few draws cannot even be solved, the approximation reaches beyond the posterior.
        k = pareto_k(log_weights[sound]) if sound.mean() > 0.99 else np.inf
        per_draw = {"log_density": values, "failure": status}
        stats = xr.Dataset({name: (("chain", "draw"), array[None]) for name, array in per_draw.items()})
        details = {
            "solver_failures": count_failures(status),
            "laplace": {
                "pareto_k": k,
                "log_evidence": best.log_evidence,
                "map": _map_values(start.problem, best.centre),
            },
        }
        return start, Sampled(draws[None], stats, details)

    def checks(self, stats: xr.Dataset, details: Mapping[str, Any]) -> list[Check]:
        k = details["laplace"]["pareto_k"]
        return [
            Check(
                "normal approximation",
                k < self.pareto_limit,
                f"Pareto k of its importance weights {k:.2f}, limit {self.pareto_limit}",
                "Sample instead: leave out method=Laplace(). Read the intervals here as rough.",
            )
        ]


def _map_values(problem: Problem, centre: np.ndarray) -> dict[str, Any]:
    """Parameters in user units at the highest point of the unconstrained density."""
    reported = report_draws(problem, jnp.asarray(centre)[None, None])
    return {name: np.asarray(value[0, 0]).tolist() for name, value in reported.items()}
