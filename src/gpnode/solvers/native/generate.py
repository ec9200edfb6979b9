"""A vector field in native code: traced by JAX, written as scalar functions, compiled by numba.

Modules are written to the user's cache directory under the digest of their text, next to
numba's own cache, so that a model seen before costs a fraction of a second.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.flatten_util import ravel_pytree

from gpnode._config import cache_directory
from gpnode.solvers.base import VectorField
from gpnode.solvers.driven import Driven, DrivenField
from gpnode.solvers.native import fields
from gpnode.tracing.code import Symbol, Tape, symbols, text
from gpnode.tracing.interpreter import Unsupported, run

_HELPERS = """
@njit
def larger(a, b):
    return a if a >= b or isnan(a) else b

@njit
def smaller(a, b):
    return a if a <= b or isnan(a) else b

@njit
def sign(a):
    return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else a)

@njit
def logistic(a):
    return 1.0 / (1.0 + exp(-a)) if a >= 0.0 else exp(a) / (1.0 + exp(a))

@njit
def cbrt(a):
    return sign(a) * abs(a) ** (1.0 / 3.0)
"""
_IMPORTS = """from numba import cfunc, njit
from gpnode.solvers.native.ffi import FIELD_SIGNATURE
from math import (
    acos, acosh, asin, asinh, atan, atan2, atanh, ceil, cos, cosh, erf, erfc, exp, expm1, floor, inf, isfinite,
    isnan, log, log1p, nan, pow, sin, sinh, sqrt, tan, tanh,
)
"""
_MOST_ENTRIES = 50_000  # beyond, even writing the code down takes long
_lock = threading.Lock()
_named: dict[tuple[Any, ...], int] = {}
_loaded: dict[str, Any] = {}  # compiled modules must outlive every caller
_MOST_SECOND_DERIVATIVES = 3_000  # statements and terms


@dataclass(frozen=True)
class Field:
    """A compiled vector field: its ``name`` in the table of fields, a number that depends on its source alone.

    ``hoisted`` are traced values the field uses besides its arguments: the parameters that are
    handed over must be followed by room for an action, and by them.
    """

    name: int
    hoisted: tuple[Any, ...]


def compiled(vector_field: VectorField, params: Any, states: int, second: bool = True) -> Field:
    """``vector_field`` in native code; :class:`Unsupported` if it cannot be written as scalar code.

    ``params`` tells structure and shapes. Without ``second``, second derivatives are not written down.
    """
    if isinstance(vector_field, Driven):
        return _compiled(vector_field.field, params, states, vector_field.actions.shape[-1], second)
    return _compiled(lambda t, x, p, _: vector_field(t, x, p), params, states, 0, second)


def compiled_jump(system: Driven, params: Any, states: int, second: bool = True) -> Field:
    """The jump of a system that is acted on, as a field whose slopes are the new state."""
    return _compiled(system.jump, params, states, system.actions.shape[-1], second)


def _compiled(field: DrivenField, params: Any, states: int, actions: int, second: bool) -> Field:
    traced = _trace(field, params, states, actions)
    closed = traced.first
    hoisted = tuple(c for c in closed.consts if isinstance(c, jax.core.Tracer))
    key = (
        str(closed.jaxpr),
        tuple(None if isinstance(c, jax.core.Tracer) else np.asarray(c).tobytes() for c in closed.consts),
        second,
    )
    with _lock:
        if key not in _named:
            _named[key] = _compile(*module_source(traced, second))
    return Field(_named[key], hoisted)


def _compile(source: str, sizes: tuple[int, ...]) -> int:
    """The field's name, under which integrators can call it from now on."""
    digest = hashlib.sha256(f"{source}{sizes}{numba.__version__}".encode()).hexdigest()
    name = int(digest[:12], 16) + 1  # exact in a float
    if digest not in _loaded:
        module = _load(f"gpnode_{digest[:24]}", source)
        fields.enter(name, (*(getattr(module, f).address for f in fields.FUNCTIONS), *sizes))
        _loaded[digest] = module
    return name


class Traced(NamedTuple):
    """A vector field as functions of t, x, flat parameters and the numbers of an action.

    ``first`` has the field and its Jacobians by state and by parameter as results. ``second()`` traces the derivatives
    of both by state, and ``by_parameters()`` those of the Jacobian by parameter by parameter: they take longer.
    """

    first: ClosedJaxpr
    second: Callable[[], ClosedJaxpr]
    by_parameters: Callable[[], ClosedJaxpr]
    states: int
    num_params: int
    actions: int


