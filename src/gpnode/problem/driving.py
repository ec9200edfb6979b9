"""What is done in each experiment, as the solver meets it: inputs, rates and jumps, as numbers for each interval.

An action is one row of numbers: the inputs over its interval, the rates at which states are dosed there, and, for an
interval without length, what is added to states and which events happen.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.model.dynamics.base import BoundDynamics, Named, SharedFunction
from gpnode.model.priors.parameters import Values
from gpnode.solvers.driven import Driven

ORDER = 4
"""Numbers of a cubic."""


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


class Late(NamedTuple):
    """Jumps whose time depends on a parameter (experiments, m), filled up with some that never come.

    ``times`` are solver times without the delay, ``jumps`` (experiments, m, numbers) what they do, ``delays`` which of
    the delays they have.
    """

    times: Array
    jumps: Array
    delays: Array


class Driving(eqx.Module):
    """How numbers of an action are to be read.

    ``inputs`` are (full name of the parameter, numbers it takes: one, or a cubic and the time it counts from);
    ``infused`` and ``dosed`` are states that get something, over time and at once; ``events`` are functions of t, x and
    p that return what becomes of states. ``delays`` are parameters by which doses come later: of each, an action has
    whether a jump has it, and its value. ``triggers`` are (function of t, x and p, event): when the function turns
    positive the event happens, the first ``counts`` (experiments, triggers) times, in all ``most_triggered`` at most.
    """

    plans: tuple[Plan, ...]
    late: Late | None
    counts: Array
    scaling: Scaling
    inputs: tuple[tuple[str, int], ...] = eqx.field(static=True)
    infused: tuple[int, ...] = eqx.field(static=True)
    dosed: tuple[int, ...] = eqx.field(static=True)
    events: tuple[SharedFunction, ...] = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    delays: tuple[str, ...] = eqx.field(static=True)
    triggers: tuple[tuple[SharedFunction, int], ...] = eqx.field(static=True)
    most_triggered: int = eqx.field(static=True)

    @property
    def moves(self) -> bool:
        """Whether some jumps happen at times that depend on parameters."""
        return self.late is not None or self.most_triggered > 0

    @property
    def first_delay(self) -> int:
        """Where the numbers of delays begin in an action."""
        return sum(n for _, n in self.inputs) + len(self.infused) + len(self.dosed) + len(self.events)

    @property
    def size(self) -> int:
        """Numbers of an action."""
        return self.first_trigger + len(self.triggers)

    @property
    def first_trigger(self) -> int:
        """Where an action tells what triggered it."""
        return self.first_delay + 2 * len(self.delays)

    def triggered(self, index: int) -> Array:
        """What a trigger adds to an action."""
        event = self.first_delay - len(self.events) + self.triggers[index][1]
        return jnp.zeros(self.size).at[jnp.asarray([event, self.first_trigger + index])].set(1.0)

    def trigger(self, dynamics: BoundDynamics, index: int, t: Array, x: Array, params: Values, action: Array) -> Array:
        """The function of a trigger at a scaled state ``x`` (states,)."""
        named = Named({s: x[i] * self.scaling.state_scale[i] for i, s in enumerate(self.states)})
        numbers = Named(dynamics.numbers(params | self.values(t, action)))
        return jnp.asarray(self.triggers[index][0](self.scaling.user_time(t), named, numbers), dtype=float)

    def insert(self, ts: Array, actions: Array, times: Array, jumps: Array) -> tuple[Array, Array, Array]:
        """Times and actions with ``jumps`` (m, numbers) at ``times`` (m,) among them, and where ``ts`` (n,) are.

        Those that are not within ``ts`` do nothing at its end. A jump goes on with what acts at its time.
        """
        comes = (times >= ts[0]) & (times < ts[-1])
        times = jnp.where(comes, times, ts[-1])
        padded = jnp.concatenate([actions, jnp.zeros((1, self.size))])
        going_on = padded[jnp.searchsorted(ts, times, side="right") - 1]
        everything = jnp.concatenate([ts, times, times])
        acting = jnp.concatenate([padded, jnp.where(comes[:, None], going_on + jumps, 0.0), going_on])
        order = jnp.argsort(everything, stable=True)
        return everything[order], acting[order][:-1], jnp.argsort(order)[: ts.size]

    def with_late(self, ts: Array, actions: Array, late: Late, params: Values) -> tuple[Array, Array, Array]:
        """Times (n + ...,) and actions of one experiment with its late jumps among them, and where ``ts`` (n,) are.

        ``late`` and ``params`` are as the experiment has them.
        """
        delays = jax.lax.stop_gradient(jnp.stack([params[name] for name in self.delays]))  # see _ActedOn.jump
        times = late.times + delays[late.delays] / self.scaling.time_unit
        own = jnp.arange(late.delays.size), self.first_delay + 2 * late.delays + 1
        return self.insert(ts, actions, times, late.jumps.at[own].set(delays[late.delays]))

    def values(self, t: Array, action: Array) -> Values:
        """Parameters that are given, by full name, at solver time ``t``."""
        found: Values = {}
        at = 0
        for name, numbers in self.inputs:
            value = action[at]
            if numbers > 1:
                since = self.scaling.user_time(t) - action[at + ORDER]
                a, b, c, d = (action[at + i] for i in range(ORDER))
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
        """States after events, and after what they are given at once.

        The time of a late jump depends on a parameter. The solver puts it where the parameter's value says, and here
        it is moved from there by nothing, with the right derivatives: on to the new time, the jump, and back again,
        each to second order. One that is triggered is moved to where its function is zero, which is nearly nothing.
        """
        driving = self.driving
        if not driving.moves:
            return self._after(t, x, params, action)
        at, later = driving.first_delay, jnp.zeros(())
        for i, name in enumerate(driving.delays):
            later = later + action[at + 2 * i] * (params[name] - action[at + 2 * i + 1])
        later = later / driving.scaling.time_unit
        for i in range(len(driving.triggers)):
            happens = action[driving.first_trigger + i]
            value, rate = self._towards(i, t, x, params, action)
            later = later - happens * value / jnp.where(happens > 0, rate, 1.0)
        x = self._flow(t, x, params, action, later)
        return self._flow(t + later, self._after(t + later, x, params, action), params, action, -later)

    def _towards(self, index: int, t: Array, x: Array, params: Values, action: Array) -> tuple[Array, Array]:
        """The function of a trigger, and its rate along the path."""

        def when(t: Array, x: Array) -> Array:
            return self.driving.trigger(self.dynamics, index, t, x, params, action)

        return jax.jvp(when, (t, x), (jnp.ones(()), self.slopes(t, x, params, action)))

    def _flow(self, t: Array, x: Array, params: Values, action: Array, step: Array) -> Array:
        """The state a ``step`` later, to second order."""

        def slopes(t: Array, x: Array) -> Array:
            return self.slopes(t, x, params, action)

        first = slopes(t, x)
        _, second = jax.jvp(slopes, (t, x), (jnp.ones(()), first))
        return x + step * (first + 0.5 * step * second)

    def _after(self, t: Array, x: Array, params: Values, action: Array) -> Array:
        """States after a jump that happens at ``t``."""
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
