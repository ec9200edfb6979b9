"""Straight-line scalar code, the algebra in which vector fields are compiled.

Every element of a result is an expression in the inputs' elements, and the expressions, written down in order, are the
code. Zeros and ones are folded away, so that a sparse Jacobian costs only its non-zero entries.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from gpnode.tracing.interpreter import Algebra, Unsupported

MOST_OPERATIONS = 20_000
"""Longer straight-line code takes minutes to compile; such systems are better left to array code."""

_LARGEST_PRODUCT = 16  # the largest exponent for which a power is written as a product


class Symbol:
    """A number in the generated code; which one is told by ``name``."""

    __slots__ = ("made_from", "name", "statement")

    def __init__(self, name: str, statement: str = "", made_from: tuple[Symbol, ...] = ()) -> None:
        self.name = name
        self.statement = statement  # empty for an input
        self.made_from = made_from


Scalar = Symbol | float | int | bool


def symbols(names: Iterable[str], shape: tuple[int, ...]) -> np.ndarray:
    """Array of named symbols."""
    array = np.empty(shape, dtype=object)
    array.ravel()[:] = [Symbol(n) for n in names]
    return array


class Tape(Algebra):
    """The statements so far. Equal expressions are written once."""

    def __init__(self) -> None:
        self._symbols: dict[str, Symbol] = {}

    def let(self, template: str, *args: Scalar) -> Symbol:
        """The symbol that stands for ``template`` with ``args`` filled in."""
        expression = template.format(*(text(a) for a in args))
        symbol = self._symbols.get(expression)
        if symbol is None:
            if len(self._symbols) >= MOST_OPERATIONS:
                raise Unsupported(f"it takes more than {MOST_OPERATIONS} scalar operations")
            name = f"v{len(self._symbols)}"
            made_from = tuple(a for a in args if isinstance(a, Symbol))
            symbol = self._symbols[expression] = Symbol(name, f"{name} = {expression}", made_from)
        return symbol

    def depends(self, results: Iterable[Scalar]) -> set[str]:
        """Names of all that ``results`` depend on, inputs among them."""
        names: set[str] = set()
        waiting = [r for r in results if isinstance(r, Symbol)]
        while waiting:
            symbol = waiting.pop()
            if symbol.name not in names:
                names.add(symbol.name)
                waiting.extend(symbol.made_from)
        return names

    def needed(self, results: Iterable[Scalar]) -> list[str]:
        """The statements that ``results`` depend on, in order."""
        wanted = self.depends(results)
        return [s.statement for s in self._symbols.values() if s.name in wanted]

    # -- arithmetic -----------------------------------------------------------------------

    def is_known(self, a: Scalar) -> bool:
        return _known(a)

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b):
            return a + b
        if _is(a, 0.0):
            return b
        if _is(b, 0.0):
            return a
        return self.let("{} + {}", a, b)

    def sub(self, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b):
            return a - b
        if _is(b, 0.0):
            return a
        if _is(a, 0.0):
            return self.neg(b)
        return self.let("{} - {}", a, b)

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b):
            return a * b
        if _is(a, 0.0) or _is(b, 0.0):
            return 0.0
        if _is(a, 1.0):
            return b
        if _is(b, 1.0):
            return a
        return self.let("{} * {}", a, b)

    def div(self, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b) and b != 0:
            return a / b
        if _is(a, 0.0) and not _known(b):
            return 0.0
        if _is(b, 1.0):
            return a
        return self.let("{} / {}", a, b)

    def neg(self, a: Scalar) -> Scalar:
        return -a if _known(a) else self.let("-{}", a)

    def power(self, a: Scalar, b: Scalar) -> Scalar:
        if _known(b) and float(b).is_integer() and abs(b) <= _LARGEST_PRODUCT:
            return self.integer_power(a, int(b))
        return self.call("pow", a, b)

    def integer_power(self, a: Scalar, n: int) -> Scalar:
        """By squaring."""
        if n < 0:
            return self.div(1.0, self.integer_power(a, -n))
        if n == 0:
            return 1.0
        half = self.integer_power(a, n // 2)
        square = self.mul(half, half)
        return self.mul(square, a) if n % 2 else square

    def call(self, function: str, *args: Scalar) -> Scalar:
        if function == "exp2":
            return self.call("exp", self.mul(math.log(2.0), *args))
        return self.let(f"{_NAMES.get(function, function)}({', '.join('{}' for _ in args)})", *args)

    def compare(self, operator: str, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b):
            return bool(_COMPARE[operator](a, b))
        return self.let(f"{{}} {operator} {{}}", a, b)

    def logic(self, operator: str, *args: Scalar) -> Scalar:
        return self.let("not {}" if operator == "not" else f"{{}} {operator} {{}}", *args)

    def choose(self, which: Scalar, cases: Sequence[Scalar]) -> Scalar:
        if _known(which):
            return cases[int(which)]
        if all(_same(case, cases[0]) for case in cases):
            return cases[0]
        if len(cases) != 2:
            raise Unsupported("a choice between more than two cases depends on the state")
        return self.let("({1} if {0} else {2})", which, cases[1], cases[0])

    def truth_as_number(self, a: Scalar) -> Scalar:
        return a  # the compiler does it


def text(a: Scalar) -> str:
    """How a scalar is written in the code."""
    if isinstance(a, Symbol):
        return a.name
    if isinstance(a, bool | np.bool_):
        return str(bool(a))
    if isinstance(a, int | np.integer):
        return f"({int(a)})"
    if math.isfinite(a):
        return f"({float(a)!r})"
    return "nan" if math.isnan(a) else ("inf" if a > 0 else "(-inf)")


def _known(a: Scalar) -> TypeGuard[float]:
    return not isinstance(a, Symbol)


def _is(a: Scalar, value: float) -> bool:
    return not isinstance(a, Symbol) and a == value


def _same(a: Scalar, b: Scalar) -> bool:
    return a is b if isinstance(a, Symbol) or isinstance(b, Symbol) else a == b


# Functions of the generated module, where JAX has another name for them than Python.
_NAMES = {"max": "larger", "min": "smaller", "is_finite": "isfinite"}

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
