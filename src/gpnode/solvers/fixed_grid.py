"""Runge–Kutta on a grid fixed in advance: one step per interval of ``ts``.

Without step-size control the cost is known and the compiled code is one tight loop. The
grid is chosen so that the embedded error estimate is small where it matters
(:func:`refine`), and draws are checked afterwards against a tight adaptive solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.solvers.adaptive import Adaptive
from gpnode.solvers.base import BLOW_UP_BOUND, CorrectsGuess, Solution, Status, VectorField, classify
from gpnode.solvers.driven import DrivenField, FreeField, as_driven, held
from gpnode.solvers.tableau import COUPLING, ERROR, NODES, WEIGHTS


class FixedGrid(CorrectsGuess):
    """Fifth-order explicit Runge–Kutta, one step per interval, as array code.

    >>> plain = gn.Model(model.dynamics, solver=gn.FixedGrid())
    """

    name: ClassVar[str] = "fixed-grid"
    follows_grid: ClassVar[bool] = True

    def solve(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        lengths = jnp.diff(ts)
        field, jump, actions = as_driven(vector_field, ts)

        def step(
            carry: tuple[Array, Array, Array], interval: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array, Array], Array]:
            x, alive, steps = carry
            t, h, action = interval
            advanced = _advance(field, jump, params, t, h, x, action)
            # A path that leaves the bounds stays where it was, so that all later numbers are finite.
            alive = alive & jnp.all(jnp.abs(advanced) < BLOW_UP_BOUND)
            x = jnp.where(alive, advanced, x)
            return (x, alive, steps + alive), x

        start_ok = jnp.all(jnp.abs(x0) < BLOW_UP_BOUND)
        (last, alive, steps), later = jax.lax.scan(step, (x0, start_ok, jnp.asarray(0)), (ts[:-1], lengths, actions))
        xs = jnp.concatenate([x0[None], later])
        fatal = jnp.minimum(steps, ts.size - 2)
        cause = _cause_of_death(held(field, actions[fatal]), params, ts[fatal], lengths[fatal], last)
        return Solution(xs, jnp.where(alive, Status.OK, cause), jnp.asarray(ts.size - 1))

    def correct_guess(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...], guess: Array
    ) -> tuple[Solution, Array]:
        theta, unravel = ravel_pytree(params)
        columns = theta.size + len(free_states)
        field, jump, actions = as_driven(vector_field, ts)

        def advance(x: Array, theta: Array, t: Array, h: Array, action: Array) -> tuple[Array, Array]:
            end = _advance(field, jump, unravel(theta), t, h, x, action)
            return end, end

        by = jax.vmap(jax.jacfwd(advance, argnums=(0, 1), has_aux=True), in_axes=(0, None, 0, 0, 0))
        (by_state, by_theta), ends = by(guess[:-1], theta, ts[:-1], jnp.diff(ts), actions)
        new = jnp.concatenate([by_theta, jnp.zeros((*ends.shape, len(free_states))), (ends - guess[1:])[..., None]], 2)

        def carry(column: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
            column = interval[0] @ column + interval[1]
            return column, column

        # The last column holds what the guess misses, the others derivatives.
        first = jnp.zeros((x0.size, columns + 1)).at[:, -1].set(x0 - guess[0])
        first = first.at[jnp.asarray(free_states, dtype=int), theta.size + jnp.arange(len(free_states))].set(1.0)
        _, later = jax.lax.scan(carry, first, (by_state, new))
        moved = jnp.concatenate([first[None], later])
        xs = guess + moved[..., -1]
        status = jnp.maximum(classify(ends), classify(xs))
        ok = status == Status.OK
        return (
            Solution(jnp.where(ok, xs, x0), status, jnp.asarray(ts.size - 1)),
            jnp.where(ok, moved[..., :-1], 0.0),
        )

    def controlled(self, step_error: float) -> Adaptive:
        return Adaptive(rtol=step_error, atol=step_error, max_steps=100_000)


def _advance(field: DrivenField, jump: DrivenField, params: Any, t: Array, h: Array, x: Array, action: Array) -> Array:
    """The state after one interval."""
    stepped = x + h * _increment(_stages(held(field, action), params, t, h, x), WEIGHTS)
    return jnp.where(h > 0, stepped, jump(t, x, params, action))


def _stages(vector_field: FreeField, params: Any, t: Array, h: Array, x: Array) -> list[Array]:
    slopes: list[Array] = []
    for c, row in zip(NODES, COUPLING, strict=True):
        point = x + h * _increment(slopes, row) if slopes else x
        slopes.append(vector_field(t + c * h, point, params))
    return slopes


def _cause_of_death(vector_field: FreeField, params: Any, t: Array, h: Array, x: Array) -> Array:
    """Whether the step from ``x`` failed because the field has no value at a state it met, or by growth."""
    slopes: list[Array] = []
    undefined = jnp.asarray(False)
    for c, row in zip(NODES, COUPLING, strict=True):
        point = x + h * _increment(slopes, row) if slopes else x
        slopes.append(vector_field(t + c * h, point, params))
        undefined |= jnp.all(jnp.abs(point) < BLOW_UP_BOUND) & jnp.any(jnp.isnan(slopes[-1]))
    return jnp.where(undefined, Status.NOT_FINITE, Status.BLOW_UP)


def _increment(slopes: list[Array], weights: Sequence[float] | np.ndarray) -> Array:
    return sum(w * k for w, k in zip(weights, slopes, strict=False) if w)  # type: ignore[return-value]


def local_errors(vector_field: VectorField, params: Any, xs: Array, ts: Array) -> Array:
    """Largest embedded error over the states, of steps from each of ``xs`` (times, states) to the next time."""

    field, _, actions = as_driven(vector_field, ts)

    def step(x: Array, t: Array, h: Array, action: Array) -> Array:
        slopes = _stages(held(field, action), params, t, h, x)
        slopes.append(field(t + h, x + h * _increment(slopes, WEIGHTS), params, action))
        return jnp.max(jnp.abs(h * _increment(slopes, ERROR)))

    return jax.vmap(step)(xs[:-1], ts[:-1], jnp.diff(ts), actions)


def refine(counts: np.ndarray, errors: np.ndarray, tolerance: float) -> np.ndarray:
    """Number of equal steps each interval needs for the error of a step to fall below ``tolerance``.

    ``counts`` steps gave ``errors`` (largest in the interval). The estimate is of fifth order
    in the step, so the number of steps must grow by (error / tolerance)^(1/5); a quarter more
    is the margin for other draws.
    """
    ratio = np.where(np.isfinite(errors), errors / tolerance, 1e5)
    return np.maximum(1, np.ceil(1.25 * counts * np.clip(ratio, 1e-5, 1e5) ** 0.2)).astype(int)
