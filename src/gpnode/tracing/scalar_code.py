"""From a traced JAX function to straight-line scalar code.

A jaxpr is run once on arrays whose elements are symbols. Every element of the result is then an
expression in the inputs' elements, and the expressions, written down in order, are the code. Zeros
and ones are folded away, so that a sparse Jacobian costs only its non-zero entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

MOST_OPERATIONS = 20_000
"""Longer straight-line code takes minutes to compile; such systems are better left to array code."""


class Unsupported(Exception):
    """The function cannot be written as scalar code; the message says why."""


class Symbol:
    """A number in the generated code; which one is told by ``name``."""

    __slots__ = ("made_from", "name", "statement")

    def __init__(self, name: str, statement: str = "", made_from: tuple[Symbol, ...] = ()) -> None:
        self.name = name
        self.statement = statement  # empty for an input
        self.made_from = made_from


Scalar = Symbol | float | int | bool


class Tape:
    """The statements so far. Equal expressions are written once."""

    def __init__(self) -> None:
        self._known: dict[str, Symbol] = {}

    def let(self, template: str, *args: Scalar) -> Symbol:
        """The symbol that stands for ``template`` with ``args`` filled in."""
        expression = template.format(*(text(a) for a in args))
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= MOST_OPERATIONS:
                raise Unsupported(f"it takes more than {MOST_OPERATIONS} scalar operations")
            name = f"v{len(self._known)}"
            made_from = tuple(a for a in args if isinstance(a, Symbol))
            found = self._known[expression] = Symbol(name, f"{name} = {expression}", made_from)
        return found

    def depends(self, results: Iterable[Scalar]) -> set[str]:
        """Names of all that ``results`` depend on, inputs among them."""
        found: set[str] = set()
        waiting = [r for r in results if isinstance(r, Symbol)]
        while waiting:
            symbol = waiting.pop()
            if symbol.name not in found:
                found.add(symbol.name)
                waiting.extend(symbol.made_from)
        return found

    def needed(self, results: Iterable[Scalar]) -> list[str]:
        """The statements that ``results`` depend on, in order."""
        wanted = self.depends(results)
        return [s.statement for s in self._known.values() if s.name in wanted]

    # -- arithmetic -----------------------------------------------------------------------

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

    def power(self, a: Scalar, n: int) -> Scalar:
        """``a**n`` for a whole number ``n``, by squaring."""
        if n < 0:
            return self.div(1.0, self.power(a, -n))
        if n == 0:
            return 1.0
        half = self.power(a, n // 2)
        square = self.mul(half, half)
        return self.mul(square, a) if n % 2 else square

    def call(self, function: str, *args: Scalar) -> Scalar:
        return self.let(f"{function}({', '.join('{}' for _ in args)})", *args)

    def compare(self, operator: str, a: Scalar, b: Scalar) -> Scalar:
        if _known(a) and _known(b):
            return bool(_COMPARE[operator](a, b))
        return self.let(f"{{}} {operator} {{}}", a, b)

    def choose(self, which: Scalar, cases: Iterable[Scalar]) -> Scalar:
        """The case whose number ``which`` tells, False and True counting as 0 and 1."""
        options = list(cases)
        if _known(which):
            return options[int(which)]
        if all(_same(option, options[0]) for option in options):
            return options[0]
        if len(options) != 2:
            raise Unsupported("a choice between more than two cases depends on the state")
        return self.let("({1} if {0} else {2})", which, options[1], options[0])


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


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_COMPARE_PRIMITIVES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

# Functions of the generated module; those with the same name in `math` need no definition there.
_FUNCTIONS = {
    "exp": "exp", "log": "log", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt", "tanh": "tanh", "sinh": "sinh",
    "cosh": "cosh", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "atan2": "atan2", "floor": "floor", "ceil": "ceil",
    "erf": "erf", "erfc": "erfc", "abs": "abs", "max": "larger", "min": "smaller", "sign": "sign",
    "logistic": "logistic", "cbrt": "cbrt", "is_finite": "isfinite",
}  # fmt: skip

# These only move elements about. They are run, by JAX, on the elements' numbers.
_MOVES = {
    "reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "gather",
    "concatenate", "stack", "unstack", "tile", "rev", "pad", "scatter", "dynamic_update_slice", "split",
}  # fmt: skip
_INLINED = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}
_IDENTITIES = {"stop_gradient", "convert_element_type", "copy", "copy_p", "optimization_barrier"}
_REDUCTIONS = {"reduce_sum": "add", "reduce_prod": "mul"}
_EXTREMES = {"reduce_max": "larger", "reduce_min": "smaller"}


def symbols(names: Iterable[str], shape: tuple[int, ...]) -> np.ndarray:
    """Array of named symbols."""
    found = np.empty(shape, dtype=object)
    found.ravel()[:] = [Symbol(n) for n in names]
    return found


def run(jaxpr: Any, consts: list[np.ndarray], tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of ``jaxpr`` as object arrays of scalars, for constants and inputs given as such."""
    known: dict[Any, np.ndarray] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= zip(jaxpr.invars, inputs, strict=True)

    def read(atom: Any) -> np.ndarray:
        return _constant(atom.val) if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        results = _apply(equation, tape, [read(a) for a in equation.invars])
        known |= zip(equation.outvars, results, strict=True)
    return [read(a) for a in jaxpr.outvars]


