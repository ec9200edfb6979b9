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
SHIFT_LIMIT = 0.1
"""Standard deviations by which errors of the solver may shift a mean."""
_ACCURATE = 0.02  # nats
# An error in nats that not more than a twentieth of the draws may exceed where steps are to replace others: chains may
# yet go to places in which errors grow faster.
_FINE, _ACCURATE_PART = 0.01, 0.95
_MARGIN = 10.0  # of the error at which steps are cut over the grid's own at its centre: cuts are rare where chains are
_TOLERANCES = tuple(float(_MARGIN * STEP_TOLERANCE * 10.0**-k) for k in range(7))
_ASTRAY = 2.0  # nats per parameter


def solver_errors(problem: Problem, points: np.ndarray) -> np.ndarray:
    """By how much a tight solve changes log densities (n,); -inf where it fails, zero where the usual one does."""
    used, exact = (log_densities(p, points)[0] for p in (problem, problem.tightly_solved()))
    sound = np.isfinite(used)
    return np.where(sound, exact, 0.0) - np.where(sound, used, 0.0)


def largest_shift(errors: np.ndarray) -> float:
    """By how many standard deviations ``errors`` (n,) of log densities may shift any mean over draws.

    With weights exp(error) draws would be those of the exact posterior. By the Cauchy-Schwarz inequality, means of the
    two differ by at most this many standard deviations, whatever they are means of.
    """
    weights = np.exp(errors - errors.max())
    return float(weights.std() / weights.mean())


def with_accurate_steps(problem: Problem, centre: np.ndarray, points: np.ndarray) -> Problem:
    """The problem on a grid that follows the path at ``centre`` (size,), with the right log density at ``points``.

    Right at ``points`` (n, size) means at all but a twentieth of them. Where a path needs shorter steps than the one at
    the centre, solvers that can cut the steps of that path alone: places near blow-up do not decide for all. Errors
    of single steps do not tell enough, because they grow where neighbouring paths drift apart.
    """
    if not problem.solver.follows_grid:
        return problem
    for tolerance in _TOLERANCES:
        problem = _at_tolerance(with_steps_for(problem, jnp.asarray(centre)), centre, tolerance)
        errors = np.abs(solver_errors(problem, points))
        errors = errors[np.isfinite(errors)]
        # Of a few, the largest.
        if errors.size and np.quantile(errors, _ACCURATE_PART, method="higher") < _ACCURATE:
            break
    return problem


def _at_tolerance(problem: Problem, centre: np.ndarray, tolerance: float) -> Problem:
    """With steps that err by at most ``tolerance``: cut where they err more, or on a grid that is finer everywhere."""
    if problem.solver.cuts_steps:
        return problem.with_solver(problem.solver.controlled(tolerance))
    return with_steps_for(problem, jnp.asarray(centre), tolerance / _MARGIN)


def with_finer_steps(
    start: Start, draws: np.ndarray, ends: list[np.ndarray], early: bool = False
) -> tuple[Start, list[np.ndarray]] | None:
    """If the solver's steps are too coarse where chains (chains, draws, size) went: finer ones, and points to begin at.

    They are too coarse if the verdict would soon say so; ``early`` in a run, when to begin again costs little, sooner.
    None if they are fine enough, or if shorter steps do not help: then the verdict will tell. The points are the
    ``ends`` (size,) of all chains, in the coordinates of their whitenings.
    """
    if not start.problem.solver.follows_grid:
        return None
    points = pick_evenly(draws, ACCURACY_DRAWS)

    def error(errors: np.ndarray) -> float:
        return float(np.quantile(np.abs(errors), _ACCURATE_PART))

    errors = solver_errors(start.problem, points)
    if error(errors) < _ACCURATE if early else largest_shift(errors) < 0.5 * SHIFT_LIMIT:
        return None
    centre = start.maxima[0].centre
    for tolerance in _TOLERANCES:
        problem = _at_tolerance(start.problem, centre, tolerance)
        # Tolerances that shrink, to a limit, cannot make a run begin again for ever.
        finer = problem.nodes.size > start.problem.nodes.size or _is_tighter(problem, start.problem)
        if finer and error(solver_errors(problem, points)) < _FINE:
            break
    else:
        return None
    return replace(start, problem=problem), [
        np.linalg.solve(whitening.scale_tril, back_to_the_data(problem, u, i) - whitening.centre)
        for i, (whitening, u) in enumerate(zip(start.whitenings(len(ends)), ends, strict=True))
    ]


def _is_tighter(problem: Problem, other: Problem) -> bool:
    return problem.solver.cuts_steps and float(problem.solver.step_error) < float(other.solver.step_error)


def back_to_the_data(problem: Problem, u: np.ndarray, index: int) -> np.ndarray:
    """On finer steps paths run elsewhere, in the worst case away from the data: then match it to them again."""
    matched = fit_path(problem, u, jax.random.key(index))
    before, after = (log_density(problem, v)[0] for v in (u, matched))
    return matched if not before > after - _ASTRAY * u.size else u
