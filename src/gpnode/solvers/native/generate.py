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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.flatten_util import ravel_pytree

from ..._config import cache_directory
from ..base import VectorField
from . import driver
from .scalar_code import Symbol, Tape, Unsupported, run, symbols, text

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
_FUNCTIONS = ("slope", "derivatives", "spread", "gather")


@dataclass(frozen=True)
class Field:
    """A compiled vector field: its ``name`` in the driver's table, a number that depends on its source alone.

    ``hoisted`` are traced values the field uses besides its arguments: the parameters that are
    handed over must be followed by them.
    """

    name: int
    hoisted: tuple[Any, ...]


def compiled(vector_field: VectorField, params: Any, states: int) -> Field:
    """``vector_field`` in native code; :class:`Unsupported` if it cannot be written as scalar code.

    ``params`` tells structure and shapes.
    """
    with jax.ensure_compile_time_eval():  # we may be inside the tracing of a caller
        closed, num_params = _trace(vector_field, params, states)
        hoisted = tuple(c for c in closed.consts if isinstance(c, jax.core.Tracer))
        key = (
            str(closed.jaxpr),
            tuple(None if isinstance(c, jax.core.Tracer) else np.asarray(c).tobytes() for c in closed.consts),
        )
        with _lock:
            if key not in _named:
                _named[key] = _compile(*module_source(closed, states, num_params))
    return Field(_named[key], hoisted)


def _compile(source: str, sizes: tuple[int, ...]) -> int:
    """The field's name, under which the driver can call it from now on."""
    digest = hashlib.sha256(f"{source}{sizes}{numba.__version__}".encode()).hexdigest()
    name = int(digest[:12], 16) + 1  # exact in a float
    if digest not in _loaded:
        module = _load(f"gpnode_{digest[:24]}", source)
        driver.enter(name, (*(getattr(module, f).address for f in _FUNCTIONS), *sizes))
        _loaded[digest] = module
    return name


def _trace(vector_field: VectorField, params: Any, states: int) -> tuple[ClosedJaxpr, int]:
    """The field and its Jacobians by state and by parameter, as a function of t, x and flat parameters."""
    flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: np.zeros(jnp.shape(leaf)), params))

    if states * (states + flat.size) > _MOST_ENTRIES:
        raise Unsupported(f"its Jacobian has more than {_MOST_ENTRIES} entries")

    def field(t: Any, x: Any, p: Any) -> Any:
        return jnp.asarray(vector_field(t, x, unravel(p)), dtype=float)

    def with_derivatives(t: Any, x: Any, p: Any) -> Any:
        return field(t, x, p), *jax.jacfwd(field, argnums=(1, 2))(t, x, p)

    return jax.make_jaxpr(with_derivatives)(np.zeros(()), np.zeros(states), np.zeros(flat.size)), flat.size


def module_source(closed: ClosedJaxpr, states: int, num_params: int) -> tuple[str, tuple[int, ...]]:
    """Text of the module for one traced vector field, and the sizes that the driver must know."""
    tape = Tape()
    x = symbols((f"x[{i}]" for i in range(states)), (states,))
    p = symbols((f"p[{i}]" for i in range(num_params)), (num_params,))
    inputs, consts = num_params, []
    for c in closed.consts:
        if isinstance(c, jax.core.Tracer):
            consts.append(symbols((f"p[{inputs + i}]" for i in range(c.size)), c.shape))
            inputs += c.size
        else:
            consts.append(np.asarray(c).astype(object))
    field, by_state, by_parameter = run(closed.jaxpr, consts, tape, [symbols(["t"], ()), x, p])
    of_state, of_parameter = _non_zeros(by_state), _non_zeros(by_parameter)
    outputs = [(f"f[{d}]", field[d]) for d in range(states)]
    derivatives = [(f"by_state[{i}]", by_state[at]) for i, at in enumerate(of_state)]
    derivatives += [(f"by_parameter[{i}]", by_parameter[at]) for i, at in enumerate(of_parameter)]
    functions = [
        _function("slope(t, x, p, f, unused)", _statements(tape, outputs)),
        _function("derivatives(t, x, p, by_state, by_parameter)", _statements(tape, derivatives)),
        _function("spread(number, by_state, by_parameter, inner, out)", _spread(of_state, of_parameter, states)),
        _function("gather(unused, by_state, by_parameter, onto_slope, out)", _gather(of_state, of_parameter, states)),
    ]
    return "\n".join([_IMPORTS, _HELPERS, *functions]), (states, num_params, inputs, len(of_state), len(of_parameter))


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


def _spread(of_state: list[tuple[int, ...]], of_parameter: list[tuple[int, ...]], states: int) -> list[str]:
    """The sparse Jacobian by state times a matrix, in one loop over its columns; plus the Jacobian by parameter."""
    lines = ["width = int(number)", *(f"b{i} = by_state[{i}]" for i in range(len(of_state)))]
    lines += ["for q in range(width):"]
    lines += [f"    s{d} = inner[{d} * width + q]" for d in sorted({column for _, column in of_state})]
    for row in range(states):
        terms = [f"b{i} * s{column}" for i, (r, column) in enumerate(of_state) if r == row]
        lines.append(f"    out[{row} * width + q] = {' + '.join(terms) or '0.0'}")
    return lines + [f"out[{r} * width + {c}] += by_parameter[{i}]" for i, (r, c) in enumerate(of_parameter)]


def _gather(of_state: list[tuple[int, ...]], of_parameter: list[tuple[int, ...]], states: int) -> list[str]:
    """Both transposed Jacobians times a vector, added to sums by state and, after them, by parameter."""
    return [
        f"out[{first + column}] += {name}[{i}] * onto_slope[{row}]"
        for name, entries, first in (("by_state", of_state, 0), ("by_parameter", of_parameter, states))
        for i, (row, column) in enumerate(entries)
    ]


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
