"""What JAX's operations do to arrays of plain numbers, and to arrays of anything where they only move elements.

A traced function has many small ones, on constants and on positions. NumPy does at once what JAX would compile first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

P = ParamSpec("P")
T = TypeVar("T")


def _broadcast(a: np.ndarray, params: Any) -> np.ndarray:
    sizes = dict(zip(params["broadcast_dimensions"], a.shape, strict=True))
    return np.broadcast_to(a.reshape([sizes.get(i, 1) for i in range(len(params["shape"]))]), params["shape"])


def _slice(a: np.ndarray, params: Any) -> np.ndarray:
    strides = params["strides"] or (1,) * a.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return a[tuple(slice(*bound) for bound in bounds)]


# Shapes alone change, or order: elements may be of any kind.
_MOVES: dict[str, Callable[..., np.ndarray]] = {
    "squeeze": lambda params, a: a.squeeze(tuple(params["dimensions"])),
    "expand_dims": lambda params, a: np.expand_dims(a, params["dimensions"]),
    "transpose": lambda params, a: a.transpose(params["permutation"]),
    "broadcast_in_dim": lambda params, a, *_: _broadcast(a, params),
    "slice": lambda params, a: _slice(a, params),
    "concatenate": lambda params, *parts: np.concatenate(parts, axis=params["dimension"]),
    "stack": lambda params, *parts: np.stack(parts, axis=params["axis"]),
    "rev": lambda params, a: np.flip(a, params["dimensions"]),
}

_SAME_IN_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum,
    "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.bitwise_not, "abs": np.abs,
    "is_finite": np.isfinite, "sign": np.sign,
}  # fmt: skip
_SAME_OF_FLOATS: dict[str, Callable[..., np.ndarray]] = {
    "div": np.divide, "pow": np.power, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "square": np.square, "floor": np.floor, "ceil": np.ceil, "expm1": np.expm1, "log1p": np.log1p,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min, "reduce_and": np.all,
    "reduce_or": np.any,
}  # fmt: skip
CALLS = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}
"""Functions inside a function."""


def move(equation: Any, args: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """What an operation makes of arrays of anything; None where it does more than to move their elements."""
    name, params = equation.primitive.name, equation.params
    if name == "split":
        ends = np.cumsum([int(size) for size in params["sizes"]])
        return np.split(args[0], ends[:-1], axis=params["axis"])
    if name == "reshape" and params["dimensions"] is None:
        return [args[0].reshape(equation.outvars[0].aval.shape)]
    moved = _MOVES.get(name)
    return None if moved is None else [moved(params, *args)]


def evaluate(equation: Any, args: Sequence[np.ndarray], params: dict[str, Any]) -> list[np.ndarray]:
    """What an operation makes of numbers."""
    if all(a.dtype == v.aval.dtype for a, v in zip(args, equation.invars, strict=True)):
        result = _in_numpy(equation, args, params)
        if result is not None:
            return [np.asarray(result).astype(equation.outvars[0].aval.dtype)]
    with jax.ensure_compile_time_eval():  # we may be inside the tracing of a caller
        results = equation.primitive.bind(*args, **params)
    return [np.asarray(r) for r in (results if equation.primitive.multiple_results else [results])]


def _in_numpy(equation: Any, args: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray | None:
    """The result of an operation, if NumPy has the same one."""
    name, kind = equation.primitive.name, equation.outvars[0].aval.dtype.kind
    if name in _SAME_IN_NUMPY:
        return _SAME_IN_NUMPY[name](*args)
    if name in _SAME_OF_FLOATS and kind == "f":
        return _SAME_OF_FLOATS[name](*args)
    if name in _REDUCTIONS:
        return _REDUCTIONS[name](args[0], axis=tuple(params["axes"]))
    if name == "integer_pow" and kind == "f":
        return args[0] ** float(params["y"])
    if name == "iota":
        shape, along = params["shape"], params["dimension"]
        counted = np.arange(shape[along]).reshape([-1 if i == along else 1 for i in range(len(shape))])
        return np.broadcast_to(counted, shape)
    if name == "convert_element_type" and (args[0].dtype.kind in "biu" or kind == "f"):
        return args[0]
    if name == "select_n" and args[0].dtype == bool:
        return np.where(args[0], args[2], args[1])
    return None


def at_once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function of JAX gives for a few numbers, without compiling each of its operations first.

    While a caller is traced it is called as it is.
    """
    leaves = jax.tree.leaves((args, kwargs))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return function(*args, **kwargs)
    traced, shapes = jax.make_jaxpr(lambda a, k: function(*a, **k), return_shape=True)(args, kwargs)
    if any(isinstance(const, jax.core.Tracer) for const in traced.consts):
        return function(*args, **kwargs)
    with np.errstate(all="ignore"):  # as in JAX
        results = _run(traced, [np.asarray(leaf) for leaf in leaves])
    return jax.tree.unflatten(jax.tree.structure(shapes), [jax.device_put(r) for r in results])


def _run(traced: ClosedJaxpr, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    jaxpr: Any = traced.jaxpr
    values = dict(zip(jaxpr.constvars, map(np.asarray, traced.consts), strict=True))
    values |= {v: a.astype(v.aval.dtype) for v, a in zip(jaxpr.invars, inputs, strict=True)}

    def read(atom: Any) -> np.ndarray:
        is_literal: bool = isinstance(atom, Literal)
        return np.asarray(atom.val, atom.aval.dtype) if is_literal else values[atom]

    for equation in jaxpr.eqns:
        args = [read(a) for a in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        results = move(equation, args)
        if equation.primitive.name in CALLS and isinstance(inner, ClosedJaxpr):
            results = _run(inner, args)
        elif results is None:
            results = evaluate(equation, args, equation.params)
        values |= zip(equation.outvars, results, strict=True)
    return [read(a) for a in jaxpr.outvars]
