"""Values of formulas: in ``jax.numpy``, to be traced and differentiated, or as plain functions of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from gpnode.formats.formula.operations import OPERATIONS
from gpnode.formats.formula.scalars import SCALARS
from gpnode.formats.formula.tree import Call, Name, Number, Tree, is_truth

_LARGEST_POWER = 12  # whole powers up to this are multiplied out


def evaluate(tree: Tree, values: Mapping[str, Any], guarded: bool = False) -> Any:
    """The value of a formula, with a value for each of its names, in ``jax.numpy``.

    ``guarded`` is for what only counts under a condition: derivatives are finite everywhere.

    >>> from gpnode.formats.formula import Call, Name, evaluate
    >>> float(evaluate(Call("exp", (Name("x"),)), {"x": 0.0}))
    1.0
    """
    return _Evaluation(values).value(tree, guarded)


class _Evaluation:
    """What nodes of a tree have come to so far: shared ones are computed once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._done: dict[tuple[int, bool], Any] = {}

    def value(self, tree: Tree, guarded: bool) -> Any:
        if isinstance(tree, Number):
            return tree.value
        if isinstance(tree, Name):
            return self._values[tree.id]
        key = (id(tree), guarded)
        if key not in self._done:
            self._done[key] = self._called(tree, guarded)
        return self._done[key]

    def _called(self, tree: Call, guarded: bool) -> Any:
        operation = OPERATIONS[tree.function]
        if tree.function == "piecewise":
            return self._piecewise(tree, guarded)
        if tree.function == "power" and (whole := whole_power(tree.arguments[1])) is not None:
            base = self._number(tree.arguments[0], guarded)
            if whole < 0 and guarded:
                return OPERATIONS["divide"].guarded(1.0, jnp.asarray(base) ** -whole)
            return jnp.asarray(base) ** whole
        part = self._truth if operation.takes_truth else self._number
        args = [part(a, guarded) for a in tree.arguments]
        return (operation.guarded if guarded else operation.function)(*args)

    def _piecewise(self, tree: Call, guarded: bool) -> Any:
        values, conditions = tree.arguments[::2], tree.arguments[1::2]
        part = self._truth if is_truth(tree) else self._number
        otherwise = len(values) > len(conditions)
        result = part(values[-1], True) if otherwise else jnp.nan
        pieces = list(zip(values, conditions, strict=False))
        for value, condition in reversed(pieces):
            result = jnp.where(self._truth(condition, guarded), part(value, True), result)
        return result

    def _number(self, tree: Tree, guarded: bool) -> Any:
        value = self.value(tree, guarded)
        return jnp.where(value, 1.0, 0.0) if is_truth(tree) else value

    def _truth(self, tree: Tree, guarded: bool) -> Any:
        value = self.value(tree, guarded)
        return value if is_truth(tree) else jnp.not_equal(value, 0.0)


def whole_power(tree: Tree) -> int | None:
    """A small whole exponent, which unlike others is defined for negative bases."""
    if isinstance(tree, Call) and tree.function == "minus" and len(tree.arguments) == 1:
        positive = whole_power(tree.arguments[0])
        return None if positive is None else -positive
    if isinstance(tree, Number) and float(tree.value).is_integer() and abs(tree.value) <= _LARGEST_POWER:
        return int(tree.value)
    return None


def scalar_function(tree: Tree) -> Callable[[Mapping[str, Any]], Any]:
    """A formula as a function of plain numbers by name: much faster than arrays where there is one number at a time.

    >>> from gpnode.formats.formula import Call, Name, scalar_function
    >>> scalar_function(Call("exp", (Name("x"),)))({"x": 0.0})
    1.0
    """
    if isinstance(tree, Number):
        constant = tree.value
        return lambda values: constant
    if isinstance(tree, Name):
        name = tree.id
        return lambda values: values[name]
    if tree.function == "piecewise":
        return _scalar_piecewise(tree)
    parts = [scalar_function(a) for a in tree.arguments]
    function = SCALARS[tree.function]
    if tree.function == "plus" and len(parts) == 2:
        first, second = parts
        return lambda values: first(values) + second(values)
    if tree.function == "times" and len(parts) == 2:
        first, second = parts
        return lambda values: first(values) * second(values)
    if len(parts) == 1:
        only = parts[0]
        return lambda values: function(only(values))
    if len(parts) == 2:
        first, second = parts
        return lambda values: function(first(values), second(values))
    return lambda values: function(*[part(values) for part in parts])


def _scalar_piecewise(tree: Call) -> Callable[[Mapping[str, Any]], Any]:
    values = [scalar_function(a) for a in tree.arguments[::2]]
    conditions = [scalar_function(a) for a in tree.arguments[1::2]]
    otherwise = values[-1] if len(values) > len(conditions) else lambda values: math.nan
    pieces = list(zip(conditions, values, strict=False))

    def choose(by_name: Mapping[str, Any]) -> Any:
        for condition, value in pieces:
            if condition(by_name):
                return value(by_name)
        return otherwise(by_name)

    return choose
