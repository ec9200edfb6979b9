"""Events that happen when a function of the state turns positive: where that is, without derivatives.

What is found need not be exact. The jump itself moves to where the function is zero, by one step of Newton's method,
and has the derivatives of that time (:mod:`.driving`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.model.dynamics import BoundDynamics
from gpnode.model.priors.parameters import Values
from gpnode.problem.driving import Driving
from gpnode.solvers import Solver

_HALVINGS = 30
_ANEW = 1e-3  # of the change over an interval: how far below zero a function must be right after its own event


class Located(NamedTuple):
    """Times (n,) and actions (n - 1, numbers) with events among them, and where the times asked for are."""

    ts: Array
    actions: Array
    rows: Array


def locate_events(
    driving: Driving, dynamics: BoundDynamics, solver: Solver, params: Values, x0: Array, at: Located, counts: Array
) -> Located:
    """Times with those of the first ``counts`` (triggers,) events of each kind among them, one after the other."""
    params, x0 = jax.lax.stop_gradient((params, x0))
    ts, actions, rows = at
    after = ts[0]
    for _ in range(driving.most_triggered):
        system = driving.system(dynamics, actions)
        xs = solver.solve(system, params, x0, ts).xs
        slopes = jax.vmap(system.field, in_axes=(0, 0, None, 0))(ts[:-1], xs[:-1], params, actions)
        ends = jax.vmap(system.field, in_axes=(0, 0, None, 0))(ts[1:], xs[1:], params, actions)

        def first(index: int, ts: Array, actions: Array, xs: Array, slopes: Array, ends: Array, after: Array) -> Array:
            def when(t: Array, x: Array, action: Array) -> Array:
                return driving.trigger(dynamics, index, t, x, params, action)

            begun, ended = (jax.vmap(when)(t, x, actions) for t, x in ((ts[:-1], xs[:-1]), (ts[1:], xs[1:])))
            low_enough = jnp.where(ts[:-1] <= after, -_ANEW * jnp.abs(ended - begun), 0.0)
            low_enough = jnp.where(after > ts[0], low_enough, 0.0)
            crosses = (begun < low_enough) & (ended >= 0.0) & (ts[1:] > ts[:-1]) & (ts[:-1] >= after)
            k = jnp.argmax(crosses)
            length = ts[k + 1] - ts[k]

            def state(part: Array) -> Array:
                """On the cubic through both ends."""
                rest = 1.0 - part
                bend = part * rest**2 * slopes[k] - part**2 * rest * ends[k]
                return xs[k] + part**2 * (3.0 - 2.0 * part) * (xs[k + 1] - xs[k]) + length * bend

            def halve(_: int, between: tuple[Array, Array]) -> tuple[Array, Array]:
                low, high = between
                middle = 0.5 * (low + high)
                below = when(ts[k] + middle * length, state(middle), actions[k]) < 0.0
                return jnp.where(below, middle, low), jnp.where(below, high, middle)

            low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros(()), jnp.ones(())))
            return jnp.where(jnp.any(crosses), ts[k] + 0.5 * (low + high) * length, jnp.inf)

        found = jnp.stack([first(i, ts, actions, xs, slopes, ends, after) for i in range(len(driving.triggers))])
        found = jnp.where(counts > 0, found, jnp.inf)
        which = jnp.argmin(found)
        jump = jnp.stack([driving.triggered(i) for i in range(len(driving.triggers))])[which]
        ts, actions, among = driving.insert(ts, actions, found[which][None], jump[None])
        rows = among[rows]
        counts = counts.at[which].add(-1)
        after = jnp.minimum(found[which], ts[-1])
    return Located(ts, actions, rows)
