"""Formulas of traced functions, the algebra of sympy's expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from gpnode.tracing.interpreter import Algebra, Unsupported, known_elements, run


def write_formulas(function: Callable[..., Sequence[Any]], symbols: Sequence[Any]) -> list[sympy.Expr]:
    """What ``function`` of as many numbers as there are ``symbols`` returns, as formulas in them.

    Raises :class:`Unsupported` where there is none.
    """
    traced = jax.make_jaxpr(function)(*([jnp.zeros(())] * len(symbols)))
    inputs = [np.full((), symbol, dtype=object) for symbol in symbols]
    results = run(traced.jaxpr, [known_elements(c) for c in traced.consts], Expressions(), inputs)
    if any(result.ndim for result in results):
        raise Unsupported("it returns an array")
    return [_expression(result[()]) for result in results]


def number(value: Any) -> sympy.Expr:
    """An integer where the value is one."""
    if np.ndim(value) or not np.isfinite(value):
        raise Unsupported("an array, or not a finite number")
    plain = float(value)
    return sympy.Integer(int(plain)) if plain == int(plain) and abs(plain) < 1e15 else sympy.Float(plain)


class Expressions(Algebra):
    """Arithmetic of formulas; numbers stay exact where they can."""

    exact: ClassVar[bool] = True

    def is_known(self, a: Any) -> bool:
        return not isinstance(a, sympy.Basic)

    def add(self, a: Any, b: Any) -> Any:
        return _expression(a) + _expression(b)

    def sub(self, a: Any, b: Any) -> Any:
        return _expression(a) - _expression(b)

    def mul(self, a: Any, b: Any) -> Any:
        return _expression(a) * _expression(b)

    def div(self, a: Any, b: Any) -> Any:
        return _expression(a) / _expression(b)

    def neg(self, a: Any) -> Any:
        return -_expression(a)

    def power(self, a: Any, b: Any) -> Any:
        return _expression(a) ** _expression(b)

    def integer_power(self, a: Any, n: int) -> Any:
        return _expression(a) ** n

    def call(self, function: str, *args: Any) -> Any:
        if function not in _FUNCTIONS:
            raise Unsupported(f"it uses the function {function!r}")
        return _FUNCTIONS[function](*map(_expression, args))

    def compare(self, operator: str, a: Any, b: Any) -> Any:
        return sympy.Rel(_expression(a), _expression(b), operator)

    def logic(self, operator: str, *args: Any) -> Any:
        truths = [a if isinstance(a, sympy.Basic) else sympy.true if a else sympy.false for a in args]
        if not all(isinstance(a, sympy.logic.boolalg.Boolean) for a in truths):
            raise Unsupported("it combines the bits of integers")
        return {"and": sympy.And, "or": sympy.Or, "not": sympy.Not}[operator](*truths)

    def choose(self, which: Any, cases: Sequence[Any]) -> Any:
        if self.is_known(which):
            return cases[int(which)]
        if len(cases) != 2:
            raise Unsupported("a choice between more than two cases depends on the state")
        return sympy.Piecewise((_expression(cases[1]), which), (_expression(cases[0]), True))

    def truth_as_number(self, a: Any) -> Any:
        return self.choose(a, (sympy.Integer(0), sympy.Integer(1)))


def _expression(a: Any) -> sympy.Expr:
    return a if isinstance(a, sympy.Basic) else number(a)


_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    **{name: getattr(sympy, name) for name in ("exp", "log", "sqrt", "sign", "floor", "erf", "erfc", "atan2")},
    **{name: getattr(sympy, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: getattr(sympy, name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")},
    "abs": sympy.Abs,
    "ceil": sympy.ceiling,
    "max": sympy.Max,
    "min": sympy.Min,
    "exp2": lambda a: sympy.Integer(2) ** a,
    "log1p": lambda a: sympy.log(1 + a),
    "expm1": lambda a: sympy.exp(a) - 1,
    "logistic": lambda a: 1 / (1 + sympy.exp(-a)),
    "cbrt": lambda a: sympy.sign(a) * sympy.Abs(a) ** sympy.Rational(1, 3),
}


def round_numbers(expression: sympy.Expr, digits: int = 4) -> sympy.Expr:
    """The expression with its numbers rounded to so many significant digits."""
    return expression.xreplace({value: sympy.Float(value, digits) for value in expression.atoms(sympy.Float)})
