"""Paths with their uncertainty, at any times: the ODE for each draw, and the Gaussian process on top.

Where a variable was measured, the Gaussian process given the residuals corrects the ODE's
path, as in the paper; latent states are the ODE's path alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import xarray as xr
from jax import Array

from gpnode._aliases import accepts
from gpnode._config import computing
from gpnode.errors import ModelError
from gpnode.inference.sampled import pick_evenly
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.problem.observables import Measurements, Observable
from gpnode.results.posterior import Posterior
from gpnode.solvers import Status

if TYPE_CHECKING:
    import pandas as pd

_ROWS_SHOWN = 8
_STEP_ERROR = 1e-7  # of one step, relative to states of order one
_MOST_STEPS = 20_000
_MARGIN = 0.05  # of the range of measurements, by which a start may lie beyond them


@dataclass(frozen=True)
class Forecast:
    """Draws of the states at chosen times, in the user's units, and of measured variables that are no states.

    ``states`` (draw, time, state) includes the Gaussian process where there is one; ``ode`` is the path
    of the equations alone; ``expected`` the mean of each draw's states given the data. ``map_path`` (time,
    state) is the expected path of the draw with the highest posterior density of all, which is not the mean.
    ``failures`` counts draws whose path could not be solved; they are left out and this count says so.
    ``outside`` names the states whose new start lies beyond all that was measured of them: nothing was seen of what the
    equations do there.

    >>> ahead = gn.forecast(posterior, np.linspace(0.0, 8.0, 5))
    >>> ahead.to_dataframe().shape
    (5, 5)
    """

    states: xr.DataArray
    ode: xr.DataArray
    expected: xr.DataArray
    map_path: xr.DataArray
    failures: int
    experiment: str
    outside: tuple[str, ...] = ()

    @property
    def times(self) -> np.ndarray:
        return self.states["time"].to_numpy()

    def mean(self) -> xr.DataArray:
        """Mean over draws (time, state)."""
        return self.states.mean("draw")

    def std(self) -> xr.DataArray:
        """Standard deviation over draws (time, state)."""
        return self.states.std("draw", ddof=1)

    def quantile(self, q: float | Sequence[float]) -> xr.DataArray:
        """Quantiles over draws, (time, state) or (quantile, time, state)."""
        return self.states.quantile(q, "draw")

    def interval(self, probability: float = 0.95) -> tuple[xr.DataArray, xr.DataArray]:
        """Lower and upper end (time, state) of the central interval, which holds the state at any one time.

        A path is smooth: where it leaves the interval it stays outside for a while, so that one path in several may be
        outside for more than the twentieth of its length that it is on average. See :meth:`envelope`.
        """
        tail = 0.5 * (1.0 - probability)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def envelope(self, probability: float = 0.95) -> tuple[xr.DataArray, xr.DataArray]:
        """Lower and upper end (time, state) of a band that holds a state's whole path with this probability.

        It is the :meth:`interval`, widened about the median by one factor for each state.
        """
        low, high = self.interval(probability)
        middle = self.quantile(0.5)
        away = self.states - middle
        reach = xr.where(away < 0, low - middle, high - middle)
        # Where all draws agree, as at a known start, nothing can be outside.
        widths = (away / reach.where(reach != 0)).fillna(0.0).max("time")
        factor = np.maximum(widths.quantile(probability, "draw"), 1.0)
        return middle + factor * (low - middle), middle + factor * (high - middle)

    def table(self, probability: float = 0.95) -> dict[str, np.ndarray]:
        """Columns for a spreadsheet: time, then mean, std, lower and upper end for each state."""
        low, high = self.interval(probability)
        columns = {"time": self.times}
        for state in self.states["state"].to_numpy():
            for name, array in (("mean", self.mean()), ("std", self.std()), ("low", low), ("high", high)):
                columns[f"{state}.{name}"] = array.sel(state=state).to_numpy()
        return columns

    def to_dataframe(self, probability: float = 0.95) -> pd.DataFrame:
        """The columns of :meth:`table`."""
        import pandas as pd

        return pd.DataFrame(self.table(probability))

    def __str__(self) -> str:
        rows = self.to_dataframe()
        shown = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, _ROWS_SHOWN).astype(int))]
        title = f"Forecast at {len(rows)} times, {self.states.sizes['draw']} draws, 95 % intervals:"
        return f"{title}\n{shown.to_string(index=False, float_format='%.4g')}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from gpnode.render import notebook

        return notebook.forecast(self)


@accepts(trajectory="experiment")
@computing()
def forecast(
    posterior: Posterior,
    times: Any,
    *,
    initial: Mapping[str, float] | None = None,
    experiment: str | None = None,
    noise: bool = False,
    max_draws: int = 1000,
    seed: int = 0,
) -> Forecast:
    """States at ``times`` (user units), for at most ``max_draws`` draws spread over the chains.

    With ``initial`` the system starts afresh at the start time from these values, and the Gaussian
    process, which belongs to the measured run, is left out. States not named there start from their value in the
    measured run. ``noise`` adds measurement noise to observed variables.

    >>> ahead = gn.forecast(posterior, np.linspace(0.0, 8.0, 50), initial={"x": 2.0})
    >>> ahead.states.sizes["time"]
    50
    """
    problem = _problem_of(posterior)
    name = problem.experiments[0] if experiment is None else experiment
    if name not in problem.experiments:
        raise ModelError(f"there is no experiment {name!r}; there are {', '.join(problem.experiments)}.")
    wanted = np.unique(np.asarray(times, dtype=float))
    start = posterior.data.start[name]
    if wanted.size == 0 or not np.isfinite(wanted).all() or wanted[0] < start:
        raise ModelError(f"times must be finite and not before the start, {start:g}.")
    chosen = _pick_draws(posterior, max_draws)
    keys = jax.random.split(jax.random.key(seed), len(chosen))
    index = problem.experiments.index(name)
    grid = _grid(problem, index, wanted)
    paths = _paths(
        problem, jnp.asarray(chosen), keys, jnp.asarray(wanted), grid, index, _initial_values(problem, initial), noise
    )
    # The last draw is the one of highest density, and is no part of the sample.
    sound = np.asarray(paths.status)[:-1] == Status.OK
    if not sound.any():
        raise ModelError("no draw could be solved over these times. Forecast over a shorter time.")
    coords = {"time": wanted, "state": list(problem.outputs)}

    def labelled(values: Array) -> xr.DataArray:
        return xr.DataArray(np.asarray(values)[:-1][sound], dims=("draw", "time", "state"), coords=coords)

    best = (
        np.asarray(paths.expected[-1]) if int(paths.status[-1]) == Status.OK else np.full(paths.ode.shape[1:], np.nan)
    )
    return Forecast(
        states=labelled(paths.full),
        ode=labelled(paths.ode),
        expected=labelled(paths.expected),
        map_path=xr.DataArray(best, dims=("time", "state"), coords=coords),
        failures=int((~sound).sum()),
        experiment=name,
        outside=_outside(posterior, initial or {}),
    )


def _outside(posterior: Posterior, initial: Mapping[str, float]) -> tuple[str, ...]:
    """Which of the new starts lie beyond the measurements of their state, by more than a margin."""
    outside = []
    for state, value in initial.items():
        if state in posterior.data.variables:
            measured = posterior.data.values_of(state)
            margin = _MARGIN * np.ptp(measured)
            if not measured.min() - margin <= value <= measured.max() + margin:
                outside.append(state)
    return tuple(outside)


def _pick_draws(posterior: Posterior, most: int) -> np.ndarray:
    """At most ``most`` draws spread over the chains, and after them the one of highest density."""
    density = posterior.stats["log_density"].to_numpy()
    best = np.unravel_index(np.argmax(np.where(np.isfinite(density), density, -np.inf)), density.shape)
    return np.concatenate([pick_evenly(posterior.unconstrained, most), posterior.unconstrained[best][None]])


def _initial_values(problem: Problem, initial: Mapping[str, float] | None) -> Array | None:
    """Initial values (states,), NaN where the measured run's are to be used; None without new ones."""
    if initial is None:
        return None
    for name, value in initial.items():
        if name not in problem.states:
            raise ModelError(f"{name!r} is not a state; states are {', '.join(problem.states)}.")
        if not np.isfinite(value):
            raise ModelError(f"the initial value of {name!r} must be finite; got {value}.")
    return jnp.asarray([float(initial.get(s, np.nan)) for s in problem.states])