def _trace(vector_field: DrivenField, params: Any, states: int, actions: int) -> Traced:
    flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: np.zeros(jnp.shape(leaf)), params))

    if states * (states + flat.size) > _MOST_ENTRIES:
        raise Unsupported(f"its Jacobian has more than {_MOST_ENTRIES} entries")

    def field(t: Any, x: Any, p: Any, action: Any) -> Any:
        return jnp.asarray(vector_field(t, x, unravel(p), action), dtype=float)

    jacobians = jax.jacfwd(field, argnums=(1, 2))

    def first(*at: Any) -> Any:
        return field(*at), *jacobians(*at)

    def trace(function: Any) -> ClosedJaxpr:
        return jax.make_jaxpr(function)(np.zeros(()), np.zeros(states), np.zeros(flat.size), np.zeros(actions))

    return Traced(
        trace(first),
        lambda: trace(jax.jacfwd(jacobians, argnums=1)),
        lambda: trace(jax.jacfwd(lambda *at: jacobians(*at)[1], argnums=2)),
        states,
        flat.size,
        actions,
    )


def module_source(traced: Traced, second: bool = True) -> tuple[str, tuple[int, ...]]:
    """Text of the module for one traced vector field, and the sizes that integrators must know."""
    states, num_params = traced.states, traced.num_params
    tape = Tape()
    writer = _Writer(tape, states, num_params, traced.actions)
    field, by_state, by_parameter = writer.run(traced.first)
    of_state, of_parameter = _non_zeros(by_state), _non_zeros(by_parameter)
    outputs = [(f"f[{d}]", field[d]) for d in range(states)]
    derivatives = [(f"by_state[{i}]", by_state[at]) for i, at in enumerate(of_state)]
    derivatives += [(f"by_parameter[{i}]", by_parameter[at]) for i, at in enumerate(of_parameter)]
    functions = [
        _function("slope(t, x, p, f, unused)", _statements(tape, outputs)),
        _function("derivatives(t, x, p, by_state, by_parameter)", _statements(tape, derivatives)),
        _function(
            "push_forward(number, by_state, by_parameter, inner, out)", _push_forward(of_state, of_parameter, states)
        ),
        _function(
            "pull_back(unused, by_state, by_parameter, onto_slope, out)", _pull_back(of_state, of_parameter, states)
        ),
        _function("pull_back_matrix(number, by_state, inner, unused, out)", _pull_back_matrix(of_state, states)),
        _function("entry_weights(number, adjoint, sensitivity, unused, out)", _entry_weights(of_state, of_parameter)),
        _function(
            "weighted_second_derivatives(t, x, p, weights, out)",
            _weighted_second_derivatives(traced, writer, by_parameter, of_state, of_parameter) if second else [],
        ),
    ]
    sizes = (states, num_params, writer.inputs, len(of_state), len(of_parameter), traced.actions)
    return "\n".join([_IMPORTS, _HELPERS, *functions]), sizes


class _Writer:
    """Runs traced functions of t, x, p and an action on one tape; p is followed by the action and traced constants."""

    def __init__(self, tape: Tape, states: int, num_params: int, actions: int) -> None:
        self.tape = tape
        x = symbols((f"x[{i}]" for i in range(states)), (states,))
        p = symbols((f"p[{i}]" for i in range(num_params)), (num_params,))
        action = symbols((f"p[{num_params + i}]" for i in range(actions)), (actions,))
        self._arguments = [symbols(["t"], ()), x, p, action]
        self.inputs = num_params + actions
        self._hoisted: dict[int, np.ndarray] = {}
        self._complete = False

    def run(self, closed: ClosedJaxpr) -> list[np.ndarray]:
        outputs = run(closed.jaxpr, [self._constant(c) for c in closed.consts], self.tape, self._arguments)
        self._complete = True
        return outputs

    def _constant(self, value: Any) -> np.ndarray:
        if not isinstance(value, jax.core.Tracer):
            return np.asarray(value).astype(object)
        if id(value) not in self._hoisted:
            if self._complete:
                raise Unsupported("its derivatives depend on more traced values than it does itself")
            names = (f"p[{self.inputs + i}]" for i in range(value.size))
            self._hoisted[id(value)] = symbols(names, value.shape)
            self.inputs += value.size
        return self._hoisted[id(value)]


def _non_zeros(values: np.ndarray) -> list[tuple[int, ...]]:
    return [index for index, e in np.ndenumerate(values) if isinstance(e, Symbol) or e != 0]


def _function(head: str, lines: list[str]) -> str:
    """Source of one function; NaN and infinity keep their meaning."""
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    flags = 'error_model="numpy"' + (", fastmath={'contract', 'reassoc', 'nsz', 'arcp'}" if "out)" in head else "")
    return f"\n@cfunc(FIELD_SIGNATURE, {flags})\ndef {head}:\n{body}\n"


def _statements(tape: Tape, outputs: list[tuple[str, Any]]) -> list[str]:
    """What sets ``outputs``, with the statements they need."""
    return tape.needed([value for _, value in outputs]) + [f"{target} = {text(value)}" for target, value in outputs]


