"""From nothing to dispersed starting points: search, refine the grid, climb, disperse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import StartError
from ..problem import STEP_TOLERANCE, Problem, log_densities, log_density
from .frame import Frame
from .laplace import Mode, find_mode
from .search import Candidate, SearchResult, search
from .settle import settle

_MOST_MODES = 3
_NEGLIGIBLE = 10.0  # a mode this many nats below the best (by Laplace evidence) is left out
_ACCURATE = 0.02  # nats
_SAME_MODE = 3.0  # closer than this many standard deviations (per square root of dimension)


@dataclass(frozen=True)
class Start:
    """The problem on its final grid, its modes from best to worst, and the record of the search."""

    problem: Problem
    modes: tuple[Mode, ...]
    search: SearchResult

    def chains_a_mode(self, chains: int) -> int:
        """Modes share the chains asked for, but each has two at least, if so many were asked for, to be compared."""
        return max(min(chains, 2), chains // len(self.modes))


def find_start(problem: Problem, key: Array, say: Callable[[str], None]) -> Start:
    """Climb the start ladder. Raises :class:`StartError` with a remedy if no path can be found."""
    found = search(problem, key, say)
    if not found.candidates:
        raise StartError(
            f"no parameters were found whose path can be solved ({found.failed_solves} solves failed). "
            "Narrow the priors towards plausible values, check the equations and initial values, give the size of "
            "unobserved states with scales={...}, or pass solver=Stiff() if the system has very fast and slow parts."
        )
    say("choosing the solver's steps")
    problem = problem.with_steps_for(jnp.asarray(found.candidates[0].unconstrained))
    modes: list[Mode] = []
    ladder = [*_distinct(found.candidates)[:_MOST_MODES], *found.flexible]
    for i, candidate in enumerate(ladder):
        say(f"climbing from start {i + 1} of {len(ladder)}")
        settled = settle(problem, candidate.unconstrained, jax.random.fold_in(key, len(modes)))
        mode = find_mode(problem.with_steps_for(jnp.asarray(settled)), settled)
        if np.isfinite(mode.log_density) and not any(_same(mode, other) for other in modes):
            modes.append(mode)
    if not modes:
        raise StartError(
            "the posterior density is not finite at the best parameters found. "
            "Check that the priors allow values that fit the data."
        )
    modes.sort(key=lambda m: -m.log_evidence)
    best = modes[0]
    say("checking the solver's steps")
    problem = _accurate_at(problem, best, key)
    kept = tuple(m for m in modes if m.log_evidence > best.log_evidence - _NEGLIGIBLE)
    return Start(problem, kept[:_MOST_MODES], found)


def _accurate_at(problem: Problem, mode: Mode, key: Array) -> Problem:
    """The problem on a grid whose log density is right at the mode and about it.

    Where neighbouring paths drift apart, errors of single steps grow, and their size alone does not tell enough.
    """
    if not problem.solver.follows_grid:
        return problem
    z = 0.3 * np.asarray(jax.random.normal(key, (8, mode.centre.size)))
    points = jnp.asarray(np.vstack([mode.centre, mode.centre + z @ mode.spread.T]))
    exact = np.asarray(log_densities(problem.tightly_solved(), points)[0])
    for tolerance in STEP_TOLERANCE * 10.0 ** -np.arange(4):
        problem = problem.with_steps_for(points[0], float(tolerance))
        used = np.asarray(log_densities(problem, points)[0])
        off = np.abs(used[np.isfinite(exact)] - exact[np.isfinite(exact)])
        if np.all(off < _ACCURATE):
            break
    return problem


def _distinct(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Candidates whose misfit differs; equal misfits are the same minimum reached twice."""
    found: list[Candidate] = []
    for candidate in candidates:
        if all(abs(candidate.misfit - other.misfit) > 0.5 for other in found):
            found.append(candidate)
    return [c for c in found if c.misfit < found[0].misfit + 50.0]


def _same(mode: Mode, other: Mode) -> bool:
    apart = np.linalg.solve(other.spread, mode.centre - other.centre)
    return bool(np.linalg.norm(apart) < _SAME_MODE * np.sqrt(apart.size))


def disperse(start: Start, chains: int, key: Array) -> list[np.ndarray]:
    """Starting points for chains, mode after mode, in the coordinates of the mode's frame.

    Points are drawn wider than the normal approximation; where the density falls off faster
    than that, they are drawn back towards the mode.
    """
    points = []
    count = start.chains_a_mode(chains)
    for i in range(count * len(start.modes)):
        mode = start.modes[i // count]
        direction = np.asarray(jax.random.normal(jax.random.fold_in(key, i), mode.centre.shape))
        points.append(_draw_back(start.problem, mode, 1.5 * direction))
    return points


def frames_of(start: Start, chains: int) -> list[Frame]:
    """Coordinates for chains, mode after mode."""
    curvature = np.mean([mode.curvature for mode in start.modes], axis=0)
    return [mode.frame(curvature) for mode in start.modes for _ in range(start.chains_a_mode(chains))]


def _draw_back(problem: Problem, mode: Mode, z: np.ndarray) -> np.ndarray:
    frame = mode.frame()
    lowest = mode.log_density - 3.0 * z.size - 10.0
    for _ in range(12):
        value, _ = log_density(problem, frame.point(jnp.asarray(z)))
        if float(value) > lowest:
            return z
        z = 0.6 * z
    return np.zeros_like(z)