def _constant(value: Any) -> np.ndarray:
    if isinstance(value, jax.core.Tracer):
        raise Unsupported("it depends on traced values other than its arguments")
    return np.asarray(value).astype(object)


def _apply(equation: Any, tape: Tape, args: list[np.ndarray]) -> list[np.ndarray]:
    name, params = equation.primitive.name, equation.params
    if name == "custom_jvp_call" and _is_from_jax(params["call_jaxpr"], "exp_neg_sq"):
        # In the derivative of erf since JAX 0.12, written there with operations on bits.
        return [_map(lambda a: tape.call("exp", tape.neg(tape.mul(a, a))), *args)]
    if name in _INLINED:
        inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
        if isinstance(inner, ClosedJaxpr):
            return run(inner.jaxpr, [_constant(c) for c in inner.consts], tape, args)
        return run(inner, [], tape, args)
    if all(_all_known(a) for a in args):
        return _fold(equation, args)
    if name in _IDENTITIES:
        return args
    if name in _MOVES:
        return _move(equation, args)
    return [_elementwise_or_reduced(name, params, tape, args)]


def _is_from_jax(inner: Any, function: str) -> bool:
    source = getattr(inner, "jaxpr", inner).debug_info.func_src_info
    return source.startswith(f"{function} at ") and "jax/_src/" in source.replace("\\", "/")


def _elementwise_or_reduced(name: str, params: Any, tape: Tape, args: list[np.ndarray]) -> np.ndarray:
    if name in ("add", "add_any"):
        return _map(tape.add, *args)
    if name in ("sub", "mul", "div", "neg"):
        return _map(getattr(tape, name), *args)
    if name == "integer_pow":
        return _map(lambda a: tape.power(a, params["y"]), *args)
    if name == "square":
        return _map(lambda a: tape.mul(a, a), *args)
    if name == "one_minus_square":  # since JAX 0.12, in derivatives of tanh, asin and acos
        return _map(lambda a: tape.mul(tape.add(1.0, a), tape.sub(1.0, a)), *args)
    if name == "polynomial":
        return _map(lambda a, *coefficients: _horner(tape, a, coefficients), *args)
    if name == "pow":
        return _map(lambda a, b: _pow(tape, a, b), *args)
    if name == "rsqrt":
        return _map(lambda a: tape.div(1.0, tape.call("sqrt", a)), *args)
    if name == "exp2":
        return _map(lambda a: tape.call("exp", tape.mul(math.log(2.0), a)), *args)
    if name == "log2":
        return _map(lambda a: tape.div(tape.call("log", a), math.log(2.0)), *args)
    if name == "clamp":
        return _map(lambda lo, a, hi: tape.call("larger", lo, tape.call("smaller", a, hi)), *args)
    if name in _COMPARE_PRIMITIVES:
        return _map(lambda a, b: tape.compare(_COMPARE_PRIMITIVES[name], a, b), *args)
    if name in ("and", "or"):
        return _map(lambda a, b: tape.let(f"{{}} {name} {{}}", a, b), *args)
    if name == "not":
        return _map(lambda a: tape.let("not {}", a), *args)
    if name == "select_n":
        return _map(lambda which, *cases: tape.choose(which, cases), *args)
    if name in _FUNCTIONS:
        return _map(lambda *a: tape.call(_FUNCTIONS[name], *a), *args)
    if name in _REDUCTIONS:
        return _reduce(getattr(tape, _REDUCTIONS[name]), args[0], params["axes"])
    if name in _EXTREMES:
        return _reduce(lambda a, b: tape.call(_EXTREMES[name], a, b), args[0], params["axes"])
    if name == "dot_general":
        return _dot_general(tape, args[0], args[1], params["dimension_numbers"])
    raise Unsupported(f"it uses the operation {name!r}")


