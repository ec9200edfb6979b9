"""The operations a formula may use, in ``jax.numpy``: what they take, what they give, and what they mean.

Values and derivatives are those of ``jax.numpy``. Where an operation is only one branch of several, its ``guarded``
form has finite derivatives outside of its domain, too, so that none of them spoils those of the branch that counts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gamma

from gpnode.errors import ModelError

ANY = 10_000
"""Arguments of an operation that takes as many as there are."""


@dataclass(frozen=True)
class Operation:
    """``function`` of at least ``least`` and at most ``most`` arguments.

    ``takes_truth`` and ``gives_truth`` say where values are true or false rather than numbers. ``within`` tells whether
    arguments are where the function has finite derivatives, and ``inside`` arguments that are.
    """

    function: Callable[..., Any]
    least: int
    most: int
    takes_truth: bool = False
    gives_truth: bool = False
    within: Callable[..., Any] | None = None
    inside: tuple[float, ...] = ()

    def check(self, name: str, count: int) -> None:
        """Refuse a number of arguments that makes no sense."""
        if not self.least <= count <= self.most:
            wanted = f"{self.least}" if self.least == self.most else f"at least {self.least}"
            if self.most not in (self.least, ANY):
                wanted = f"{self.least} to {self.most}"
            raise ModelError(f"{name} takes {wanted} argument(s); got {count}.")

    @property
    def guarded(self) -> Callable[..., Any]:
        """The function with finite derivatives everywhere."""
        return self.function if self.within is None else functools.partial(_guarded, self)


def _guarded(operation: Operation, *args: Any) -> Any:
    assert operation.within is not None
    numbers = [jnp.asarray(a, dtype=float) for a in args]
    within = operation.within(*numbers)
    safe = [jnp.where(within, a, b) for a, b in zip(numbers, operation.inside, strict=False)]
    outside = operation.function(*(_without_derivatives(a) for a in numbers))
    return jnp.where(within, operation.function(*safe), outside)


def _without_derivatives(a: Any) -> Any:
    import jax

    return jax.lax.stop_gradient(a)


def _minus(a: Any, *b: Any) -> Any:
    return jnp.subtract(a, *b) if b else jnp.negative(a)


def _folded(function: Callable[[Any, Any], Any], empty: Any) -> Callable[..., Any]:
    return lambda *args: functools.reduce(function, args) if args else empty


def _chained(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def every(*args: Any) -> Any:
        pairs = [compare(a, b) for a, b in itertools.pairwise(args)]
        return functools.reduce(jnp.logical_and, pairs)

    return every


def _log(*args: Any) -> Any:
    """``log(x)``, or ``log(base, x)``."""
    return jnp.log(args[0]) if len(args) == 1 else jnp.log(args[1]) / jnp.log(args[0])


def _root(x: Any, degree: Any = 2.0) -> Any:
    return jnp.sqrt(x) if isinstance(degree, float) and degree == 2.0 else jnp.power(x, 1.0 / degree)


def _of_inverse(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(1.0 / x)


def _inverse_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: 1.0 / function(x)


def _whole_part(x: Any) -> Any:
    return jnp.where(x < 0.0, jnp.ceil(x), jnp.floor(x))


def _quotient(a: Any, b: Any) -> Any:
    return _whole_part(jnp.divide(a, b))


def _plain(name: str, function: Callable[[Any], Any]) -> tuple[str, Operation]:
    return name, Operation(function, 1, 1)


def _inner(name: str, function: Callable[[Any], Any], within: Callable[[Any], Any], at: float) -> tuple[str, Operation]:
    return name, Operation(function, 1, 1, within=within, inside=(at,))


def _is_not_zero(x: Any) -> Any:
    return x != 0.0


def _is_small(x: Any) -> Any:
    return jnp.abs(x) < 700.0  # beyond, exp has no finite value


OPERATIONS: dict[str, Operation] = {
    "plus": Operation(_folded(jnp.add, 0.0), 0, ANY),
    "times": Operation(_folded(jnp.multiply, 1.0), 0, ANY),
    "minus": Operation(_minus, 1, 2),
    "divide": Operation(jnp.divide, 2, 2, within=lambda a, b: b != 0.0, inside=(1.0, 1.0)),
    "power": Operation(jnp.power, 2, 2, within=lambda a, b: a > 0.0, inside=(1.0, 1.0)),
    "root": Operation(_root, 1, 2, within=lambda x, n=2.0: (x > 0.0) & (n != 0.0), inside=(1.0, 1.0)),
    "log": Operation(
        _log, 1, 2, within=lambda a, b=1.0: (a > 0.0) & (b > 0.0) & ((a != 1.0) | (b == 1.0)), inside=(2.0, 2.0)
    ),
    "min": Operation(_folded(jnp.minimum, jnp.inf), 1, ANY),
    "max": Operation(_folded(jnp.maximum, -jnp.inf), 1, ANY),
    "quotient": Operation(_quotient, 2, 2, within=lambda a, b: b != 0.0, inside=(1.0, 1.0)),
    "rem": Operation(lambda a, b: a - b * _quotient(a, b), 2, 2, within=lambda a, b: b != 0.0, inside=(1.0, 1.0)),
    **dict(_plain(name, getattr(jnp, name)) for name in ("abs", "sign", "floor", "sin", "cos", "tanh", "cbrt")),
    **dict(_plain(name, getattr(jnp, name)) for name in ("arctan", "arcsinh")),
    **dict(_inner(name, getattr(jnp, name), _is_small, 0.0) for name in ("exp", "sinh", "cosh")),
    **dict(_inner(name, getattr(jnp, name), lambda x: x > 0.0, 1.0) for name in ("sqrt", "log10", "log2")),
    **dict(_inner(name, getattr(jnp, name), lambda x: abs(x) < 1.0, 0.0) for name in ("arcsin", "arccos", "arctanh")),
    **dict(
        [
            _plain("ceiling", jnp.ceil),
            _plain("factorial", lambda x: gamma(x + 1.0)),
            _plain("sech", _inverse_of(jnp.cosh)),
            _inner("ln", jnp.log, lambda x: x > 0.0, 1.0),
            _inner("tan", jnp.tan, lambda x: jnp.cos(x) != 0.0, 0.0),
            _inner("sec", _inverse_of(jnp.cos), lambda x: jnp.cos(x) != 0.0, 0.0),
            _inner("csc", _inverse_of(jnp.sin), lambda x: jnp.sin(x) != 0.0, 1.0),
            _inner("cot", _inverse_of(jnp.tan), lambda x: jnp.sin(x) != 0.0, 1.0),
            _inner("csch", _inverse_of(jnp.sinh), _is_not_zero, 1.0),
            _inner("coth", _inverse_of(jnp.tanh), _is_not_zero, 1.0),
            _inner("arccosh", jnp.arccosh, lambda x: x > 1.0, 2.0),
            _inner("arcsec", _of_inverse(jnp.arccos), lambda x: jnp.abs(x) > 1.0, 2.0),
            _inner("arccsc", _of_inverse(jnp.arcsin), lambda x: jnp.abs(x) > 1.0, 2.0),
            _inner("arccot", _of_inverse(jnp.arctan), _is_not_zero, 1.0),
            _inner("arcsech", _of_inverse(jnp.arccosh), lambda x: (x > 0.0) & (x < 1.0), 0.5),
            _inner("arccsch", _of_inverse(jnp.arcsinh), _is_not_zero, 1.0),
            _inner("arccoth", _of_inverse(jnp.arctanh), lambda x: jnp.abs(x) > 1.0, 2.0),
        ]
    ),
    "lt": Operation(_chained(jnp.less), 2, ANY, gives_truth=True),
    "leq": Operation(_chained(jnp.less_equal), 2, ANY, gives_truth=True),
    "gt": Operation(_chained(jnp.greater), 2, ANY, gives_truth=True),
    "geq": Operation(_chained(jnp.greater_equal), 2, ANY, gives_truth=True),
    "eq": Operation(_chained(jnp.equal), 2, ANY, gives_truth=True),
    "neq": Operation(jnp.not_equal, 2, 2, gives_truth=True),
    "and": Operation(_folded(jnp.logical_and, True), 0, ANY, takes_truth=True, gives_truth=True),
    "or": Operation(_folded(jnp.logical_or, False), 0, ANY, takes_truth=True, gives_truth=True),
    "xor": Operation(_folded(jnp.not_equal, False), 0, ANY, takes_truth=True, gives_truth=True),
    "not": Operation(jnp.logical_not, 1, 1, takes_truth=True, gives_truth=True),
    "implies": Operation(lambda a, b: jnp.logical_or(jnp.logical_not(a), b), 2, 2, takes_truth=True, gives_truth=True),
    "true": Operation(lambda: True, 0, 0, gives_truth=True),
    "false": Operation(lambda: False, 0, 0, gives_truth=True),
    "piecewise": Operation(lambda *args: args, 1, ANY),  # evaluated apart: conditions choose among values
}
"""``piecewise(value, condition, value, condition, ..., otherwise)``; the others by their names in MathML."""
