"""From nothing to a start: search, refine the grid, climb, or follow pilot chains."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.errors import StartError
from gpnode.inference.maximum import Maximum, approximation_at, find_maximum
from gpnode.inference.running.budget import Budget, OutOfTime
from gpnode.inference.samplers.base import Method, Sampler
from gpnode.inference.starting.accuracy import back_to_the_data, with_accurate_steps
from gpnode.inference.starting.alternation import alternate
from gpnode.inference.starting.pilots import run_pilots
from gpnode.inference.starting.search import Candidate, SearchResult, find_candidates
from gpnode.inference.starting.start import Start
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities
from gpnode.problem.grid import with_steps, with_steps_for

_NEAR_POINTS, _FAR_POINTS = 8, 16  # at which steps are checked, besides the maximum
_NEAR = 0.3  # standard deviations of the normal approximation
_SAME_MISFIT, _WORSE_MISFIT = 0.5, 50.0  # nats between candidates that are the same minimum, or not worth a climb


def find_start(
    problem: Problem, key: Array, method: Method, say: Callable[[str], None], budget: Budget | None = None
) -> Start:
    """Climb the start ladder. Raises :class:`StartError` with a remedy if no path can be found.

    If the method has pilots, they show the way where the equations alone cannot follow the data; if their time is up,
    the start is a hurried one.
    """
    settings = method.search
    result = find_candidates(problem, key, settings, say)
    if not result.candidates:
        raise StartError(
            f"no parameters were found whose path can be solved ({result.failed_solves} solves failed). "
            "Narrow the priors towards plausible values, check the equations and initial values, give the size of "
            "unobserved states with scales={...}, or pass solver=Stiff() if the system has very fast and slow parts."
        )
    ladder = [*_distinct(result.candidates)[: settings.most_maxima], *result.flexible]
    pilot, hurried = method.pilot(), False
    if pilot is not None and result.flexible:
        try:
            piloted = _follow_pilots(problem, result, ladder, pilot, key, say, budget or Budget())
        except OutOfTime:
            say("the time is up before pilot chains have shown the way")
            piloted, hurried, ladder = None, True, ladder[:1]
        if piloted is not None:
            return piloted
    say("choosing the solver's steps")
    problem = with_steps_for(problem, jnp.asarray(result.candidates[0].unconstrained))
    maxima: list[Maximum] = []
    for i, candidate in enumerate(ladder):
        say(f"climbing from start {i + 1} of {len(ladder)}")
        climbed = alternate(problem, candidate.unconstrained, jax.random.fold_in(key, len(maxima)))
        maximum = find_maximum(with_steps_for(problem, jnp.asarray(climbed)), climbed)
        if np.isfinite(maximum.log_density) and not any(
            _same(maximum, other, settings.same_maximum) for other in maxima
        ):
            maxima.append(maximum)
    if not maxima:
        raise StartError(
            "the posterior density is not finite at the best parameters found. "
            "Check that the priors allow values that fit the data."
        )
    maxima.sort(key=lambda m: -m.log_evidence)
    best = maxima[0]
    say("checking the solver's steps")
    problem = with_accurate_steps(problem, best.centre, _points_about(problem, best, key))
    kept = tuple(m for m in maxima if m.log_evidence > best.log_evidence - settings.negligible)
    return Start(problem, kept[: settings.most_maxima], result, hurried=hurried)


def _points_about(problem: Problem, maximum: Maximum, key: Array) -> np.ndarray:
    """The maximum, points near it, and points as far from it as draws are, if they are as likely as draws (n, size)."""
    z = np.array(jax.random.normal(key, (_NEAR_POINTS + _FAR_POINTS, maximum.centre.size)))
    z[:_NEAR_POINTS] *= _NEAR
    points = maximum.centre + z @ maximum.scale_tril.T
    heights, _ = log_densities(problem, points)
    likely = heights > maximum.log_density - maximum.centre.size
    likely[:_NEAR_POINTS] = True
    return np.vstack([maximum.centre, points[likely]])


def _follow_pilots(
    problem: Problem,
    result: SearchResult,
    starts: list[Candidate],
    sampler: Sampler,
    key: Array,
    say: Callable[[str], None],
    budget: Budget,
) -> Start | None:
    """Chains that begin where the best pilots were; None if no pilot could set out, or the final grid has no path."""
    problem = with_steps(problem)
    pilots = run_pilots(problem, starts, sampler, key, say, budget)
    if not pilots.places:
        return None
    say("checking the solver's steps")
    problem = with_accurate_steps(problem, pilots.places[0].ends[0], np.stack(pilots.everywhere()))
    pilots = pilots.on(problem, sampler.piloting)  # type: ignore[attr-defined]
    if not pilots.places:
        return None
    points = pilots.points(sampler.chains)
    ends = []
    for i, end in enumerate(points):
        approximation = approximation_at(problem, back_to_the_data(problem, end, i))
        if approximation is None:
            return None
        ends.append(approximation)
    return Start(problem, tuple(ends), result, piloted=True)


def _distinct(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Candidates whose misfit differs; equal misfits are the same minimum reached twice."""
    distinct: list[Candidate] = []
    for candidate in candidates:
        if all(abs(candidate.misfit - other.misfit) > _SAME_MISFIT for other in distinct):
            distinct.append(candidate)
    return [c for c in distinct if c.misfit < distinct[0].misfit + _WORSE_MISFIT]


def _same(maximum: Maximum, other: Maximum, closer_than: float) -> bool:
    apart = np.linalg.solve(other.scale_tril, maximum.centre - other.centre)
    return bool(np.linalg.norm(apart) < closer_than * np.sqrt(apart.size))
