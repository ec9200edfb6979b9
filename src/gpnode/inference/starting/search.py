"""Finding the right basin from cold: smooth, match slopes, then match paths over a growing horizon.

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
import scipy.optimize
from jax import Array

from gpnode._config import compiled_for_few_calls
from gpnode.inference.samplers.lifted.conditioning import split
from gpnode.model.priors.distributions import centre_and_width
from gpnode.model.priors.parameters import Values
from gpnode.model.priors.sparsity import HorseshoeBlock
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import compiled_for_search, log_density
from gpnode.problem.smoothing import Smooth, smooth
from gpnode.solvers import Status

# Eighths of the record: prior draws for glycolysis all reach the noise floor this way, one in six does at once.
_FINE = tuple(np.linspace(0.125, 1.0, 8))

# How the path is approached from matched slopes: strength of the ridge while matching slopes
# (1 is the prior's own width), and the parts of the record over which the path is then matched.
# Each way alone reaches the right basin of the predator-prey dictionary in three cases of four; they
# fail on different data, and the search stops at the first that fits.
_WAYS_UP: tuple[tuple[float, tuple[float, ...]], ...] = (
    (1.0, _FINE),
    (0.3, (0.25, 0.5, 0.75, 1.0)),
    (1.0, (0.3, 0.6, 1.0)),
    (0.1, (0.3, 0.6, 1.0)),
    (0.3, (0.3, 0.6, 1.0)),
    (1.0, (0.25, 0.5, 0.75, 1.0)),
)
_TIGHTNESS, _LENGTHS, _PROCESS_VAR = (1.0, 0.1, 0.03), (0.03, 0.4), 0.1  # of flexible starts; lengths in records
_MOST_LEFT = 5  # variables, for each to be left to its process once
_PRIOR_POOL = 256
_MOST_PRIOR_STARTS = 12
_AGREEING_STARTS = 3
_FAILED = 1e10  # a finite stand-in for an impossible misfit


@dataclass(frozen=True)
class Candidate:
    """A point of the search: the full unconstrained vector and its misfit (half the sum of squares).

    ``left`` is the observable that equations leave to its Gaussian process, if it is but one.
    """

    unconstrained: np.ndarray
    misfit: float
    origin: str
    left: int | None = None


@dataclass(frozen=True)
class SearchResult:
    """Candidates from best to worst, how many solves failed on the way, and starts with a flexible process."""

    candidates: tuple[Candidate, ...]
    failed_solves: int
    flexible: tuple[Candidate, ...] = ()


class Target(eqx.Module):
    """The least-squares problem behind the search.

    ``template`` (size,) holds the parameters that stay put; ``moving`` the positions that are
    searched; ``centre`` and ``width`` (moving,) a ridge that stands for the prior.
    """

    problem: Problem
    template: Array
    moving: Array
    centre: Array
    width: Array
    noise_std: Array

    def full(self, theta: Array) -> Array:
        return self.template.at[self.moving].set(theta)

    def ridge(self, theta: Array) -> Array:
        return (theta - self.centre) / self.width

    def path_residuals(self, theta: Array, fraction: Array) -> tuple[Array, Array]:
        """Whitened data misfit over the first ``fraction`` of each experiment, then the ridge; and the status."""
        problem = self.problem
        paths = problem.solve_until(problem.constrain(self.full(theta)), fraction)
        blocks, status = problem.residuals(paths)
        horizon = problem.horizon(fraction)
        white = [
            jnp.where(problem.nodes[m.experiment, m.rows] <= horizon[m.experiment], r, 0.0)
            / self.noise_std[m.observable]
            for m, r in zip(problem.measured, blocks, strict=True)
        ]
        return jnp.concatenate([*white, self.ridge(theta)]), status

    def slope_residuals(self, theta: Array, slopes: SlopeData) -> Array:
        """Misfit of the vector field to smoothed slopes, then the ridge."""
        problem = self.problem
        values = problem.constrain(self.full(theta))
        field = jax.vmap(lambda t, x: problem.dynamics.vector_field(t, x, values))(slopes.times, slopes.states)
        return jnp.concatenate([jnp.ravel((slopes.slopes - field) / slopes.width), self.ridge(theta)])


class SlopeData(eqx.Module):
    """Smoothed states and slopes (points, states) in scaled units at solver ``times`` (points,)."""

    times: Array
    states: Array
    slopes: Array
    width: Array


@compiled_for_search
def _path_fit(target: Target, theta: Array, fraction: Array) -> tuple[Array, Array, Array]:
    def both(th: Array) -> tuple[Array, tuple[Array, Array]]:
        residuals, status = target.path_residuals(th, fraction)
        return residuals, (residuals, status)

    jacobian, (residuals, status) = jax.jacfwd(both, has_aux=True)(theta)
    return residuals, jacobian, status


@compiled_for_few_calls
def _slope_fit(target: Target, theta: Array, slopes: SlopeData) -> tuple[Array, Array]:
    residuals = target.slope_residuals(theta, slopes)
    return residuals, jax.jacfwd(target.slope_residuals)(theta, slopes)


def search(problem: Problem, key: Array, say: Callable[[str], None]) -> SearchResult:
    """Climb the ladder: slopes, then paths, from several starts; the best candidates first."""
    say("smoothing")
    smooths = [smooth(np.asarray(m.gp_times), np.asarray(m.y)) if m.y.size >= 4 else None for m in problem.measured]
    noise_std = _noise_levels(problem, smooths)
    keys = jax.random.split(key, _PRIOR_POOL)
    draws = np.asarray(_draw_starts(problem, _guess_hyper(problem, noise_std), keys))
    target = _target(problem, noise_std, draws)
    if target.moving.size == 0:  # nothing to search: only noise and Gaussian process are unknown
        return SearchResult((Candidate(np.asarray(target.template), 0.0, "fixed path"),), 0)
    counter = _Counter()
    best: list[Candidate] = []

    slopes = _slope_data(problem, smooths)
    if slopes is not None:
        for i, (tightness, horizons) in enumerate(_WAYS_UP):
            say(f"matching slopes, then paths ({i + 1})")
            tight = eqx.tree_at(lambda t: t.width, target, tightness * target.width)
            best.append(_match_paths(target, _match_slopes(tight, slopes), horizons, counter, f"slopes, way {i + 1}"))
            if _fits(best, problem):
                break

    if not _fits(best, problem):
        for i, theta in enumerate(draws[:_MOST_PRIOR_STARTS, np.asarray(target.moving)]):
            say(f"matching paths from prior draw {i + 1}")
            best.append(_match_paths(target, theta, _FINE, counter, f"prior draw {i + 1}"))
            if _agreeing(best) >= _AGREEING_STARTS and _fits(best, problem):
                break
    ranked = tuple(sorted((c for c in best if c.misfit < _FAILED), key=lambda c: c.misfit))
    flexible: tuple[Candidate, ...] = ()
    has_process = any(observable.kernel is not None for observable in problem.observables)
    if has_process and slopes is not None and not _fits(best, problem):
        say("letting the Gaussian process help")
        flexible = _flexible_starts(target, slopes, counter)
    return SearchResult(ranked, counter.failed, flexible)


def _flexible_starts(target: Target, slopes: SlopeData, counter: _Counter) -> tuple[Candidate, ...]:
    """Parameters that roughly follow the data, with Gaussian processes that take up what the path misses.

    Where the equations cannot follow the data to within the noise, a path forced through them ends at the edge of
    blowing up. These starts follow the slopes of all variables; or the paths of all but one, which is left to its
    process. Which ones are left tells the modes of human motion apart.
    """
    problem, moving = target.problem, np.asarray(target.moving)
    every = range(len(problem.observables))
    found = []
    for tightness in _TIGHTNESS:
        theta = _match_slopes(eqx.tree_at(lambda t: t.width, target, tightness * target.width), slopes)
        origin = f"slopes (width {tightness:g}) with processes"
        found += [_with_processes(target, theta, every, length, origin) for length in _LENGTHS]
    matched = _match_slopes(target, slopes)
    for left in every if 1 < len(every) <= _MOST_LEFT else ():
        loose = eqx.tree_at(lambda t: t.noise_std, target, target.noise_std.at[left].set(np.sqrt(_PROCESS_VAR)))
        path = min((_match_paths(loose, matched, w, counter, "") for _, w in _WAYS_UP[:3]), key=lambda c: c.misfit)
        origin = f"paths but for {problem.states[problem.observables[left].state]}, with a process"
        start = _with_processes(target, path.unconstrained[moving], [left], _LENGTHS[0], origin)
        found.append(None if start is None else replace(start, left=left))
    return tuple(c for c in found if c is not None)


def _with_processes(
    target: Target, theta: np.ndarray, observables: Iterable[int], length: float, origin: str
) -> Candidate | None:
    """A start with processes of this length in these observables; None if no path near it can be solved."""
    problem = target.problem
    u = np.array(target.full(jnp.asarray(theta)))
    slices = problem.layout.slices()
    for name in (n for i in observables for n in problem.observables[i].priors()):
        if name.endswith("kernel.length_scale"):
            u[slices[name]] = np.log(length)
        elif name.endswith("kernel.variance"):
            u[slices[name]] = np.log(_PROCESS_VAR)
    for _ in range(12):  # towards a standstill, until the path can be solved
        value, _ = log_density(problem, u)
        if np.isfinite(value):
            return Candidate(u, -value, f"{origin} of length {length:g}")
        u[np.asarray(target.moving)] *= 0.8
    return None


class _Counter:
    failed = 0


def _fits(candidates: list[Candidate], problem: Problem) -> bool:
    """Whether the best misfit is what noise alone would leave (half a unit per datum, generously)."""
    data = sum(m.y.size for m in problem.measured)
    return bool(candidates) and min(c.misfit for c in candidates) < 1.5 * data


def _agreeing(candidates: list[Candidate]) -> int:
    lowest = min(c.misfit for c in candidates)
    return sum(c.misfit < lowest + 1.0 for c in candidates)


def _noise_levels(problem: Problem, smooths: list[Smooth | None]) -> np.ndarray:
    """Noise of each observable from the smoothed series; a floor keeps noise-free data finite."""
    found = np.full(len(problem.observables), 0.1)
    for index in range(len(problem.observables)):
        own = [(m, s) for m, s in zip(problem.measured, smooths, strict=True) if m.observable == index]
        spread = np.std(np.concatenate([np.asarray(m.y) for m, _ in own]))
        levels = [s.noise_std for _, s in own if s is not None]
        found[index] = np.clip(np.median(levels) if levels else 0.1 * spread, 0.03 * spread, 0.5 * spread)
    return found


@compiled_for_few_calls
def _draw_starts(problem: Problem, hyper: Values, keys: Array) -> Array:
    """Prior draws (keys, size) of what the path depends on, with the other parameters given."""
    return jax.vmap(lambda key: problem.draw_path_prior(key, hyper))(keys)


def _target(problem: Problem, noise_std: np.ndarray, draws: np.ndarray) -> Target:
    """Searched positions and their ridge, which has the centre and width of prior draws."""
    centre = np.median(draws, axis=0)
    width = np.subtract(*np.quantile(draws, [0.84, 0.16], axis=0)) / 2.0
    slices = problem.layout.slices()
    for block in problem.dynamics.blocks:
        if isinstance(block, HorseshoeBlock):  # its draws are too heavy-tailed to tell a width
            centre[slices[block.name]], width[slices[block.name]] = 0.0, 1.0
            centre[slices[f"{block.name}.tau"]] = np.log(0.3)
    moving, _ = split(problem)
    return Target(
        problem,
        jnp.asarray(centre),
        jnp.asarray(moving),
        jnp.asarray(centre[moving]),
        jnp.asarray(np.maximum(width[moving], 1e-3)),
        jnp.asarray(noise_std),
    )


def _guess_hyper(problem: Problem, noise_std: np.ndarray) -> Values:
    """Each observable's noise as smoothed, a modest Gaussian process, prior means elsewhere."""
    found: Values = {}
    for observable, level in zip(problem.observables, noise_std, strict=True):
        noise = level if observable.noise.relative else level * float(observable.unit)
        guesses = {"noise_std": noise, "noise_var": noise**2, "variance": (2.0 * level) ** 2, "length_scale": 0.5}
        for name, prior in observable.priors().items():
            guess = guesses.get(name.rpartition(".")[2])
            inside = guess is not None and bool(prior.support(guess))
            found[name] = jnp.asarray(guess if inside else centre_and_width(prior)[0], dtype=float)
    return found