def _push_forward(of_state: list[tuple[int, ...]], of_parameter: list[tuple[int, ...]], states: int) -> list[str]:
    """The sparse Jacobian by state times a matrix, in one loop over its columns; plus the Jacobian by parameter."""
    lines = ["width = int(number)", *(f"b{i} = by_state[{i}]" for i in range(len(of_state)))]
    lines += ["for q in range(width):"]
    lines += [f"    s{d} = inner[{d} * width + q]" for d in sorted({column for _, column in of_state})]
    for row in range(states):
        terms = [f"b{i} * s{column}" for i, (r, column) in enumerate(of_state) if r == row]
        lines.append(f"    out[{row} * width + q] = {' + '.join(terms) or '0.0'}")
    return lines + [f"out[{r} * width + {c}] += by_parameter[{i}]" for i, (r, c) in enumerate(of_parameter)]


def _pull_back(of_state: list[tuple[int, ...]], of_parameter: list[tuple[int, ...]], states: int) -> list[str]:
    """Both transposed Jacobians times a vector, added to sums by state and, after them, by parameter."""
    return [
        f"out[{first + column}] += {name}[{i}] * onto_slope[{row}]"
        for name, entries, first in (("by_state", of_state, 0), ("by_parameter", of_parameter, states))
        for i, (row, column) in enumerate(entries)
    ]


def _pull_back_matrix(of_state: list[tuple[int, ...]], states: int) -> list[str]:
    """The transposed Jacobian by state times a matrix."""
    lines = ["width = int(number)", *(f"b{i} = by_state[{i}]" for i in range(len(of_state))), "for q in range(width):"]
    lines += [f"    s{d} = inner[{d} * width + q]" for d in sorted({row for row, _ in of_state})]
    for column in range(states):
        terms = [f"b{i} * s{row}" for i, (row, c) in enumerate(of_state) if c == column]
        lines.append(f"    out[{column} * width + q] = {' + '.join(terms) or '0.0'}")
    return lines


def _entry_weights(of_state: list[tuple[int, ...]], of_parameter: list[tuple[int, ...]]) -> list[str]:
    """What an entry of either Jacobian adds to sum(adjoint * d(sensitivity)/dt), both being (states, width)."""
    lines = ["width = int(number)", *(f"w{i} = 0.0" for i in range(len(of_state))), "for q in range(width):"]
    lines += [f"    a{d} = adjoint[{d} * width + q]" for d in sorted({row for row, _ in of_state})]
    lines += [f"    s{d} = sensitivity[{d} * width + q]" for d in sorted({column for _, column in of_state})]
    lines += [f"    w{i} += a{row} * s{column}" for i, (row, column) in enumerate(of_state)] or ["    pass"]
    lines += [f"out[{i}] = w{i}" for i in range(len(of_state))]
    return lines + [f"out[{len(of_state) + i}] = adjoint[{r} * width + {c}]" for i, (r, c) in enumerate(of_parameter)]


def _weighted_second_derivatives(
    traced: Traced,
    writer: _Writer,
    by_parameter: np.ndarray,
    of_state: list[tuple[int, ...]],
    of_parameter: list[tuple[int, ...]],
) -> list[str]:
    """Derivatives by state and parameter of the sum of both Jacobians' entries times weights; nothing if too long."""
    tape = writer.tape
    states, num_params = traced.states, traced.num_params
    curved = tape.depends(by_parameter[at] for at in of_parameter) & {f"p[{i}]" for i in range(num_params)}
    if states * (states + num_params) * (num_params if curved else states) > _MOST_ENTRIES:
        return []
    try:
        state_by_state, parameter_by_state = writer.run(traced.second())
        by_parameters = writer.run(traced.by_parameters())[0] if curved else np.zeros((states, num_params, 0))
    except Unsupported:
        return []
    terms: list[list[tuple[str, Any]]] = [[] for _ in range(states + num_params)]
    for e, (row, column) in enumerate(of_state):
        for k in range(states):
            terms[k].append((f"weights[{e}]", state_by_state[row, column, k]))
        for c in range(num_params):
            terms[states + c].append((f"weights[{e}]", parameter_by_state[row, c, column]))
    for e, (row, c) in enumerate(of_parameter, start=len(of_state)):
        for k in range(states):
            terms[k].append((f"weights[{e}]", parameter_by_state[row, c, k]))
        for other in range(by_parameters.shape[2]):
            terms[states + other].append((f"weights[{e}]", by_parameters[row, c, other]))
    kept = [[(w, value) for w, value in sums if isinstance(value, Symbol) or value != 0] for sums in terms]
    lines = tape.needed([value for sums in kept for _, value in sums])
    if len(lines) + sum(map(len, kept)) > _MOST_SECOND_DERIVATIVES:
        return []
    for k, sums in enumerate(kept):
        if sums:
            lines.append(f"out[{k}] = {' + '.join(f'{w} * {text(value)}' for w, value in sums)}")
    return lines


def _load(name: str, source: str) -> Any:
    directory = cache_directory()
    cached = directory is not None
    folder = Path(tempfile.mkdtemp(prefix="gpnode-")) if directory is None else directory
    path = folder / f"{name}.py"
    if cached:
        source = source.replace("@cfunc(FIELD_SIGNATURE", "@cfunc(FIELD_SIGNATURE, cache=True")
    if not path.exists() or path.read_text() != source:
        handle, aside = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        os.replace(aside, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
