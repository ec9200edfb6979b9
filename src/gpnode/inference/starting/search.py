"""Finding the right basin from cold: smooth, match slopes, then match the whole path, or paths over a growing horizon.

Everything here works on the parameters of the dynamics and the unknown initial values; the
Gaussian process waits until the path is right. Failed solves are rejected steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.starting.least_squares import IMPOSSIBLE, climb, climb_from_first
from gpnode.inference.starting.settings import Search
from gpnode.inference.starting.shooting import shoot
from gpnode.inference.starting.slopes import SlopeData, slope_data, smoothed_path
from gpnode.inference.starting.targets import (
    Target,
    draw_starts,
    guess_hyper,
    make_target,
    noise_levels,
    path_fit,
    slope_fit,
)
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_density
from gpnode.problem.smoothing import can_be_smoothed, smooth
from gpnode.solvers import Status

_SHRINKS = (1.0, 0.8, 0.5, 0.2)  # towards the prior's centre, until the path can be solved at all
_SLOPE_EVALUATIONS, _PATH_EVALUATIONS = 50, 60


@dataclass(frozen=True)
class Candidate:
    """A point of the search: the full unconstrained vector and its misfit (half the sum of squares).

    ``left_alone`` is the observable that equations leave to its Gaussian process, if it is but one.
    """

    unconstrained: np.ndarray
    misfit: float
    origin: str
    left_alone: int | None = None


@dataclass(frozen=True)
class SearchResult:
    """Candidates from best to worst, how many solves failed on the way, and starts with a flexible process."""

    candidates: tuple[Candidate, ...]
    failed_solves: int
    flexible: tuple[Candidate, ...] = ()


class _Counter:
    failed = 0


def find_candidates(problem: Problem, key: Array, settings: Search, say: Callable[[str], None]) -> SearchResult:
    """Climb the ladder: slopes, then paths, from several starts; the best candidates first."""
    say("smoothing")
    smooths = [
        smooth(np.asarray(m.gp_times), np.asarray(m.y)) if can_be_smoothed(np.asarray(m.gp_times)) else None
        for m in problem.measured
    ]
    noise_std = noise_levels(problem, smooths)
    keys = jax.random.split(key, settings.prior_pool)
    draws = np.asarray(draw_starts(problem, guess_hyper(problem, noise_std), keys))
    target = make_target(problem, noise_std, draws)
    if target.moving.size == 0:  # nothing to search: only noise and Gaussian process are unknown
        return SearchResult((Candidate(np.asarray(target.template), 0.0, "fixed path"),), 0)
    counter = _Counter()
    tried: list[Candidate] = []

    def fits() -> bool:
        """Whether the best misfit is what noise alone would leave."""
        most = settings.fits_below * sum(m.y.size for m in problem.measured)
        return bool(tried) and min(c.misfit for c in tried) < most

    slopes = slope_data(problem, smooths, settings.slope_points)
    if slopes is not None:
        say("matching slopes, then the whole path")
        guess = smoothed_path(problem, smooths)
        for tightness in settings.shooting_widths:  # cheap, and not all end in the same place
            theta = _match_slopes(_tightened(target, tightness), slopes)
            shot = shoot(target, theta, guess) if guess is not None else None
            if shot is not None:
                tried.append(_match_paths(target, shot, (1.0,), counter, f"shooting, width {tightness:g}"))
        for i, (tightness, horizons) in enumerate(settings.ways_up):
            if fits():
                break
            say(f"matching slopes, then paths ({i + 1})")
            theta = _match_slopes(_tightened(target, tightness), slopes)
            tried.append(_match_paths(target, theta, horizons, counter, f"slopes, way {i + 1}"))

    if not fits():
        for i, theta in enumerate(draws[: settings.prior_starts, np.asarray(target.moving)]):
            say(f"matching paths from prior draw {i + 1}")
            tried.append(_match_paths(target, theta, settings.horizons, counter, f"prior draw {i + 1}"))
            if _agreeing(tried) >= settings.agreeing_starts and fits():
                break
    ranked = tuple(sorted((c for c in tried if c.misfit < IMPOSSIBLE), key=lambda c: c.misfit))
    flexible: tuple[Candidate, ...] = ()
    has_process = any(observable.kernel is not None for observable in problem.observables)
    if has_process and slopes is not None and not fits():
        say("letting the Gaussian process help")
        flexible = _flexible_starts(target, slopes, settings, counter)
    return SearchResult(ranked, counter.failed, flexible)


def _agreeing(candidates: list[Candidate]) -> int:
    lowest = min(c.misfit for c in candidates)
    return sum(c.misfit < lowest + 1.0 for c in candidates)


def _tightened(target: Target, tightness: float) -> Target:
    """With a ridge of so many prior widths."""
    return eqx.tree_at(lambda t: t.width, target, tightness * target.width)


def _match_slopes(target: Target, slopes: SlopeData) -> np.ndarray:
    """Parameters whose vector field follows the smoothed slopes; for a dictionary this is ridge regression."""

    def system(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residuals, jacobian = slope_fit(target, jnp.asarray(theta), slopes)
        return np.asarray(residuals), np.asarray(jacobian)

    start = np.asarray(target.centre)
    reached = climb(system, start, _SLOPE_EVALUATIONS)
    return start if reached is None else reached[0]


def _match_paths(
    target: Target, theta: np.ndarray, horizons: tuple[float, ...], counter: _Counter, origin: str
) -> Candidate:
    """Least squares on the path, over growing parts of the record."""
    misfit, centre = IMPOSSIBLE, np.asarray(target.centre)
    for fraction in horizons:

        def system(th: np.ndarray, fraction: float = fraction) -> tuple[np.ndarray, np.ndarray]:
            residuals, jacobian, status = path_fit(target, jnp.asarray(th), jnp.asarray(fraction, float))
            if int(status) != Status.OK:
                counter.failed += 1
                return np.full(residuals.shape, np.inf), np.zeros(jacobian.shape)
            return np.asarray(residuals), np.asarray(jacobian)

        starts = [centre + shrink * (theta - centre) for shrink in _SHRINKS]
        reached = climb_from_first(system, starts, _PATH_EVALUATIONS)
        if reached is not None:
            theta, misfit = reached[0], reached[1] if fraction == 1.0 else IMPOSSIBLE
    return Candidate(np.asarray(target.full(jnp.asarray(theta))), misfit, origin)


# -- starts with a flexible process -----------------------------------------------------------


def _flexible_starts(target: Target, slopes: SlopeData, settings: Search, counter: _Counter) -> tuple[Candidate, ...]:
    """Parameters that roughly follow the data, with Gaussian processes that take up what the path misses.

    Where the equations cannot follow the data to within the noise, a path forced through them ends at the edge of
    blowing up. These starts follow the slopes of all variables; or the paths of all but one, which is left to its
    process: which one may tell the modes of a posterior apart.
    """
    problem, moving = target.problem, np.asarray(target.moving)
    every = range(len(problem.observables))
    starts = []
    for tightness in settings.flexible_widths:
        theta = _match_slopes(_tightened(target, tightness), slopes)
        origin = f"slopes (width {tightness:g}) with processes"
        starts += [
            _with_processes(target, theta, every, length, settings, origin) for length in settings.flexible_lengths
        ]
    matched = _match_slopes(target, slopes)
    loose_std = np.sqrt(settings.flexible_variance)
    for alone in every if 1 < len(every) <= settings.most_left_alone else ():
        loose = eqx.tree_at(lambda t: t.noise_std, target, target.noise_std.at[alone].set(loose_std))
        ways = [horizons for _, horizons in settings.ways_up[:3]]
        path = min((_match_paths(loose, matched, way, counter, "") for way in ways), key=lambda c: c.misfit)
        origin = f"paths but for {problem.observables[alone].variable}, with a process"
        theta, shortest = path.unconstrained[moving], settings.flexible_lengths[0]
        start = _with_processes(target, theta, [alone], shortest, settings, origin)
        starts.append(None if start is None else replace(start, left_alone=alone))
    return tuple(start for start in starts if start is not None)


def _with_processes(
    target: Target, theta: np.ndarray, observables: Iterable[int], length: float, settings: Search, origin: str
) -> Candidate | None:
    """A start with processes of this length for these observables; None if no path near it can be solved."""
    problem = target.problem
    values = problem.constrain(target.full(jnp.asarray(theta)))
    for name in (n for i in observables for n in problem.observables[i].priors()):
        if name.endswith("kernel.length_scale"):
            values[name] = jnp.asarray(length)
        elif name.endswith("kernel.variance"):
            values[name] = jnp.asarray(settings.flexible_variance)
    u = np.array(problem.layout.unconstrain(values))
    for _ in range(12):  # towards a standstill, until the path can be solved
        value, _ = log_density(problem, u)
        if np.isfinite(value):
            return Candidate(u, -value, f"{origin} of length {length:g}")
        u[np.asarray(target.moving)] *= 0.8
    return None
