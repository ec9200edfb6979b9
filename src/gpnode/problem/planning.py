"""From what experiments say is done to what the solver meets: checks, and numbers for each interval."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from gpnode.data.experiments import Event, Experiment, Input, Trigger
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.errors import DataError, ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest
from gpnode.model.functions import shapes_of
from gpnode.model.model import Model
from gpnode.problem.conditions import computed_names
from gpnode.problem.driving import ORDER, Driving, Late, Plan


def driving_of(
    model: Model, data: Observations, scaling: Scaling, experiments: Mapping[str, Experiment]
) -> Driving | None:
    """What is done in the experiments of ``data``, as ``experiments`` tells; None if nothing is."""
    delays, states = model.dynamics.late(""), model.states
    done = {name: experiments.get(name, Experiment()) for name in data.experiments}
    _check(model.given(), delays, done, states, data.start)
    computed = computed_names(model, done)
    given = {full: name for full, name in model.given().items() if full not in computed}
    doses = [dose for one in done.values() for dose in one.doses]
    infused = tuple(i for i, s in enumerate(states) if any(d.state == s and d.duration for d in doses))
    dosed = tuple(i for i, s in enumerate(states) if any(d.state == s and not d.duration for d in doses))
    events = [event for one in done.values() for event in one.events]
    triggers = [trigger for one in done.values() for trigger in one.triggers]
    if not (given or infused or dosed or events or triggers):
        return None
    functions, conditions = event_functions(model, done), trigger_functions(model, done)
    distinct = tuple(dict.fromkeys((*functions, *(change for _, change in conditions))))
    kinds = tuple(dict.fromkeys((when, distinct.index(change)) for when, change in conditions))
    counts = np.zeros((len(done), len(kinds)), dtype=int)
    owners = [r for r, one in enumerate(done.values()) for _ in one.triggers]
    for r, trigger, (when, change) in zip(owners, triggers, conditions, strict=True):
        counts[r, kinds.index((when, distinct.index(change)))] += trigger.count
    inputs = tuple(
        (full, 1 if all(_is_stepwise(one.inputs[name]) for one in done.values()) else ORDER + 1)
        for full, name in given.items()
    )
    used = tuple(full for full, name in delays.items() if any(d.delay == name for d in doses))
    most = int(counts.sum(axis=1).max())
    driving = Driving(
        plans=(),
        late=None,
        counts=jnp.asarray(counts),
        scaling=scaling,
        inputs=inputs,
        infused=infused,
        dosed=dosed,
        events=distinct,
        states=states,
        delays=used,
        triggers=kinds,
        most_triggered=most,
    )
    flags = dict(zip(map(id, events), map(distinct.index, functions), strict=True))
    plans = tuple(_plan(driving, given, one, flags, data.start[name]) for name, one in done.items())
    late = _late(driving, delays, list(done.values())) if used else None
    return dataclasses.replace(driving, plans=plans, late=late)


def _late(driving: Driving, names: Mapping[str, str], done: list[Experiment]) -> Late:
    """Doses that are delayed, of all experiments."""
    most = max(sum(d.count for d in one.doses if d.delay is not None) for one in done)
    times, jumps = np.full((len(done), most), np.inf), np.zeros((len(done), most, driving.size))
    which = np.zeros((len(done), most), dtype=int)
    dosed = sum(n for _, n in driving.inputs) + len(driving.infused)
    for r, one in enumerate(done):
        listed = [(dose, time) for dose in one.doses if dose.delay is not None for time in dose.times]
        for m, (dose, time) in enumerate(listed):
            which[r, m] = [names[full] for full in driving.delays].index(str(dose.delay))
            times[r, m] = time
            jumps[r, m, dosed + driving.dosed.index(driving.states.index(dose.state))] = dose.amount
            jumps[r, m, driving.first_delay + 2 * which[r, m]] = 1.0
    return Late(driving.scaling.solver_time(times), jnp.asarray(jumps), jnp.asarray(which))


def event_functions(model: Model, done: Mapping[str, Experiment]) -> tuple[SharedFunction, ...]:
    """What becomes of states, for every event of all experiments."""
    events = [event for one in done.values() for event in one.events]
    return tuple(_event_function(event, model.states, model.dynamics.numbers) for event in events)


def trigger_functions(
    model: Model, done: Mapping[str, Experiment]
) -> tuple[tuple[SharedFunction, SharedFunction], ...]:
    """When and how states change, for every trigger of all experiments."""
    states, numbers = model.states, model.dynamics.numbers
    return tuple(
        (_condition(trigger, states, numbers), _event_function(trigger, states, numbers))
        for one in done.values()
        for trigger in one.triggers
    )


def _condition(trigger: Trigger, states: tuple[str, ...], numbers: tuple[str, ...]) -> SharedFunction:
    """The function of a trigger, once it has been run on shapes."""

    def when(t: Any, x: Named, p: Named) -> Any:
        return jnp.asarray(trigger.when(t, x, p), dtype=float)

    what = f"the condition of {trigger!r}"
    shape, _ = shapes_of(what, when, states, numbers, "a number")
    if shape.shape != ():
        raise ModelError(f"{what} must be one number; its shape is {shape.shape}.")
    digest = traced_digest(lambda t, x, p: {"when": when(t["t"], x, p)}, ("t",), states, numbers)
    return SharedFunction(when, digest)


def _plan(
    driving: Driving, given: Mapping[str, str], experiment: Experiment, flags: Mapping[int, int], start: float
) -> Plan:
    breaks, jump_times = experiment.break_times(), experiment.jump_times()
    starts = np.concatenate([[-np.inf], breaks])
    pieces, jumps = np.zeros((starts.size, driving.size)), np.zeros((jump_times.size, driving.size))
    at, before = 0, np.zeros(driving.size)
    for full, numbers in driving.inputs:
        value = experiment.inputs[given[full]]
        at_start = value.at(np.array([start]))[0] if isinstance(value, Input) else value
        before[at] = experiment.before.get(given[full], at_start)
        pieces[:, at : at + numbers] = _input_numbers(value, starts, numbers)
        jumps[:, at : at + numbers] = _input_numbers(value, jump_times, numbers)
        at += numbers
    for dose in experiment.doses:
        state = driving.states.index(dose.state)
        for time in dose.times if dose.delay is None else ():
            if dose.duration:
                lasts = (starts >= time) & (starts < time + dose.duration)
                pieces[lasts, at + driving.infused.index(state)] += dose.amount / dose.duration
            else:
                place = at + len(driving.infused) + driving.dosed.index(state)
                jumps[np.searchsorted(jump_times, time), place] += dose.amount
    at += len(driving.infused) + len(driving.dosed)
    for event in experiment.events:
        jumps[np.searchsorted(jump_times, event.time), at + flags[id(event)]] = 1.0
    scaling = driving.scaling
    return Plan(
        scaling.solver_time(starts),
        jnp.asarray(pieces),
        scaling.solver_time(jump_times),
        jnp.asarray(jumps),
        jnp.asarray(before),
    )


def _input_numbers(value: float | Input, starts: np.ndarray, numbers: int) -> np.ndarray:
    """Numbers (n, numbers) of an input from ``starts`` (n,) on."""
    if not isinstance(value, Input):
        return np.pad(np.full((starts.size, 1), float(value)), ((0, 0), (0, numbers - 1)))
    piece = np.searchsorted(value.times, starts, side="right") - 1
    cubic = value.coefficients()[np.maximum(piece, 0)]
    cubic[piece < 0, 1:] = 0.0  # before the first time
    return cubic[:, :1] if numbers == 1 else np.column_stack([cubic, value.times[np.maximum(piece, 0)]])


def _is_stepwise(value: float | Input) -> bool:
    return not isinstance(value, Input) or not value.coefficients()[:, 1:].any()


def _event_function(event: Event | Trigger, states: tuple[str, ...], numbers: tuple[str, ...]) -> SharedFunction:
    """What becomes of states, as one function that has been run on shapes."""

    def change(t: Any, x: Named, p: Named) -> dict[str, Any]:
        return {
            state: jnp.asarray(to(t, x, p) if callable(to) else float(to), dtype=float)
            for state, to in event.changes.items()
        }

    what = repr(event)
    shapes, _ = shapes_of(what, change, states, numbers, "a number")
    for state, shape in shapes.items():
        if shape.shape != ():
            raise ModelError(f"{what} must make one number of {state!r}; its shape is {shape.shape}.")
    digest = traced_digest(lambda t, x, p: change(t["t"], x, p), ("t",), states, numbers)
    return SharedFunction(change, f"{digest} {sorted(event.changes)}")  # which the traced function does not tell


def _check(
    given: Mapping[str, str],
    delays: Mapping[str, str],
    done: Mapping[str, Experiment],
    states: tuple[str, ...],
    start: Mapping[str, float],
) -> None:
    for experiment, one in done.items():
        where = f"experiment {experiment!r}"
        for name in given.values():
            if name not in one.inputs:
                raise DataError(
                    f"{where} does not give {name!r}, which the equations are given. Add it: "
                    f"data.with_experiments({{{experiment!r}: Experiment(inputs={{{name!r}: 1.0}})}})."
                )
        for name in one.inputs:
            if name not in given.values():
                raise ModelError(f"{where} gives {name!r}, which no equation takes. Make it a parameter: Given().")
        for dose in one.doses:
            if dose.delay is not None and dose.delay not in delays.values():
                raise ModelError(
                    f"{where} has a dose later by {dose.delay!r}, which is no delay of the model: "
                    f"KnownForm(..., delays=[{dose.delay!r}])."
                )
        for name in one.before:
            if name not in one.inputs:
                raise DataError(f"{where} has {name!r} before its start alone. Give it in inputs, too.")
        changes = [*(event.changes for event in one.events), *(trigger.changes for trigger in one.triggers)]
        for state in (*(d.state for d in one.doses), *(s for change in changes for s in change)):
            if state not in states:
                raise DataError(f"{where} acts on {state!r}, which is not a state; states are {', '.join(states)}.")
        for kind, time in (
            *(("dose", float(d.times[0])) for d in one.doses),
            *(("event", float(e.time)) for e in one.events),
        ):
            if time < start[experiment]:
                raise DataError(
                    f"{where} has a {kind} at {time:g}, before it starts at {start[experiment]:g}. "
                    "Give an earlier start to the observations: start=..."
                )