def _grid(problem: Problem, experiment: int, times: np.ndarray) -> Array:
    """Times to solve between the wanted ones: long intervals would hide fast motion from the solver."""
    ends = np.asarray(problem.scaling.solver_time(jnp.asarray(times)))
    steps = np.diff(np.asarray(problem.nodes[experiment]))
    step = max(np.median(steps[steps > 0]), (ends[-1] - float(problem.nodes[experiment, 0])) / _MOST_STEPS)
    return jnp.arange(float(problem.nodes[experiment, 0]), ends[-1], step)


def _problem_of(posterior: Posterior) -> Problem:
    if posterior.problem is None:
        raise ModelError("forecasts need the model: load the posterior with Posterior.load(path, model=...).")
    return posterior.problem


class Paths(NamedTuple):
    """Of every draw (draws, times, states) in user units: a draw of the states, their expectation, the ODE's path."""

    full: Array
    expected: Array
    ode: Array
    status: Array


@eqx.filter_jit
def _paths(
    problem: Problem,
    draws: Array,
    keys: Array,
    times: Array,
    grid: Array,
    experiment: int,
    initial: Array | None,
    noise: bool,
) -> Paths:
    scaling = problem.scaling
    blocks = [m for m in problem.measured if m.experiment == experiment]
    ts = scaling.solver_time(times)
    begin = problem.nodes[experiment, :1]
    measured_ts = [problem.nodes[experiment][m.rows] for m in blocks]
    everything = jnp.concatenate([begin, ts, *measured_ts, grid])
    order = jnp.argsort(everything)
    back = jnp.argsort(order)
    exact = problem.with_solver(problem.solver.controlled(_STEP_ERROR))

    def one(args: tuple[Array, Array]) -> Paths:
        unconstrained, key = args
        values = problem.constrain(unconstrained)
        solved = exact.solve_path(values, experiment, everything[order], initial)
        at = problem.outputs_along(everything, solved.xs[back], values, experiment)
        ode = at[1 : 1 + ts.size]
        full, expected, offset, status = ode, ode, 1 + ts.size, solved.status
        for block in blocks:
            observable = problem.observables[block.observable]
            place = problem.outputs.index(observable.variable)
            seen = at[offset : offset + block.y.size, place]
            offset += block.y.size
            inside = jnp.all(observable.transform.inside(ode[:, place]))
            inside &= jnp.all(observable.transform.inside(seen))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            key, sub = jax.random.split(key)
            drawn, middle = _with_process(
                observable,
                block,
                values,
                ode[:, place],
                seen,
                scaling.gp_time(times),
                sub,
                initial is None,
                noise,
            )
            full, expected = full.at[:, place].set(drawn), expected.at[:, place].set(middle)
        scale = problem.output_scale
        return Paths(full * scale, expected * scale, ode * scale, status)

    # One draw after the other: factorisations of many matrices at once can lock up XLA's threads on a small machine.
    return jax.lax.map(one, (draws, keys))


