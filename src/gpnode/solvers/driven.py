"""Systems that are acted on: inputs that change at known times, and jumps of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

FreeField = Callable[[Array, Array, Any], Array]
"""``field(t, x, params) -> (states,)``."""
DrivenField = Callable[[Array, Array, Any, Array], Array]
"""``field(t, x, params, action) -> (states,)``."""


class Driven(NamedTuple):
    """A vector field with ``actions`` (times - 1, numbers), one row for each interval between the times of a solve.

    ``field(t, x, params, action)`` are the slopes. Over an interval without length the state becomes
    ``jump(t, x, params, action)`` instead, which must be ``x`` itself where the action is zero.
    """

    field: DrivenField
    jump: DrivenField
    actions: Array


def as_driven(vector_field: FreeField | Driven, ts: Array) -> Driven:
    """Any vector field as one that is acted on, by nothing if need be."""
    if isinstance(vector_field, Driven):
        return vector_field

    def field(t: Array, x: Array, params: Any, action: Array) -> Array:
        return vector_field(t, x, params)

    def stay(t: Array, x: Array, params: Any, action: Array) -> Array:
        return x

    return Driven(field, stay, jnp.zeros((ts.size - 1, 0)))


def actions_of(vector_field: FreeField | Driven) -> Array:
    """What acts; no numbers if nothing does."""
    return vector_field.actions if isinstance(vector_field, Driven) else jnp.zeros(0)


def with_actions(vector_field: FreeField | Driven, actions: Array) -> FreeField | Driven:
    """The same field acted on by other numbers, if it is acted on at all."""
    return vector_field._replace(actions=actions) if isinstance(vector_field, Driven) else vector_field


def held(field: DrivenField, action: Array) -> FreeField:
    """The field while one action lasts."""
    return lambda t, x, params: field(t, x, params, action)
