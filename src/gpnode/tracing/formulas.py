"""From traced functions to formulas: what JAX recorded, run again on sympy's symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy


class NoExpression(Exception):
    """The traced function does something that has no formula here."""


def formulas(function: Callable[..., Sequence[Any]], symbols: Sequence[Any]) -> list[sympy.Expr]:
    """What ``function`` of as many numbers as there are ``symbols`` returns, as formulas in them.

    Raises :class:`NoExpression` where there is none.
    """
    traced = jax.make_jaxpr(function)(*([jnp.zeros(())] * len(symbols)))
    return _evaluate(traced.jaxpr, traced.consts, list(symbols))


def number(value: Any) -> sympy.Expr:
    """An integer where the value is one."""
    if np.ndim(value) or not np.isfinite(value):
        raise NoExpression("an array")
    plain = float(value)
    return sympy.Integer(int(plain)) if plain == int(plain) and abs(plain) < 1e15 else sympy.Float(plain)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "max": lambda a, b: sympy.Max(a, b),
    "min": lambda a, b: sympy.Min(a, b),
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda a: -a,
    "exp": sympy.exp,
    "log": sympy.log,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "tanh": sympy.tanh,
    "sqrt": sympy.sqrt,
    "abs": sympy.Abs,
    "square": lambda a: a**2,
    "one_minus_square": lambda a: 1 - a**2,
    "log2": lambda a: sympy.log(a) / sympy.log(2),
    "convert_element_type": lambda a: a,
    "stop_gradient": lambda a: a,
    "logistic": lambda a: 1 / (1 + sympy.exp(-a)),
    "log1p": lambda a: sympy.log(1 + a),
    "expm1": lambda a: sympy.exp(a) - 1,
}


def _evaluate(jaxpr: Any, consts: list[Any], arguments: list[Any]) -> list[Any]:
    """Run a traced function on symbols; raises :class:`NoExpression` where there is no counterpart."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(number, consts), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return number(atom.val) if hasattr(atom, "val") else known[atom]

    for step in jaxpr.eqns:
        name, inputs = step.primitive.name, [read(v) for v in step.invars]
        if name in ("pjit", "jit", "closed_call"):
            inner = step.params["jaxpr"]
            results = _evaluate(inner.jaxpr, inner.consts, inputs)
        elif name == "integer_pow":
            results = [inputs[0] ** step.params["y"]]
        elif name == "polynomial":
            results = [sum(c * inputs[0] ** k for k, c in enumerate(inputs[1:]))]
        elif name in _BINARY:
            results = [_BINARY[name](*inputs)]
        elif name in _UNARY:
            results = [_UNARY[name](*inputs)]
        else:
            raise NoExpression(name)
        known |= dict(zip(step.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]
