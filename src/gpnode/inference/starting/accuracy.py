"""Whether the solver's steps are fine enough: at a start, and where chains went."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from gpnode.inference.sampled import pick_evenly
from gpnode.inference.starting.alternation import fit_path
from gpnode.inference.starting.start import Start
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities, log_density
from gpnode.problem.grid import STEP_TOLERANCE, with_steps_for

ACCURACY_DRAWS = 100
"""Draws, spread over a run, that are compared with a tight solve."""
_ACCURATE = 0.02  # nats
# Errors in nats that not more than a twentieth of the draws may exceed: of steps, and of those that replace them,
# where chains may yet go to places in which errors grow faster.
_TOO_COARSE, _FINE, _ACCURATE_PART = 0.1, 0.01, 0.95
_MOST_NODES = 10_000  # of all experiments together, on a finer grid
_ASTRAY = 2.0  # nats per parameter


def solver_errors(problem: Problem, points: np.ndarray) -> np.ndarray:
    """By how much a tight solve changes log densities (n,); -inf where it fails, zero where the usual one does."""
    used, exact = (log_densities(p, points)[0] for p in (problem, problem.tightly_solved()))
    sound = np.isfinite(used)
    return np.where(sound, exact, 0.0) - np.where(sound, used, 0.0)


def with_accurate_steps(problem: Problem, points: np.ndarray) -> Problem:
    """The problem on a grid whose log density is right at ``points`` (n, size), or all but a twentieth of them.

    Where neighbouring paths drift apart, errors of single steps grow, and their size alone does not tell enough.
    """
    if not problem.solver.follows_grid:
        return problem
    for tolerance in STEP_TOLERANCE * 10.0 ** -np.arange(4):
        problem = with_steps_for(problem, jnp.asarray(points), float(tolerance))
        errors = np.abs(solver_errors(problem, points))
        errors = errors[np.isfinite(errors)]
        # Of a few, the largest.
        if errors.size and np.quantile(errors, _ACCURATE_PART, method="higher") < _ACCURATE:
            break
    return problem


def with_finer_steps(
    start: Start, draws: np.ndarray, chains: int, early: bool = False
) -> tuple[Start, list[np.ndarray]] | None:
    """If the solver's steps are too coarse where chains (chains, draws, size) went: finer ones, and points to begin at.

    ``early`` in a run, when to begin again costs little, steps must be finer than later on.

    None if they are fine enough, or if shorter steps do not help: then the verdict will tell. The points are the
    ends of the chains, in the coordinates of their whitenings.
    """
    if not start.problem.solver.follows_grid:
        return None
    points = pick_evenly(draws, ACCURACY_DRAWS)

    def error(problem: Problem) -> float:
        return float(np.quantile(np.abs(solver_errors(problem, points)), _ACCURATE_PART))

    if error(start.problem) < (_ACCURATE if early else _TOO_COARSE):
        return None
    for tolerance in STEP_TOLERANCE * 10.0 ** -np.arange(0.0, 5.0, 0.5):
        problem = with_steps_for(start.problem, jnp.asarray(points[::5]), float(tolerance))
        if problem.nodes.size > _MOST_NODES:
            return None
        # Grids that grow, to a limit, cannot make a run begin again for ever.
        if problem.nodes.size > start.problem.nodes.size and error(problem) < _FINE:
            break
    else:
        return None
    return replace(start, problem=problem), [
        np.linalg.solve(whitening.scale_tril, back_to_the_data(problem, u, i) - whitening.centre)
        for i, (whitening, u) in enumerate(zip(start.whitenings(chains), draws[:, -1], strict=True))
    ]


def back_to_the_data(problem: Problem, u: np.ndarray, index: int) -> np.ndarray:
    """On finer steps paths run elsewhere, in the worst case away from the data: then match it to them again."""
    matched = fit_path(problem, u, jax.random.key(index))
    before, after = (log_density(problem, v)[0] for v in (u, matched))
    return matched if not before > after - _ASTRAY * u.size else u
