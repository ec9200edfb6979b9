"""What is done in each experiment, as the solver meets it: inputs, rates and jumps, as numbers for each interval.

An action is one row of numbers: the inputs over its interval, the rates at which states are dosed there, and, for an
interval without length, what is added to states and which events happen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.data.experiments import Event, Experiment, Input
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.errors import DataError, ModelError
from gpnode.model.dynamics.base import BoundDynamics, Named, SharedFunction, traced_digest
from gpnode.model.functions import shapes_of
from gpnode.model.model import Model
from gpnode.model.priors.parameters import Values
from gpnode.solvers.driven import Driven

_ORDER = 4  # numbers of a cubic


class Plan(eqx.Module):
    """What acts in one experiment, in solver time.

    ``pieces`` (n, numbers) act from ``starts`` (n,) on, the first from ever; ``jumps`` (m, numbers) at ``jump_times``
    (m,), in order. ``before`` (numbers,) is what acted before the start on a system that begins at rest.
    """

    starts: Array
    pieces: Array
    jump_times: Array
    jumps: Array
    before: Array

    def acting(self, ts: Array) -> Array:
        """What acts (n, numbers) from solver times ``ts`` (n,) on."""
        return self.pieces[jnp.searchsorted(self.starts, ts, side="right") - 1]

    def nodes(self, ts: Array) -> tuple[Array, Array, Array]:
        """Times of a solve that has all of ``ts`` (n,), in order, and steps over nothing that acts.

        Returns times (n + ...,), what acts in the intervals between them, and where ``ts`` are among the times: at a
        jump, just before it.
        """
        begin, end = ts[0], ts[-1]
        inside = (self.jump_times >= begin) & (self.jump_times < end)
        jump_times = jnp.where(inside, self.jump_times, end)
        jumps = jnp.where(inside[:, None], self.jumps, 0.0)
        times = jnp.concatenate([ts, jnp.clip(self.starts, begin, end), jump_times, jump_times])
        after = jnp.clip(self.starts, begin, end)
        actions = jnp.concatenate([self.acting(ts), self.acting(after), jumps, self.acting(jump_times)])
        order = jnp.argsort(times, stable=True)  # a jump comes after all else of its time
        return times[order], actions[order][:-1], jnp.argsort(order)[: ts.size]


class Driving(eqx.Module):
    """How numbers of an action are to be read.

    ``inputs`` are (full name of the parameter, numbers it takes: one, or a cubic and the time it counts from);
    ``infused`` and ``dosed`` are states that get something, over time and at once; ``events`` are functions of t, x and
    p that return what becomes of states.
    """

    plans: tuple[Plan, ...]
    scaling: Scaling
    inputs: tuple[tuple[str, int], ...] = eqx.field(static=True)
    infused: tuple[int, ...] = eqx.field(static=True)
    dosed: tuple[int, ...] = eqx.field(static=True)
    events: tuple[SharedFunction, ...] = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Numbers of an action."""
        return sum(n for _, n in self.inputs) + len(self.infused) + len(self.dosed) + len(self.events)

    def values(self, t: Array, action: Array) -> Values:
        """Parameters that are given, by full name, at solver time ``t``."""
        found: Values = {}
        at = 0
        for name, numbers in self.inputs:
            value = action[at]
            if numbers > 1:
                since = self.scaling.user_time(t) - action[at + _ORDER]
                a, b, c, d = (action[at + i] for i in range(_ORDER))
                value = a + since * (b + since * (c + since * d))
            found[name] = value
            at += numbers
        return found

    def along(self, experiment: int, ts: Array) -> Values:
        """Given parameters (n,) at solver times ``ts`` (n,) of an experiment."""
        return jax.vmap(self.values)(ts, self.plans[experiment].acting(ts))

    def system(self, dynamics: BoundDynamics, actions: Array) -> Driven:
        """The vector field under ``actions`` (intervals, numbers)."""
        acted_on = _ActedOn(dynamics, self)
        return Driven(acted_on.slopes, acted_on.jump, actions)

    def actions_on(self, nodes: np.ndarray) -> np.ndarray:
        """What acts (experiments, intervals, numbers) between ``nodes`` (experiments, times) that have every change.

        A jump is the first of the intervals without length at its time.
        """
        return np.stack([_actions_on(plan, row) for plan, row in zip(self.plans, nodes, strict=True)])


