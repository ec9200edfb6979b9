"""From nothing to dispersed starting points: search, refine the grid, climb, disperse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.errors import StartError
from gpnode.inference.maximum import Maximum, approximation_at, find_maximum
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.starting.alternation import alternate, fit_path
from gpnode.inference.starting.pilots import chains_each, run_pilots
from gpnode.inference.starting.search import Candidate, SearchResult, search
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import STEP_TOLERANCE, Problem
from gpnode.problem.evaluation import log_densities, log_density
from gpnode.results.posterior import pick_evenly

_MOST_MODES = 3
_NEGLIGIBLE = 10.0  # a mode this many nats below the best (by Laplace evidence) is left out
_ACCURATE = 0.02  # nats
ACCURACY_DRAWS = 100
# Errors in nats that not more than a twentieth of the draws may exceed: of steps, and of those that replace them,
# where chains may yet go to places in which errors grow faster.
_TOO_COARSE, _FINE_ENOUGH, _ACCURATE_PART = 0.1, 0.01, 0.95
_MOST_NODES = 10_000  # of all experiments together, on a finer grid
_ASTRAY = 2.0  # nats per parameter
_SAME_MODE = 3.0  # closer than this many standard deviations (per square root of dimension)


@dataclass(frozen=True)
class Start:
    """The problem on its final grid, its modes from best to worst, and the record of the search.

    If ``piloted``, there is a "mode" for every chain: the end of a pilot, where it begins.
    """

    problem: Problem
    modes: tuple[Maximum, ...]
    search: SearchResult
    piloted: bool = False

    def chains_a_mode(self, chains: int) -> int:
        """How many of the chains begin in each mode."""
        return 1 if self.piloted else chains_each(chains, len(self.modes))


def find_start(problem: Problem, key: Array, say: Callable[[str], None], pilots: Lifted | None = None) -> Start:
    """Climb the start ladder. Raises :class:`StartError` with a remedy if no path can be found.

    With settings for ``pilots``, short chains show the way where the equations alone cannot follow the data.
    """
    found = search(problem, key, say)
    if not found.candidates:
        raise StartError(
            f"no parameters were found whose path can be solved ({found.failed_solves} solves failed). "
            "Narrow the priors towards plausible values, check the equations and initial values, give the size of "
            "unobserved states with scales={...}, or pass solver=Stiff() if the system has very fast and slow parts."
        )
    ladder = [*_distinct(found.candidates)[:_MOST_MODES], *found.flexible]
    if pilots is not None and found.flexible:
        piloted = _follow_pilots(problem, found, ladder, pilots, key, say)
        if piloted is not None:
            return piloted
    say("choosing the solver's steps")
    problem = problem.with_steps_for(jnp.asarray(found.candidates[0].unconstrained))
    modes: list[Maximum] = []
    for i, candidate in enumerate(ladder):
        say(f"climbing from start {i + 1} of {len(ladder)}")
        climbed = alternate(problem, candidate.unconstrained, jax.random.fold_in(key, len(modes)))
        mode = find_maximum(problem.with_steps_for(jnp.asarray(climbed)), climbed)
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
    z = 0.3 * np.asarray(jax.random.normal(key, (8, best.centre.size)))
    problem = _with_accurate_steps(problem, np.vstack([best.centre, best.centre + z @ best.scale_tril.T]))
    kept = tuple(m for m in modes if m.log_evidence > best.log_evidence - _NEGLIGIBLE)
    return Start(problem, kept[:_MOST_MODES], found)


def _follow_pilots(
    problem: Problem,
    found: SearchResult,
    starts: list[Candidate],
    settings: Lifted,
    key: Array,
    say: Callable[[str], None],
) -> Start | None:
    """Chains that begin where the best pilots were; None if no pilot could set out, or the final grid has no path."""
    problem = problem.with_steps()
    pilots = run_pilots(problem, starts, settings, key, say)
    if not pilots.places:
        return None
    say("checking the solver's steps")
    problem = _with_accurate_steps(problem, np.stack(pilots.everywhere()))
    modes = []
    for i, end in enumerate(pilots.points(settings.chains)):
        mode = approximation_at(problem, _back_to_the_data(problem, end, i))
        if mode is None:
            return None
        modes.append(mode)
    return Start(problem, tuple(modes), found, piloted=True)


def _with_accurate_steps(problem: Problem, points: np.ndarray) -> Problem:
    """The problem on a grid whose log density is right at ``points`` (n, size), or all but a twentieth of them.

    Where neighbouring paths drift apart, errors of single steps grow, and their size alone does not tell enough.
    """
    if not problem.solver.follows_grid:
        return problem
    for tolerance in STEP_TOLERANCE * 10.0 ** -np.arange(4):
        problem = problem.with_steps_for(jnp.asarray(points), float(tolerance))
        off = np.abs(solver_errors(problem, points))
        off = off[np.isfinite(off)]
        if off.size and np.quantile(off, _ACCURATE_PART, method="higher") < _ACCURATE:  # of a few, the largest
            break
    return problem


def solver_errors(problem: Problem, points: np.ndarray) -> np.ndarray:
    """By how much a tight solve changes log densities (n,); -inf where it fails, zero where the usual one does."""
    used, exact = (log_densities(p, points)[0] for p in (problem, problem.tightly_solved()))
    sound = np.isfinite(used)
    return np.where(sound, exact, 0.0) - np.where(sound, used, 0.0)


def with_finer_steps(
    start: Start, draws: np.ndarray, chains: int, early: bool = False
) -> tuple[Start, list[np.ndarray]] | None:
    """If the solver's steps are too coarse where chains (chains, draws, size) went: finer ones, and points to begin at.

    ``early`` in a run, when to begin again costs little, steps must be finer than later on.

    None if they are fine enough, or if shorter steps do not help: then the verdict will tell. The points are the
    ends of the chains, in the coordinates of their modes.
    """
    if not start.problem.solver.follows_grid:
        return None
    points = pick_evenly(draws, ACCURACY_DRAWS)

    def error(problem: Problem) -> float:
        return float(np.quantile(np.abs(solver_errors(problem, points)), _ACCURATE_PART))

    if error(start.problem) < (_ACCURATE if early else _TOO_COARSE):
        return None
    for tolerance in STEP_TOLERANCE * 10.0 ** -np.arange(0.0, 5.0, 0.5):
        problem = start.problem.with_steps_for(jnp.asarray(points[::5]), float(tolerance))
        if problem.nodes.size > _MOST_NODES:
            return None
        # Grids that grow, to a limit, cannot make a run begin again for ever.
        if problem.nodes.size > start.problem.nodes.size and error(problem) < _FINE_ENOUGH:
            break
    else:
        return None
    return replace(start, problem=problem), [
        np.linalg.solve(whitening.scale_tril, _back_to_the_data(problem, u, i) - whitening.centre)
        for i, (whitening, u) in enumerate(zip(whitenings_of(start, chains), draws[:, -1], strict=True))
    ]


def _back_to_the_data(problem: Problem, u: np.ndarray, index: int) -> np.ndarray:
    """On finer steps paths run elsewhere, in the worst case away from the data: then match it to them again."""
    climbed = fit_path(problem, u, jax.random.key(index))
    before, after = (log_density(problem, v)[0] for v in (u, climbed))
    return climbed if not before > after - _ASTRAY * u.size else u


def _distinct(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Candidates whose misfit differs; equal misfits are the same minimum reached twice."""
    found: list[Candidate] = []
    for candidate in candidates:
        if all(abs(candidate.misfit - other.misfit) > 0.5 for other in found):
            found.append(candidate)
    return [c for c in found if c.misfit < found[0].misfit + 50.0]


