"""Paths with their uncertainty, at any times: the ODE for each draw, and the Gaussian process on top.

Where a variable was measured, the Gaussian process given the residuals corrects the ODE's
path, as in the paper; latent states are the ODE's path alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from gpnode._aliases import accepts
from gpnode._config import computing
from gpnode.data.experiments import Experiment
from gpnode.errors import ModelError
from gpnode.inference.sampled import pick_evenly
from gpnode.problem.density import Problem
from gpnode.problem.planning import driving_of
from gpnode.results.forecast_paths import solve_draws, solver_grid
from gpnode.results.posterior import Posterior
from gpnode.solvers import Status

if TYPE_CHECKING:
    import pandas as pd

_ROWS_SHOWN = 8
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
        # xarray's own loads dask first, where that is installed.
        values = np.quantile(self.states.to_numpy(), q, axis=self.states.get_axis_num("draw"))
        kept = self.states.isel(draw=0, drop=True)
        if np.ndim(q) == 0:
            return kept.copy(data=values).assign_coords(quantile=q)
        return kept.expand_dims(quantile=np.asarray(q)).copy(data=values)

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
    done: Experiment | None = None,
    new_individual: bool = False,
    noise: bool = False,
    max_draws: int = 1000,
    seed: int = 0,
) -> Forecast:
    """States at ``times`` (user units), for at most ``max_draws`` draws spread over the chains.

    Parameters
    ----------
    initial
        Where the system starts afresh, at the start time. States not named here start from their value in the measured
        run. The Gaussian process, which belongs to that run, is left out; likewise with the next two.
    experiment
        Which run; by default the first.
    done
        What is done in place of what was: other doses, inputs, events. Inputs that it does not name stay as they were.
    new_individual
        Parameters that differ between experiments are drawn anew from their population.
    noise
        Add measurement noise to observed variables.

    Examples
    --------
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
    if done is not None:
        problem = _with_done(posterior, problem, name, done)
    if new_individual and not problem.populations:
        raise ModelError("no parameter is from a population, so that there is no new individual. Use Population(...).")
    grid = solver_grid(problem, index, wanted)
    afresh = initial is not None or done is not None or new_individual
    paths = solve_draws(
        problem,
        jnp.asarray(chosen),
        keys,
        jnp.asarray(wanted),
        grid,
        index,
        _initial_values(problem, initial or {}),
        new_individual,
        not afresh,
        noise,
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


def _with_done(posterior: Posterior, problem: Problem, experiment: str, done: Experiment) -> Problem:
    """The problem with other things done in one experiment."""
    assert posterior.model is not None
    before = posterior.data.done.get(experiment, Experiment())
    replaced = {**posterior.data.done, experiment: replace(done, inputs={**before.inputs, **done.inputs})}
    return replace(problem, driving=driving_of(posterior.model, posterior.data, problem.scaling, replaced))


def _initial_values(problem: Problem, initial: Mapping[str, float]) -> Array:
    """Initial values (states,), NaN where the measured run's are to be used."""
    for name, value in initial.items():
        if name not in problem.states:
            raise ModelError(f"{name!r} is not a state; states are {', '.join(problem.states)}.")
        if not np.isfinite(value):
            raise ModelError(f"the initial value of {name!r} must be finite; got {value}.")
    return jnp.asarray([float(initial.get(s, np.nan)) for s in problem.states])


def _problem_of(posterior: Posterior) -> Problem:
    if posterior.problem is None:
        raise ModelError("forecasts need the model: load the posterior with Posterior.load(path, model=...).")
    return posterior.problem
