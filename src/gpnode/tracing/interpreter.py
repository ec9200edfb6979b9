"""The interpreter of traced functions: a jaxpr is run once on arrays whose elements are symbols.

What arithmetic on symbols means is told by an :class:`Algebra`. Elements that are plain numbers are known, and
operations on known elements alone are done at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from gpnode.tracing.arrays import CALLS, evaluate, move


class Unsupported(Exception):
    """The function cannot be written in an algebra; the message says why."""


class Algebra(ABC):
    """Arithmetic on elements, which are symbols of one kind or plain numbers."""

    exact: ClassVar[bool] = False
    """Whether elementary functions of known numbers are left to the algebra too: sqrt(2), not 1.414."""

    @abstractmethod
    def is_known(self, a: Any) -> bool:
        """Whether an element is a plain number."""

    @abstractmethod
    def add(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def sub(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def mul(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def div(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def neg(self, a: Any) -> Any: ...

    @abstractmethod
    def power(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def integer_power(self, a: Any, n: int) -> Any: ...

    @abstractmethod
    def call(self, function: str, *args: Any) -> Any:
        """An elementary function by JAX's name for it (see ``FUNCTIONS``)."""

    @abstractmethod
    def compare(self, operator: str, a: Any, b: Any) -> Any:
        """``operator`` is Python's: <, <=, >, >=, ==, !=."""

    @abstractmethod
    def logic(self, operator: str, *args: Any) -> Any:
        """``operator`` is one of and, or, not."""

    @abstractmethod
    def choose(self, which: Any, cases: Sequence[Any]) -> Any:
        """The case whose number ``which`` tells, False and True counting as 0 and 1."""

    @abstractmethod
    def truth_as_number(self, a: Any) -> Any:
        """One for a truth, zero for a falsehood."""


FUNCTIONS = frozenset({
    "exp", "exp2", "log", "log1p", "expm1", "sqrt", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan",
    "asinh", "acosh", "atanh", "atan2", "floor", "ceil", "erf", "erfc", "abs", "max", "min", "sign", "logistic", "cbrt",
    "is_finite",
})  # fmt: skip