def _same(mode: Maximum, other: Maximum) -> bool:
    apart = np.linalg.solve(other.scale_tril, mode.centre - other.centre)
    return bool(np.linalg.norm(apart) < _SAME_MODE * np.sqrt(apart.size))


def disperse(start: Start, chains: int, key: Array) -> list[np.ndarray]:
    """Starting points for chains, mode after mode, in the coordinates of the mode's whitening.

    Points are drawn wider than the normal approximation; where the density falls off faster
    than that, they are drawn back towards the mode. Ends of pilots are where they should be.
    """
    if start.piloted:
        return [np.zeros_like(mode.centre) for mode in start.modes]
    points = []
    count = start.chains_a_mode(chains)
    for i in range(count * len(start.modes)):
        mode = start.modes[i // count]
        direction = np.asarray(jax.random.normal(jax.random.fold_in(key, i), mode.centre.shape))
        points.append(_draw_back(start.problem, mode, 1.5 * direction))
    return points


def whitenings_of(start: Start, chains: int) -> list[Whitening]:
    """Coordinates for chains, mode after mode."""
    shared = np.mean([mode.curvature for mode in start.modes], axis=0)
    return [mode.whitening(shared) for mode in start.modes for _ in range(start.chains_a_mode(chains))]


def _draw_back(problem: Problem, mode: Maximum, z: np.ndarray) -> np.ndarray:
    whitening = mode.whitening()
    lowest = mode.log_density - 3.0 * z.size - 10.0
    for _ in range(12):
        value, _ = log_density(problem, whitening.point(jnp.asarray(z)))
        if value > lowest:
            return z
        z = 0.6 * z
    return np.zeros_like(z)