class _ActedOn(eqx.Module):
    """Dynamics under actions, on scaled states."""

    dynamics: BoundDynamics
    driving: Driving

    def slopes(self, t: Array, x: Array, params: Values, action: Array) -> Array:
        """Slopes (states,) with what states are given over time."""
        driving = self.driving
        slopes = self.dynamics.vector_field(t, x, params | driving.values(t, action))
        if not driving.infused:
            return slopes
        rates = self._by_state(action, sum(n for _, n in driving.inputs), driving.infused)
        return slopes + rates * driving.scaling.time_unit / driving.scaling.state_scale

    def jump(self, t: Array, x: Array, params: Values, action: Array) -> Array:
        """States after events, and after what they are given at once."""
        driving, scale = self.driving, self.driving.scaling.state_scale
        first = sum(n for _, n in driving.inputs) + len(driving.infused)
        named = Named({s: x[i] * scale[i] for i, s in enumerate(driving.states)})
        numbers = Named(self.dynamics.numbers(params | driving.values(t, action)))
        after = [x[i] for i in range(len(driving.states))]
        for k, event in enumerate(driving.events):
            happens = action[first + len(driving.dosed) + k] > 0
            changed = event(driving.scaling.user_time(t), named, numbers)
            for i, state in enumerate(driving.states):
                if state in changed:
                    after[i] = jnp.where(happens, changed[state] / scale[i], after[i])
        return jnp.stack(after) + self._by_state(action, first, driving.dosed) / scale

    def _by_state(self, action: Array, first: int, which: tuple[int, ...]) -> Array:
        """Numbers (states,) of an action that belong to the states ``which``; zero for others."""
        zero, count = jnp.zeros(()), len(self.driving.states)
        return jnp.stack([action[first + which.index(i)] if i in which else zero for i in range(count)])


def _actions_on(plan: Plan, nodes: np.ndarray) -> np.ndarray:
    still = np.diff(nodes) <= 0
    first = still & ~np.concatenate([[False], still[:-1]])
    actions = np.array(plan.acting(jnp.asarray(nodes[:-1])))
    actions[still] = 0.0
    jump_times, jumps = np.asarray(plan.jump_times), np.asarray(plan.jumps)
    for interval in np.flatnonzero(first & np.isin(nodes[:-1], jump_times)):
        actions[interval] = jumps[np.searchsorted(jump_times, nodes[interval])]
    return actions


def driving_of(
    model: Model, data: Observations, scaling: Scaling, experiments: Mapping[str, Experiment]
) -> Driving | None:
    """What is done in the experiments of ``data``, as ``experiments`` tells; None if nothing is."""
    given, states = model.given(), model.states
    done = {name: experiments.get(name, Experiment()) for name in data.experiments}
    _check(given, done, states, data.start)
    doses = [dose for one in done.values() for dose in one.doses]
    infused = tuple(i for i, s in enumerate(states) if any(d.state == s and d.duration for d in doses))
    dosed = tuple(i for i, s in enumerate(states) if any(d.state == s and not d.duration for d in doses))
    events = [event for one in done.values() for event in one.events]
    if not (given or infused or dosed or events):
        return None
    functions = event_functions(model, done)
    distinct = tuple(dict.fromkeys(functions))
    inputs = tuple(
        (full, 1 if all(_is_stepwise(one.inputs[name]) for one in done.values()) else _ORDER + 1)
        for full, name in given.items()
    )
    driving = Driving((), scaling, inputs, infused, dosed, distinct, states)
    flags = dict(zip(map(id, events), map(distinct.index, functions), strict=True))
    plans = tuple(_plan(driving, given, one, flags, data.start[name]) for name, one in done.items())
    return dataclasses.replace(driving, plans=plans)


def event_functions(model: Model, done: Mapping[str, Experiment]) -> tuple[SharedFunction, ...]:
    """What becomes of states, for every event of all experiments."""
    events = [event for one in done.values() for event in one.events]
    return tuple(_event_function(event, model.states, model.dynamics.numbers) for event in events)


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
        for time in dose.times:
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
        scaling.solver_time(jnp.asarray(starts)),
        jnp.asarray(pieces),
        scaling.solver_time(jnp.asarray(jump_times)),
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


def _event_function(event: Event, states: tuple[str, ...], numbers: tuple[str, ...]) -> SharedFunction:
    """What becomes of states, as one function that has been run on shapes."""

    def change(t: Any, x: Named, p: Named) -> dict[str, Any]:
        return {
            state: jnp.asarray(to(t, x, p) if callable(to) else float(to), dtype=float)
            for state, to in event.changes.items()
        }

    what = f"the event at {event.time:g}"
    shapes, _ = shapes_of(what, change, states, numbers, "a number")
    for state, shape in shapes.items():
        if shape.shape != ():
            raise ModelError(f"{what} must make one number of {state!r}; its shape is {shape.shape}.")
    return SharedFunction(change, traced_digest(lambda t, x, p: change(t["t"], x, p), ("t",), states, numbers))


def _check(
    given: Mapping[str, str], done: Mapping[str, Experiment], states: tuple[str, ...], start: Mapping[str, float]
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
        for name in one.before:
            if name not in one.inputs:
                raise DataError(f"{where} has {name!r} before its start alone. Give it in inputs, too.")
        for state in (*(d.state for d in one.doses), *(s for e in one.events for s in e.changes)):
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
