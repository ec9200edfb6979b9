"""Where a model meets data: scales, initial values, observables and blocks are fixed here."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from gpnode._config import require_float64
from gpnode.data.experiments import Experiment
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.data.series import Series
from gpnode.errors import SEE_WHAT_CANNOT, DataError, ModelError
from gpnode.model.model import Model
from gpnode.model.observation.families import Family
from gpnode.model.observation.kernels import priors_for
from gpnode.model.priors.distributions import centre_and_width
from gpnode.model.priors.ordering import sort_numbers
from gpnode.model.priors.population import population_block
from gpnode.problem.density import Problem
from gpnode.problem.grid import with_steps
from gpnode.problem.initial import as_arrays, initial_states
from gpnode.problem.observables import Measurements, Observable, Reading
from gpnode.problem.planning import driving_of, event_functions, trigger_functions
from gpnode.problem.resting import Resting, conserved_sums, held_system, stiff_solver
from gpnode.problem.smoothing import can_be_smoothed, characteristic_time, smooth, smoothed_level
from gpnode.solvers import FixedGrid, fastest_solver
from gpnode.solvers.base import FORWARD_LIMIT


def bind(model: Model, data: Observations, *, scaling: Scaling | None = None) -> Problem:
    """The posterior of ``model`` given ``data``, on a first grid, which :mod:`gpnode.problem.grid` refines.

    Scales come from the data, unless ``scaling`` holds those of an earlier run.

    >>> problem = gn.bind(model, data)
    """
    require_float64()
    _check_names(model, data)
    scaling = _scaling(model, data) if scaling is None else scaling
    observables = tuple(_observable(model, data, variable, scaling) for variable in data.variables)
    driving = driving_of(model, data, scaling, data.done)
    measured_times = _solver_times(data, scaling)
    dynamics = model.dynamics.bind(model.states, scaling, data.size, "")
    found = model.dynamics.populations("")
    populations = tuple(population_block(name, one, data.experiments) for name, one in found.items())
    shapes = {p.name: jnp.zeros(p.shape) for block in dynamics.blocks for p in block.parameters()}
    shapes |= {block.name: jnp.zeros(()) for block in populations}
    params = {name: shapes[name] for name in dynamics.parameter_names}
    actions = None if driving is None else jnp.asarray(driving.actions_on(measured_times))
    problem = Problem(
        dynamics=dynamics,
        initial=initial_states(model, data),
        observables=observables,
        measured=tuple(_measured(s, data, observables, scaling, measured_times) for s in data.series),
        scaling=scaling,
        solver=FixedGrid(),  # until it is known which one can
        nodes=jnp.asarray(measured_times),
        measured_times=jnp.asarray(measured_times),
        states=model.states,
        experiments=data.experiments,
        forward_limit=FORWARD_LIMIT,
        populations=populations,
        driving=driving,
        actions=actions,
        resting=None,
    )
    system = problem.system(None if actions is None else actions[0])
    problem = problem.with_solver(fastest_solver(model.solver, system, params, len(model.states)))
    if model.at_rest:
        problem = dataclasses.replace(problem, resting=_resting(problem))
    names = [p.name for p in problem.layout.parameters]
    for name in names:
        if "/" in name or name in _RESERVED:
            raise ModelError(f"{name!r} cannot name a parameter: it must not contain '/' or be chain or draw.")
        if names.count(name) > 1:
            raise ModelError(f"two parameters are named {name!r}. Rename one of them, or a state.")
    return with_steps(sort_numbers(problem))


def _resting(problem: Problem) -> Resting:
    """What finds steady states; sums that never change are told by a few prior draws."""
    draws = [problem.constrain(problem.draw_path_prior(jax.random.key(i), _any_hyper(problem))) for i in range(4)]
    names = problem.dynamics.parameter_names
    action = None if problem.driving is None else problem.driving.plans[0].before
    system = held_system(problem.system(None if action is None else action[None]), action)

    def slopes(x: Any, draw: int) -> Any:
        values = problem.values_in(draws[draw], 0)
        return system(problem.nodes[0, 0], x, {name: values[name] for name in names})

    sums = conserved_sums(slopes, len(problem.states))
    record = jnp.max(problem.nodes[:, -1] - problem.nodes[:, 0])
    return Resting(record, jnp.asarray(sums), stiff_solver(problem.solver.is_native))


def _any_hyper(problem: Problem) -> dict[str, Any]:
    """Hyperparameters that are possible."""
    return problem.hyper_block.draw(jax.random.key(0))


def fingerprint(model: Model, data: Observations) -> str:
    """A digest of everything that defines the posterior."""
    digest = hashlib.sha256(json.dumps(model.describe(), sort_keys=True, default=repr).encode())
    digest.update(data_fingerprint(data).encode())
    triggered = (function for pair in trigger_functions(model, data.done) for function in pair)
    for function in (*event_functions(model, data.done), *triggered):
        digest.update(function.digest.encode())
    return digest.hexdigest()


def data_fingerprint(data: Observations) -> str:
    """A digest of the measurements."""
    digest = hashlib.sha256()
    for s in data.series:
        digest.update(f"{s.experiment}\0{s.variable}\0{data.start[s.experiment]!r}".encode())
        digest.update(s.times.tobytes())
        digest.update(s.values.tobytes())
        if s.limits.any():
            digest.update(s.limits.tobytes())
    for name in sorted(data.done):
        digest.update("\0".join([name, *data.done[name].words()]).encode())
    return digest.hexdigest()


_RESERVED = ("chain", "draw")
_LEAST_SPREAD = 1e-3  # of measurements that are all but equal, in units of the largest


def _check_names(model: Model, data: Observations) -> None:
    for name in (*model.states, *data.experiments):
        if not name or "/" in name or name in _RESERVED:
            raise ModelError(
                f"{name!r} cannot name a state or experiment: results are kept under these names, which must not be "
                f"empty, contain '/', or be {' or '.join(_RESERVED)}. Rename it."
            )
    for variable in data.variables:
        if variable not in model.states and variable not in model.observables:
            raise ModelError(
                f"the data have a variable {variable!r} that is not a state; states are {', '.join(model.states)}. "
                "Leave the column out, add the state to the dynamics, or say how it follows from the states: "
                f"observables={{{variable!r}: lambda t, x, p: ...}}."
            )
    for what in ("kernel", "noise", "transform"):
        setting = getattr(model, what)
        if isinstance(setting, Mapping):
            for name in set(setting) - set(data.variables):
                raise ModelError(
                    f"{what} names {name!r}, which is not observed; observed are {', '.join(data.variables)}."
                )
    for name in model.observables:
        if name not in data.variables:
            raise ModelError(f"the observable {name!r} has no data; measured are {', '.join(data.variables)}.")
    for state in model.states:
        if state not in data.variables and state not in model.initial:
            raise ModelError(
                f"state {state!r} has no data and no initial value. "
                f"Give one: initial={{{state!r}: 1.0}}, or a prior such as LogNormal(0.0, 1.0)."
            )
    for series in data.series:
        noise = model.noise_of(series.variable)
        if series.limits.any():
            if not noise.is_normal:
                raise ModelError(
                    f"{series.variable!r} has limits, which normal noise alone can take. {SEE_WHAT_CANNOT}"
                )
            if isinstance(model.kernel, Mapping) and model.kernel.get(series.variable) is not None:
                raise ModelError(f"{series.variable!r} has limits, which no process can be added to.")
        if isinstance(noise, Family) and noise.refused(series.values).any():
            i = int(np.argmax(noise.refused(series.values)))
            raise DataError(
                f"{series.variable!r} is {series.values[i]:g} at time {series.times[i]:g}, which is no count: "
                f"{type(noise).__name__} is for {noise.domain}. Give the counts themselves, or other noise."
            )
        transform = model.transform_of(series.variable)
        outside = ~np.asarray(transform.inside(jnp.asarray(series.values)))
        if outside.any():
            i = int(np.argmax(outside))
            raise DataError(
                f"{series.variable!r} is {series.values[i]:g} at time {series.times[i]:g}, which has no "
                f"{transform.domain}. Use the identity transform for it, or treat the value as missing."
            )


def _scaling(model: Model, data: Observations) -> Scaling:
    origin = min(data.start.values())
    length = max(s.times[-1] - data.start[s.experiment] for s in data.series)
    return Scaling(
        state_scale=jnp.asarray([_state_scale(model, data, s) for s in model.states]),
        time_origin=jnp.asarray(origin, dtype=float),
        time_unit=jnp.asarray(model.time_unit or _time_unit(data), dtype=float),
        record_length=jnp.asarray(length, dtype=float),
    )


def _state_scale(model: Model, data: Observations, state: str) -> float:
    if state in model.scales:
        return float(model.scales[state])
    if state in data.variables:
        return float(np.abs(data.values_of(state)).max())
    initial = model.initial[state]
    sizes = [_size(v) for v in (initial.values() if isinstance(initial, Mapping) else [initial])]
    doses = [abs(dose.amount) for done in data.done.values() for dose in done.doses if dose.state == state]
    return max(*sizes, *doses, 0.0) or 1.0


def _size(initial: Any) -> float:
    if isinstance(initial, dist.Distribution):
        centre, width = centre_and_width(initial)
        return float(jnp.abs(centre) + width)
    return abs(float(initial)) if isinstance(initial, Real) else 0.0


def _time_unit(data: Observations) -> float:
    """Median characteristic time of the series that are long enough to be smoothed."""
    times = [characteristic_time(s.times, smooth(s.times, s.values)) for s in data.series if can_be_smoothed(s.times)]
    sound = [t for t in times if np.isfinite(t) and t > 0]
    spans = [s.times[-1] - data.start[s.experiment] for s in data.series]
    return float(np.clip(np.median(sound), max(spans) / 1000.0, max(spans))) if sound else max(spans) / 10.0


def _observable(model: Model, data: Observations, variable: str, scaling: Scaling) -> Observable:
    state = model.states.index(variable) if variable in model.states else None
    reading = _reading(model, data, variable, scaling) if state is None else None
    scale = scaling.state_scale[state] if reading is None else reading.scale
    transform, kernel = model.transform_of(variable), model.kernel_of(variable)
    if any(s.limits.any() for s in data.of(variable)):
        kernel = None  # what is beyond a limit has no normal density together with the rest
    if kernel is not None:
        series = data.of(variable)
        y = [np.asarray(transform.forward(jnp.asarray(s.values) / scale)) for s in series]
        gaps = np.concatenate([np.diff(np.unique(s.times)) for s in series]) / float(scaling.record_length)
        gap = float(np.median(gaps)) if gaps.size else 1.0
        kernel = as_arrays(kernel.completed(priors_for(max(float(np.concatenate(y).std()), _LEAST_SPREAD), gap)))
    return Observable(
        kernel=kernel,
        noise=model.noise_of(variable),
        transform=transform,
        unit=scale if transform.keeps_units else jnp.ones(()),
        record_length=scaling.record_length,
        reading=reading,
        variable=variable,
        state=state,
    )


def _reading(model: Model, data: Observations, variable: str, scaling: Scaling) -> Reading:
    """What a measured variable is that is no state."""
    observable, everywhere = model.observable_of(variable), model.measuring_priors()
    free = {n: as_arrays(p) for n, p in observable.priors.items() if isinstance(p, dist.Distribution)}
    fixed = {n: float(p) for n, p in everywhere.items() if isinstance(p, Real)}
    function = observable.bound(variable, model.states, (*model.dynamics.numbers, *everywhere))
    scale = float(model.scales.get(variable, np.abs(data.values_of(variable)).max()))
    return Reading(free, fixed, scaling, jnp.asarray(scale or 1.0), function, model.states, observable.since_last)


def _solver_times(data: Observations, scaling: Scaling) -> np.ndarray:
    """Start, measurement times and changes of each experiment (experiments, times), the last one repeated.

    The time of a jump is there twice.
    """
    times = []
    for r in data.experiments:
        done = data.done.get(r, Experiment())
        measured = np.concatenate([[data.start[r]], *(s.times for s in data.series if s.experiment == r)])
        before_end = [t[(t >= measured.min()) & (t < measured.max())] for t in (done.break_times(), done.jump_times())]
        times.append(np.sort(np.concatenate([np.union1d(measured, before_end[0]), before_end[1]])))
    longest = max(t.size for t in times)
    padded = np.stack([np.pad(t, (0, longest - t.size), mode="edge") for t in times])
    return np.asarray(scaling.solver_time(jnp.asarray(padded)))


def _measured(
    series: Series, data: Observations, observables: tuple[Observable, ...], scaling: Scaling, solver_times: np.ndarray
) -> Measurements:
    experiment = data.experiments.index(series.experiment)
    index = data.variables.index(series.variable)
    observable = observables[index]
    times = np.asarray(scaling.solver_time(jnp.asarray(series.times)))
    scale = scaling.state_scale[observable.state] if observable.reading is None else observable.reading.scale
    scaled = jnp.asarray(series.values) / scale
    gp_times = scaling.gp_time(jnp.asarray(series.times))
    y = np.asarray(observable.transform.forward(scaled))
    return Measurements(
        y=jnp.asarray(y),
        level=jnp.asarray(smoothed_level(series.times, y)),
        gp_times=gp_times,
        rows=jnp.asarray(np.searchsorted(solver_times[experiment], times)),
        lags=observable.lags(gp_times),
        limits=jnp.asarray(series.limits) if series.limits.any() else None,
        previous=jnp.asarray(np.searchsorted(times, times) - 1) if observable.since_last else None,
        observable=index,
        experiment=experiment,
    )