def _pow(tape: Tape, a: Scalar, b: Scalar) -> Scalar:
    if _known(b) and float(b).is_integer() and abs(b) <= 16:
        return tape.power(a, int(b))
    return tape.call("pow", a, b)


def _horner(tape: Tape, a: Scalar, coefficients: Sequence[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for coefficient in reversed(coefficients):
        total = tape.add(coefficient, tape.mul(a, total))
    return total


def _all_known(a: np.ndarray) -> bool:
    return not any(isinstance(e, Symbol) for e in a.ravel())


def _fold(equation: Any, args: list[np.ndarray]) -> list[np.ndarray]:
    """Evaluate an operation on constants now."""
    typed = [_typed(a, v) for a, v in zip(args, equation.invars, strict=True)]
    found = equation.primitive.bind(*typed, **equation.params)
    results = found if equation.primitive.multiple_results else [found]
    return [np.asarray(r).astype(object) for r in results]


def _typed(a: np.ndarray, variable: Any) -> np.ndarray:
    """Known elements in the type that ``variable`` has."""
    return np.asarray(a.tolist(), dtype=variable.aval.dtype).reshape(a.shape)  # a list of nothing has no shape


def _move(equation: Any, args: list[np.ndarray]) -> list[np.ndarray]:
    """Apply an operation that only moves elements, by applying it to their numbers."""
    moved = [v.aval.dtype == equation.outvars[0].aval.dtype for v in equation.invars]
    elements: list[Scalar] = [math.nan]
    numbered: list[Any] = []
    for a, v, moves in zip(args, equation.invars, moved, strict=True):
        if moves:
            numbered.append(np.arange(a.size).reshape(a.shape) + len(elements))
            elements.extend(a.ravel())
        elif _all_known(a):
            numbered.append(_typed(a, v))
        else:
            raise Unsupported(f"{equation.primitive.name!r} with an index that depends on the state")
    params = dict(equation.params)
    if "fill_value" in params:
        params["fill_value"] = 0  # element number 0 is NaN, what JAX gives out of bounds
    found = equation.primitive.bind(*numbered, **params)
    results = found if equation.primitive.multiple_results else [found]
    return [_pick(elements, np.asarray(r)) for r in results]


def _pick(elements: list[Scalar], numbers: np.ndarray) -> np.ndarray:
    found = np.empty(numbers.shape, dtype=object)
    for index, number in np.ndenumerate(numbers):
        found[index] = elements[int(number)]
    return found


def _map(function: Callable[..., Scalar], *args: np.ndarray) -> np.ndarray:
    arrays = np.broadcast_arrays(*args)
    found = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(found.shape):
        found[index] = function(*(a[index] for a in arrays))
    return found


def _reduce(function: Callable[[Scalar, Scalar], Scalar], a: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    kept = [i for i in range(a.ndim) if i not in axes]
    rows = a.transpose(*kept, *axes).reshape(*(a.shape[i] for i in kept), -1)
    found = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(found.shape):
        first, *rest = rows[index]
        for element in rest:
            first = function(first, element)
        found[index] = first
    return found


def _dot_general(tape: Tape, a: np.ndarray, b: np.ndarray, numbers: Any) -> np.ndarray:
    (over_a, over_b), (batch_a, batch_b) = numbers
    free_a = [i for i in range(a.ndim) if i not in (*over_a, *batch_a)]
    free_b = [i for i in range(b.ndim) if i not in (*over_b, *batch_b)]
    batch_shape = [a.shape[i] for i in batch_a]
    shape = [*batch_shape, *(a.shape[i] for i in free_a), *(b.shape[i] for i in free_b)]
    length, batches = math.prod(a.shape[i] for i in over_a), math.prod(batch_shape)
    rows = a.transpose(*batch_a, *free_a, *over_a).reshape(batches, -1, length)
    columns = b.transpose(*batch_b, *free_b, *over_b).reshape(batches, -1, length)
    found = np.empty((batches, rows.shape[1], columns.shape[1]), dtype=object)
    for n, i, j in np.ndindex(found.shape):
        total: Scalar = 0.0
        for x, y in zip(rows[n, i], columns[n, j], strict=True):
            total = tape.add(total, tape.mul(x, y))
        found[n, i, j] = total
    return found.reshape(shape)
