"""Where a model meets data: scales, initial values, observables and blocks are fixed here."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from gpnode._config import require_float64
from gpnode.data.experiments import Experiment
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.errors import SEE_WHAT_CANNOT, DataError, ModelError
from gpnode.model.model import Model
from gpnode.model.observation.families import Family
from gpnode.model.observation.formula_noise import BoundFormula
from gpnode.model.priors.distributions import centre_and_width
from gpnode.model.priors.ordering import sort_numbers
from gpnode.model.priors.parameters import Independent
from gpnode.model.priors.population import population_block
from gpnode.problem.conditions import conditions_of
from gpnode.problem.density import Problem
from gpnode.problem.grid import with_steps
from gpnode.problem.initial import as_arrays, initial_states
from gpnode.problem.measuring import bind_noise, bind_observable, bind_series, done_in
from gpnode.problem.planning import driving_of, event_functions, trigger_functions
from gpnode.problem.resting import Resting, conserved_sums, held_system, stiff_solver
from gpnode.problem.smoothing import can_be_smoothed, characteristic_time, smooth
from gpnode.solvers import FixedGrid, fastest_solver
from gpnode.solvers.base import FORWARD_LIMIT
from gpnode.tracing.arrays import at_once


def bind(model: Model, data: Observations, *, scaling: Scaling | None = None) -> Problem:
    """The posterior of ``model`` given ``data``, on a first grid, which :mod:`gpnode.problem.grid` refines.

    Scales come from the data, unless ``scaling`` holds those of an earlier run.

    >>> problem = gn.bind(model, data)
    """
    require_float64()
    _check_names(model, data)
    scaling = _scaling(model, data) if scaling is None else scaling
    observables = tuple(bind_observable(model, data, variable, scaling) for variable in data.variables)
    driving = driving_of(model, data, scaling, data.done)
    measured_times = _solver_times(data, scaling)
    conditions = conditions_of(model, data)
    dynamics = model.dynamics.bind(model.states, scaling, data.size, "")
    if conditions is not None:
        dynamics = dynamics.with_computed(frozenset(conditions.names))
    found = model.dynamics.populations("")
    populations = tuple(population_block(name, one, data.experiments) for name, one in found.items())
    shapes = {p.name: np.zeros(p.shape) for block in dynamics.blocks for p in block.parameters()}
    individual = (*(block.name for block in populations), *(() if conditions is None else conditions.names))
    shapes |= dict.fromkeys(individual, np.zeros(()))
    params = {name: shapes[name] for name in dynamics.parameter_names}
    actions = None if driving is None else jnp.asarray(driving.actions_on(measured_times))
    problem = Problem(
        dynamics=dynamics,
        initial=initial_states(model, data),
        observables=observables,
        measured=tuple(bind_series(s, data, observables, scaling, measured_times) for s in data.series),
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
        conditions=conditions,
        shared=Independent({n: as_arrays(p) for n, p in model.parameters.items() if isinstance(p, dist.Distribution)}),
    )
    system = problem.system(None if actions is None else actions[0])
    problem = problem.with_solver(fastest_solver(model.solver, system, params, len(model.states)))
    begins = [r for r, name in enumerate(data.experiments) if model.at_rest or done_in(data, name).at_rest]
    if begins:
        problem = dataclasses.replace(problem, resting=_resting(problem, begins))
    names = [p.name for p in problem.layout.parameters]
    for name in names:
        if "/" in name or name in _RESERVED:
            raise ModelError(f"{name!r} cannot name a parameter: it must not contain '/' or be chain or draw.")
        if names.count(name) > 1:
            raise ModelError(f"two parameters are named {name!r}. Rename one of them, or a state.")
    return with_steps(sort_numbers(problem))


def _resting(problem: Problem, begins: list[int]) -> Resting:
    """What finds steady states of experiments."""
    solved, source = _same_rest(problem, begins)
    conserved = jnp.asarray(np.stack([_conserved(problem, experiment) for experiment in solved]))
    record = problem.scaling.record_length / problem.scaling.time_unit
    return Resting(record, conserved, stiff_solver(problem.solver.is_native), tuple(begins), solved, source)


def _conserved(problem: Problem, experiment: int) -> np.ndarray:
    """Sums that never change before an experiment: seen at a few parameters of order one, whatever their priors."""
    rng = np.random.default_rng(1)
    shapes = [(p.name, p.shape) for p in problem.layout.parameters]
    draws = [{name: jnp.asarray(rng.uniform(0.5, 2.0, shape)) for name, shape in shapes} for _ in range(4)]
    values = [problem.values_before(draw, experiment) for draw in draws]
    action = None if problem.driving is None else problem.driving.plans[experiment].before
    system = held_system(problem.system(None if action is None else action[None]), action)
    names = problem.dynamics.parameter_names

    def slopes(x: Array, draw: int) -> Array:
        return system(problem.nodes[experiment, 0], x, {name: values[draw][name] for name in names})

    return conserved_sums(slopes, np.asarray(problem.scaling.state_scale))


def _same_rest(problem: Problem, begins: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """One experiment of each kind that comes from the same place under the same conditions, and the kind of each."""
    if problem.populations:
        return tuple(begins), tuple(range(len(begins)))
    kinds: dict[Any, int] = {}
    source = []
    for r in begins:
        formulas = tuple(i for i, (rows, _, _) in enumerate(problem.initial.formulas) if r in rows)
        unknown = tuple(name for row, _, name in problem.initial.unknown if row == r)
        at = [problem.nodes[r, 0], problem.initial.known[r]]
        at += [] if problem.driving is None else [problem.driving.plans[r].before]
        at += [] if problem.conditions is None else [problem.conditions.before[r]]
        kind = (formulas, unknown, *(np.asarray(part).tobytes() for part in at))
        source.append(kinds.setdefault(kind, r))
    solved = tuple(kinds.values())
    return solved, tuple(solved.index(r) for r in source)


def fingerprint(model: Model, data: Observations) -> str:
    """A digest of everything that defines the posterior."""
    digest = hashlib.sha256(json.dumps(model.describe(), sort_keys=True, default=repr).encode())
    digest.update(data_fingerprint(data).encode())
    triggered = (function for pair in trigger_functions(model, data.done) for function in pair)
    for function in (*event_functions(model, data.done), *triggered):
        digest.update(function.digest.encode())
    for variable in data.variables:
        noise = bind_noise(model, data, variable)
        if isinstance(noise, BoundFormula):
            digest.update(noise.std_of.digest.encode())
    for _, state, function in initial_states(model, data).formulas:
        digest.update(f"{state} {function.digest}".encode())
    conditions = conditions_of(model, data)
    if conditions is not None:
        digest.update("\0".join(function.digest for function in conditions.functions).encode())
        digest.update(np.asarray(conditions.during).tobytes() + np.asarray(conditions.before).tobytes())
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
        for name in sorted(s.numbers):
            digest.update(name.encode() + s.numbers[name].tobytes())
    for name in sorted(data.done):
        digest.update("\0".join([name, *data.done[name].words()]).encode())
    return digest.hexdigest()


_RESERVED = ("chain", "draw")
_AFTERWARDS = 1e-3  # of an experiment: how much longer it lasts where its last measurement comes after a jump


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
        outside = ~np.asarray(at_once(transform.inside, jnp.asarray(series.values)))
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
        record_length=jnp.asarray(length or 1.0, dtype=float),
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
    return abs(float(initial)) if isinstance(initial, Real) else 0.0  # of a formula nothing is known: give a scale


def _time_unit(data: Observations) -> float:
    """Median characteristic time of the series that are long enough to be smoothed."""
    varying = [s for s in data.series if can_be_smoothed(s.times) and np.ptp(s.values) > 0]
    times = [characteristic_time(s.times, smooth(s.times, s.values)) for s in varying]
    sound = [t for t in times if np.isfinite(t) and t > 0]
    spans = [s.times[-1] - data.start[s.experiment] for s in data.series]
    if not max(spans) > 0:
        return 1.0
    return float(np.clip(np.median(sound), max(spans) / 1000.0, max(spans))) if sound else max(spans) / 10.0


def _solver_times(data: Observations, scaling: Scaling) -> np.ndarray:
    """Start, measurement times and changes of each experiment (experiments, times), the last one repeated.

    The time of a jump is there twice.
    """
    times = []
    for r in data.experiments:
        done = data.done.get(r, Experiment())
        measured = np.concatenate([[data.start[r]], *(s.times for s in data.series if s.experiment == r)])
        if done.measured_after and measured.max() in done.jump_times():
            measured = np.append(measured, measured.max() + _AFTERWARDS * (np.ptp(measured) or 1.0))
        before_end = [t[(t >= measured.min()) & (t < measured.max())] for t in (done.break_times(), done.jump_times())]
        times.append(np.sort(np.concatenate([np.union1d(measured, before_end[0]), before_end[1]])))
    longest = max(t.size for t in times)
    padded = np.stack([np.pad(t, (0, longest - t.size), mode="edge") for t in times])
    return np.asarray(scaling.solver_time(padded))