def _with_process(
    observable: Observable,
    block: Measurements,
    values: Values,
    path: Array,
    path_at_data: Array,
    gp_times: Array,
    key: Array,
    condition: bool,
    noise: bool,
) -> tuple[Array, Array]:
    """One draw of the measured variable given its data (path, conditioned process, optional noise), and its centre."""
    transform = observable.transform
    mean = transform.forward(path)
    drawn = mean
    process_key, noise_key = jax.random.split(key)
    if observable.kernel is not None and condition:
        residual = block.y - transform.forward(path_at_data)
        shift, cov = conditional(observable, values, block, residual, gp_times)
        size = observable.signal_cov(values, gp_times[:1], gp_times[:1])[0, 0]
        mean = mean + shift
        drawn = mean + _draw_normal(process_key, cov, size)
    if noise:
        drawn = observable.add_noise(values, drawn, noise_key)
    return transform.backward(drawn), transform.backward(mean)


def conditional(
    observable: Observable, values: Values, block: Measurements, residual: Array, new_times: Array
) -> tuple[Array, Array]:
    """Mean (m,) and covariance (m, m) of the process at ``new_times`` given the ``residual`` (n,) of a block."""
    factor = jsl.cho_factor(observable.noisy_cov(values, block), lower=True)
    cross = observable.signal_cov(values, new_times, block.gp_times)
    mean = cross @ jsl.cho_solve(factor, residual)
    cov = observable.signal_cov(values, new_times, new_times) - cross @ jsl.cho_solve(factor, cross.T)
    return mean, 0.5 * (cov + cov.T)


def _draw_normal(key: Array, cov: Array, size: Array) -> Array:
    """A draw with a covariance that may be singular to rounding, of a process with variance ``size``."""
    # A jitter far too small to see; where rounding is worse than that, a larger one.
    fine, coarse = (jnp.linalg.cholesky(cov + relative * size * jnp.eye(len(cov))) for relative in (1e-9, 1e-5))
    factor = jnp.where(jnp.all(jnp.isfinite(fine)), fine, coarse)
    return factor @ jax.random.normal(key, (len(cov),))
