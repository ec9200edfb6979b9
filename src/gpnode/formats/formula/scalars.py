"""The same operations for plain numbers, one at a time. What has no value is NaN or infinite, never an exception."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any


def _total(function: Callable[..., float]) -> Callable[..., float]:
    """Infinity where the value is too large, NaN where there is none."""

    def value(*args: Any) -> float:
        try:
            return float(function(*args))
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError, TypeError):
            return math.nan

    return value


def divide(a: float, b: float) -> float:
    """A quotient, infinite or NaN where the divisor is zero."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _log(x: float) -> float:
    try:
        return math.log(x)
    except ValueError:
        return -math.inf if x == 0 else math.nan


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        return math.inf if a == 0 else math.nan


def _logarithm(*args: float) -> float:
    return _log(args[0]) if len(args) == 1 else divide(_log(args[1]), _log(args[0]))


def _minus(a: float, *b: float) -> float:
    return a - b[0] if b else -a


def _sign(x: float) -> float:
    return 1.0 if x > 0 else -1.0 if x < 0 else 0.0 * x


def _quotient(a: float, b: float) -> float:
    ratio = divide(a, b)
    return float(math.trunc(ratio)) if math.isfinite(ratio) else ratio


def _sinh(x: float) -> float:
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _of_inverse(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(divide(1.0, x))


def _inverse_of(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: divide(1.0, function(x))


def _rounded(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _chained(compare: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    return lambda *args: all(compare(a, b) for a, b in itertools.pairwise(args))


def _arctanh(x: float) -> float:
    if abs(x) == 1.0:
        return math.copysign(math.inf, x)
    return math.atanh(x) if abs(x) < 1.0 else math.nan


_arccos, _arcsin, _arccosh = (_total(f) for f in (math.acos, math.asin, math.acosh))

SCALARS: dict[str, Callable[..., Any]] = {
    "plus": lambda *args: sum(args),
    "times": lambda *args: functools.reduce(operator.mul, args, 1.0),
    "minus": _minus,
    "divide": divide,
    "power": _power,
    "root": lambda x, n=2.0: _power(x, divide(1.0, n)) if n != 2.0 else _total(math.sqrt)(x),
    "log": _logarithm,
    "ln": _log,
    "log10": lambda x: divide(_log(x), math.log(10.0)) if not x > 0 else math.log10(x),
    "log2": lambda x: divide(_log(x), math.log(2.0)) if not x > 0 else math.log2(x),
    "min": lambda *args: math.nan if any(a != a for a in args) else min(args),
    "max": lambda *args: math.nan if any(a != a for a in args) else max(args),
    "quotient": _quotient,
    "rem": _total(math.fmod),
    "abs": abs,
    "sign": _sign,
    "floor": _rounded(math.floor),
    "ceiling": _rounded(math.ceil),
    "factorial": _total(lambda x: math.gamma(x + 1.0)),
    "exp": _total(math.exp),
    "sqrt": _total(math.sqrt),
    "cbrt": _total(math.cbrt),
    "sin": _total(math.sin),
    "cos": _total(math.cos),
    "tan": _total(math.tan),
    "sec": _inverse_of(_total(math.cos)),
    "csc": _inverse_of(_total(math.sin)),
    "cot": _inverse_of(_total(math.tan)),
    "sinh": _sinh,
    "cosh": _total(math.cosh),
    "tanh": math.tanh,
    "sech": _inverse_of(_total(math.cosh)),
    "csch": _inverse_of(_sinh),
    "coth": _inverse_of(math.tanh),
    "arcsin": _arcsin,
    "arccos": _arccos,
    "arctan": math.atan,
    "arcsinh": math.asinh,
    "arccosh": _arccosh,
    "arctanh": _arctanh,
    "arcsec": _of_inverse(_arccos),
    "arccsc": _of_inverse(_arcsin),
    "arccot": _of_inverse(math.atan),
    "arcsech": _of_inverse(_arccosh),
    "arccsch": _of_inverse(math.asinh),
    "arccoth": _of_inverse(_arctanh),
    "lt": _chained(operator.lt),
    "leq": _chained(operator.le),
    "gt": _chained(operator.gt),
    "geq": _chained(operator.ge),
    "eq": _chained(operator.eq),
    "neq": operator.ne,
    "and": lambda *args: all(args),
    "or": lambda *args: any(args),
    "xor": lambda *args: sum(bool(a) for a in args) % 2 == 1,
    "not": operator.not_,
    "implies": lambda a, b: bool(not a or b),
    "true": lambda: True,
    "false": lambda: False,
}
"""By the names in ``OPERATIONS``; ``piecewise`` is not a function of values."""