# These move elements about, to where indices tell. They are run on the elements' numbers.
_MOVES = {"dynamic_slice", "gather", "unstack", "tile", "pad", "scatter", "dynamic_update_slice"}
_IDENTITIES = {"stop_gradient", "copy", "copy_p", "optimization_barrier"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_REDUCTIONS: dict[str, Callable[[Algebra, Any, Any], Any]] = {
    "reduce_sum": lambda algebra, a, b: algebra.add(a, b),
    "reduce_prod": lambda algebra, a, b: algebra.mul(a, b),
    "reduce_max": lambda algebra, a, b: algebra.call("max", a, b),
    "reduce_min": lambda algebra, a, b: algebra.call("min", a, b),
}


def run(jaxpr: Any, consts: Sequence[np.ndarray], algebra: Algebra, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of ``jaxpr`` as object arrays of elements, for constants and inputs given as such."""
    values: dict[Any, np.ndarray] = dict(zip(jaxpr.constvars, consts, strict=True))
    values |= zip(jaxpr.invars, inputs, strict=True)

    def read(atom: Any) -> np.ndarray:
        return known_elements(atom.val) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        results = _apply(equation, algebra, [read(a) for a in equation.invars])
        values |= zip(equation.outvars, results, strict=True)
    return [read(a) for a in jaxpr.outvars]


def known_elements(value: Any) -> np.ndarray:
    """The numbers of an array, as elements."""
    if isinstance(value, jax.core.Tracer):
        raise Unsupported("it depends on traced values other than its arguments")
    return np.asarray(value).astype(object)


def _is_from_jax(inner: Any, function: str) -> bool:
    source = getattr(inner, "jaxpr", inner).debug_info.func_src_info
    return source.startswith(f"{function} at ") and "jax/_src/" in source.replace("\\", "/")


def _horner(algebra: Algebra, a: Any, coefficients: Sequence[Any]) -> Any:
    total: Any = 0.0
    for coefficient in reversed(coefficients):
        total = algebra.add(coefficient, algebra.mul(a, total))
    return total


def _apply(equation: Any, algebra: Algebra, args: list[np.ndarray]) -> list[np.ndarray]:
    name, params = equation.primitive.name, equation.params
    if name == "custom_jvp_call" and _is_from_jax(params["call_jaxpr"], "exp_neg_sq"):
        # In the derivative of erf since JAX 0.12, written there with operations on bits.
        return [_map(lambda a: algebra.call("exp", algebra.neg(algebra.mul(a, a))), *args)]
    if name in CALLS:
        inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
        if isinstance(inner, ClosedJaxpr):
            return run(inner.jaxpr, [known_elements(c) for c in inner.consts], algebra, args)
        return run(inner, [], algebra, args)
    moved = move(equation, args)
    if moved is not None:
        return moved
    elementwise = _elementwise(name, params, algebra)
    exact = algebra.exact and elementwise is not None and equation.outvars[0].aval.dtype.kind == "f"
    if all(_all_known(algebra, a) for a in args) and not exact:
        return _fold(equation, args)
    if elementwise is not None:
        return [_map(elementwise, *args)]
    if name in _IDENTITIES:
        return args
    if name == "convert_element_type":
        return [_convert(equation, algebra, args[0])]
    if name in _MOVES:
        return _move(equation, algebra, args)
    if name in _REDUCTIONS:
        return [_reduce(lambda a, b: _REDUCTIONS[name](algebra, a, b), args[0], params["axes"])]
    if name == "dot_general":
        return [_dot_general(algebra, args[0], args[1], params["dimension_numbers"])]
    raise Unsupported(f"it uses the operation {name!r}")


def _elementwise(name: str, params: Any, algebra: Algebra) -> Callable[..., Any] | None:
    """What an operation does to each element, if it is one of these."""
    if name in FUNCTIONS:
        return lambda *a: algebra.call(name, *a)
    if name in _COMPARISONS:
        return lambda a, b: algebra.compare(_COMPARISONS[name], a, b)
    if name in ("and", "or", "not"):
        return lambda *a: algebra.logic(name, *a)
    operations: dict[str, Callable[..., Any]] = {
        "add": algebra.add,
        "add_any": algebra.add,
        "sub": algebra.sub,
        "mul": algebra.mul,
        "div": algebra.div,
        "neg": algebra.neg,
        "pow": algebra.power,
        "integer_pow": lambda a: algebra.integer_power(a, params["y"]),
        "square": lambda a: algebra.mul(a, a),
        "rsqrt": lambda a: algebra.div(1.0, algebra.call("sqrt", a)),
        # Since JAX 0.12: the first in derivatives of tanh, asin and acos.
        "one_minus_square": lambda a: algebra.mul(algebra.add(1.0, a), algebra.sub(1.0, a)),
        "polynomial": lambda a, *coefficients: _horner(algebra, a, coefficients),
        "log2": lambda a: algebra.div(algebra.call("log", a), algebra.call("log", 2.0)),
        "clamp": lambda low, a, high: algebra.call("max", low, algebra.call("min", a, high)),
        "select_n": lambda which, *cases: algebra.choose(which, cases),
    }
    return operations.get(name)


def _all_known(algebra: Algebra, a: np.ndarray) -> bool:
    return all(algebra.is_known(e) for e in a.ravel())


def _fold(equation: Any, args: list[np.ndarray]) -> list[np.ndarray]:
    """Do an operation on known elements at once."""
    typed = [_typed(a, v) for a, v in zip(args, equation.invars, strict=True)]
    return [r.astype(object) for r in evaluate(equation, typed, equation.params)]


def _typed(a: np.ndarray, variable: Any) -> np.ndarray:
    """Known elements in the type that ``variable`` has."""
    return np.asarray(a.tolist(), dtype=variable.aval.dtype).reshape(a.shape)  # a list of nothing has no shape


def _convert(equation: Any, algebra: Algebra, a: np.ndarray) -> np.ndarray:
    """Elements as another type, which must be able to hold them as they are."""
    old, new = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
    if old == new:
        return a
    if old.kind == "b":
        return _map(algebra.truth_as_number, a)
    if new.kind != "f":
        raise Unsupported(f"it turns numbers that depend on the state from {old} into {new}")
    return a


def _move(equation: Any, algebra: Algebra, args: list[np.ndarray]) -> list[np.ndarray]:
    """Apply an operation that only moves elements, by applying it to their numbers."""
    moved = [v.aval.dtype == equation.outvars[0].aval.dtype for v in equation.invars]
    elements: list[Any] = [math.nan]
    numbered: list[Any] = []
    for a, v, moves in zip(args, equation.invars, moved, strict=True):
        if moves:
            numbered.append(np.arange(a.size).reshape(a.shape) + len(elements))
            elements.extend(a.ravel())
        elif _all_known(algebra, a):
            numbered.append(_typed(a, v))
        else:
            raise Unsupported(f"{equation.primitive.name!r} with an index that depends on the state")
    params = dict(equation.params)
    if "fill_value" in params:
        params["fill_value"] = 0  # element number 0 is NaN, what JAX gives out of bounds
    return [_map(lambda number: elements[int(number)], numbers) for numbers in evaluate(equation, numbered, params)]


def _map(function: Callable[..., Any], *args: np.ndarray) -> np.ndarray:
    arrays = np.broadcast_arrays(*args)
    results = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(results.shape):
        results[index] = function(*(a[index] for a in arrays))
    return results


def _reduce(function: Callable[[Any, Any], Any], a: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    kept = [i for i in range(a.ndim) if i not in axes]
    rows = a.transpose(*kept, *axes).reshape(*(a.shape[i] for i in kept), -1)
    results = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(results.shape):
        total, *others = rows[index]
        for element in others:
            total = function(total, element)
        results[index] = total
    return results


def _dot_general(algebra: Algebra, a: np.ndarray, b: np.ndarray, numbers: Any) -> np.ndarray:
    (over_a, over_b), (batch_a, batch_b) = numbers
    free_a = [i for i in range(a.ndim) if i not in (*over_a, *batch_a)]
    free_b = [i for i in range(b.ndim) if i not in (*over_b, *batch_b)]
    batch_shape = [a.shape[i] for i in batch_a]
    shape = [*batch_shape, *(a.shape[i] for i in free_a), *(b.shape[i] for i in free_b)]
    length, batches = math.prod(a.shape[i] for i in over_a), math.prod(batch_shape)
    rows = a.transpose(*batch_a, *free_a, *over_a).reshape(batches, -1, length)
    columns = b.transpose(*batch_b, *free_b, *over_b).reshape(batches, -1, length)
    products = np.empty((batches, rows.shape[1], columns.shape[1]), dtype=object)
    for n, i, j in np.ndindex(products.shape):
        total: Any = 0.0
        for x, y in zip(rows[n, i], columns[n, j], strict=True):
            total = algebra.add(total, algebra.mul(x, y))
        products[n, i, j] = total
    return products.reshape(shape)
