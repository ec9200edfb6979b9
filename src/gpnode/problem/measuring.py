"""How each variable is measured, once a model has met its data: readings, noise, and blocks of measurements."""

from __future__ import annotations

from numbers import Real

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from gpnode.data.experiments import Experiment
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.data.series import Series, numbers_beside
from gpnode.errors import ModelError
from gpnode.model.model import Model
from gpnode.model.observation.formula_noise import BoundFormula, FormulaNoise
from gpnode.model.observation.kernels import priors_for
from gpnode.model.observation.noise import NoiseModel
from gpnode.problem.initial import as_arrays
from gpnode.problem.observables import Measurements, Observable, Reading
from gpnode.problem.smoothing import smoothed_level
from gpnode.tracing.arrays import at_once

_LEAST_SPREAD = 1e-3  # of measurements that are all but equal, in units of the largest


def done_in(data: Observations, experiment: str) -> Experiment:
    """What is done in an experiment."""
    return data.done.get(experiment, Experiment())


def bind_observable(model: Model, data: Observations, variable: str, scaling: Scaling) -> Observable:
    """How a variable is measured, in scaled units."""
    state = model.states.index(variable) if variable in model.states else None
    reading = _reading(model, data, variable, scaling) if state is None else None
    scale = np.asarray(scaling.state_scale)[state] if reading is None else np.asarray(reading.scale)
    transform, kernel, noise = (
        model.transform_of(variable),
        model.kernel_of(variable),
        bind_noise(model, data, variable),
    )
    if isinstance(noise, BoundFormula) and noise.sees_path:
        kernel = None  # what depends on the path is no part of a covariance that is known without it
    if any(s.limits.any() for s in data.of(variable)):
        kernel = None  # what is beyond a limit has no normal density together with the rest
    if kernel is not None:
        series = data.of(variable)
        y = [np.asarray(at_once(transform.forward, jnp.asarray(s.values / scale))) for s in series]
        gaps = np.concatenate([np.diff(np.unique(s.times)) for s in series]) / float(scaling.record_length)
        gap = float(np.median(gaps)) if gaps.size else 1.0
        kernel = as_arrays(kernel.completed(priors_for(max(float(np.concatenate(y).std()), _LEAST_SPREAD), gap)))
    return Observable(
        kernel=kernel,
        noise=noise,
        transform=transform,
        unit=jnp.asarray(scale if transform.keeps_units else 1.0),
        record_length=scaling.record_length,
        reading=reading,
        variable=variable,
        state=state,
    )


def bind_noise(model: Model, data: Observations, variable: str) -> NoiseModel:
    """The noise of a variable; a formula knows what it may use."""
    noise = model.noise_of(variable)
    if not isinstance(noise, FormulaNoise):
        return noise
    return noise.bound(variable, model.states, _usable(model, data, variable))


def _usable(model: Model, data: Observations, variable: str) -> tuple[str, ...]:
    """What functions of a variable may use besides states: parameters, and numbers that come with its measurements."""
    parameters, beside = (*model.dynamics.numbers, *model.measuring_priors()), numbers_beside(data.of(variable))
    for name in beside:
        if name in parameters or name in model.states:
            raise ModelError(f"{name!r} comes with measurements of {variable!r}, and is a parameter, too. Rename one.")
    return (*parameters, *beside)


def sees_path(model: Model, data: Observations, variable: str) -> bool:
    """Whether the noise of a variable depends on the path, or on what moves it."""
    noise = bind_noise(model, data, variable)
    if not isinstance(noise, BoundFormula):
        return False
    free = {n for n, p in model.measuring_priors().items() if isinstance(p, dist.Distribution)}
    return noise.sees_path or bool(noise.used & (free | set(model.dynamics.numbers)) - set(noise.fixed))


def _reading(model: Model, data: Observations, variable: str, scaling: Scaling) -> Reading:
    """What a measured variable is that is no state."""
    observable, everywhere = model.observable_of(variable), model.measuring_priors()
    free = {n: as_arrays(p) for n, p in observable.priors.items() if isinstance(p, dist.Distribution)}
    fixed = {n: float(p) for n, p in everywhere.items() if isinstance(p, Real)}
    function = observable.bound(variable, model.states, _usable(model, data, variable))
    scale = float(model.scales.get(variable, np.abs(data.values_of(variable)).max()))
    return Reading(free, fixed, scaling, jnp.asarray(scale or 1.0), function, model.states, observable.since_last)


def bind_series(
    series: Series, data: Observations, observables: tuple[Observable, ...], scaling: Scaling, solver_times: np.ndarray
) -> Measurements:
    """One series as a block, whose rows are those of ``solver_times`` (experiments, times)."""
    experiment = data.experiments.index(series.experiment)
    index = data.variables.index(series.variable)
    observable = observables[index]
    times = np.asarray(scaling.solver_time(series.times))
    reading = observable.reading
    scale = np.asarray(scaling.state_scale)[observable.state] if reading is None else np.asarray(reading.scale)
    gp_times = at_once(scaling.gp_time, jnp.asarray(series.times))
    y = np.asarray(at_once(observable.transform.forward, jnp.asarray(series.values / scale)))
    after = done_in(data, series.experiment).measured_after
    rows = np.searchsorted(solver_times[experiment], times, side="right" if after else "left") - int(after)
    level = y if isinstance(observable.noise, BoundFormula) else smoothed_level(series.times, y)
    return Measurements(
        y=jnp.asarray(y),
        level=jnp.asarray(level),
        gp_times=gp_times,
        rows=jnp.asarray(rows),
        lags=observable.lags(gp_times),
        limits=jnp.asarray(series.limits) if series.limits.any() else None,
        previous=jnp.asarray(np.searchsorted(times, times) - 1) if observable.since_last else None,
        numbers={name: jnp.asarray(column, dtype=float) for name, column in series.numbers.items()},
        observable=index,
        experiment=experiment,
    )