def _slope_data(problem: Problem, smooths: list[Smooth | None]) -> SlopeData | None:
    """Smoothed states and slopes where all states of a experiment are known; None with latent states."""
    observed = {problem.observables[m.observable].state for m in problem.measured}
    if observed != set(range(len(problem.states))):
        return None
    times, states, slopes = [], [], []
    for r in range(len(problem.experiments)):
        own = {
            problem.observables[m.observable].state: (m, s)
            for m, s in zip(problem.measured, smooths, strict=True)
            if m.experiment == r and s is not None
        }
        if set(own) != observed:
            continue
        low = max(float(m.gp_times[0]) for m, _ in own.values())
        high = min(float(m.gp_times[-1]) for m, _ in own.values())
        if not high > low:
            continue
        grid = np.linspace(low, high, 150)
        x, dx = _smoothed_states(problem, own, grid)
        times.append(grid * float(problem.scaling.record_length / problem.scaling.time_unit))
        states.append(x)
        slopes.append(dx)
    if not times:
        return None
    all_slopes = np.concatenate(slopes)
    width = 0.1 * np.maximum(all_slopes.std(axis=0), 1e-6)
    return SlopeData(*map(jnp.asarray, (np.concatenate(times), np.concatenate(states), all_slopes, width)))


def _smoothed_states(problem: Problem, own: dict, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled states and slopes (points, states) of one experiment at Gaussian-process times ``grid``."""
    per_solver_time = float(problem.scaling.time_unit / problem.scaling.record_length)
    x, dx = np.zeros((grid.size, len(own))), np.zeros((grid.size, len(own)))
    for d, (m, fit) in own.items():
        value, slope = fit.value(grid), fit.slope(grid) * per_solver_time
        if not problem.observables[m.observable].transform.keeps_units:  # smoothed on the log scale
            value = np.exp(value)
            slope = slope * value
        x[:, d], dx[:, d] = value, slope
    return x, dx


def _match_slopes(target: Target, slopes: SlopeData) -> np.ndarray:
    """Parameters whose vector field follows the smoothed slopes; for a dictionary this is ridge regression."""

    def evaluate(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residuals, jacobian = _slope_fit(target, jnp.asarray(theta), slopes)
        return np.asarray(residuals), np.asarray(jacobian)

    fun = _Cached(evaluate)
    start = np.asarray(target.centre)
    if fun.failed(start):
        return start
    return scipy.optimize.least_squares(fun.residuals, start, fun.jacobian, max_nfev=50, x_scale="jac").x


def _match_paths(
    target: Target, theta: np.ndarray, horizons: tuple[float, ...], counter: _Counter, origin: str
) -> Candidate:
    """Levenberg–Marquardt on the path, over growing parts of the record."""
    misfit = _FAILED
    for fraction in horizons:

        def evaluate(th: np.ndarray, fraction: float = fraction) -> tuple[np.ndarray, np.ndarray]:
            residuals, jacobian, status = _path_fit(target, jnp.asarray(th), jnp.asarray(fraction, float))
            if int(status) != Status.OK:
                counter.failed += 1
                return np.full(residuals.shape, np.inf), np.zeros(jacobian.shape)
            return np.asarray(residuals), np.asarray(jacobian)

        fun = _Cached(evaluate)
        theta = _calm_down(fun, theta, np.asarray(target.centre))
        if fun.failed(theta):
            continue
        found = scipy.optimize.least_squares(fun.residuals, theta, fun.jacobian, max_nfev=60, x_scale="jac")
        theta, misfit = found.x, float(found.cost) if fraction == 1.0 else _FAILED
    return Candidate(np.asarray(target.full(jnp.asarray(theta))), misfit, origin)


def _calm_down(fun: _Cached, theta: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Shrink towards the prior's centre until the path can be solved at all."""
    for shrink in (1.0, 0.8, 0.5, 0.2):
        trial = centre + shrink * (theta - centre)
        if not fun.failed(trial):
            return trial
    return theta


class _Cached:
    """Residuals and Jacobian come from one evaluation; scipy asks for them separately."""

    def __init__(self, evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
        self._evaluate = evaluate
        self._at: np.ndarray | None = None
        self._last: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros((0, 0)))

    def _get(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._at is None or not np.array_equal(theta, self._at):
            residuals, jacobian = self._evaluate(theta)
            self._last = (np.nan_to_num(residuals, nan=np.inf, posinf=np.inf, neginf=np.inf), np.nan_to_num(jacobian))
            self._at = theta.copy()
        return self._last

    def failed(self, theta: np.ndarray) -> bool:
        """Whether there is no usable path at ``theta``."""
        return bool(np.abs(self.residuals(theta)).max(initial=0.0) >= _FAILED)

    def residuals(self, theta: np.ndarray) -> np.ndarray:
        return self._get(theta)[0]

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        return self._get(theta)[1]
