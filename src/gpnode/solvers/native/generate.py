"""Compiled integrators for one vector field: traced by JAX, written as scalar code, compiled by numba.

Modules are written to the user's cache directory under the digest of their text, next to
numba's own cache, so that a model seen before costs a fraction of a second.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
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

from .. import tableau
from ..base import BLOW_UP_BOUND, VectorField
from . import ffi
from .scalar_code import Symbol, Tape, Unsupported, run, symbols, text

_MARK = "# -- generated code goes above this line --"
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
_IMPORTS = """from math import (
    acos, acosh, asin, asinh, atan, atan2, atanh, ceil, cos, cosh, erf, erfc, exp, expm1, floor, inf, isfinite,
    isnan, log, log1p, nan, pow, sin, sinh, sqrt, tan, tanh,
)
"""
_MOST_ENTRIES = 50_000  # beyond, even writing the code down takes long
_lock = threading.Lock()
_names: dict[tuple[Any, ...], str] = {}
_registered: set[str] = set()


@dataclass(frozen=True)
class Handler:
    """A registered FFI target for one vector field (see ``serve`` in the driver).

    ``hoisted`` are traced values the field uses besides its arguments: the parameters that are
    handed over must be followed by them.
    """

    name: str
    hoisted: tuple[Any, ...]


def handler(vector_field: VectorField, params: Any, states: int) -> Handler:
    """Compiled integrators for ``vector_field``; :class:`Unsupported` if it cannot be written as scalar code.

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
            if key not in _names:
                _names[key] = _compile(module_source(closed, states, num_params))
    return Handler(_names[key], hoisted)


def _compile(source: str) -> str:
    # Numba's cache knows about changes of a module's own text alone, not of what it imports.
    identity = source + "".join(inspect.getsource(m) for m in (ffi, tableau)) + numba.__version__
    name = f"gpnode_{hashlib.sha256(identity.encode()).hexdigest()[:24]}"
    if name not in _registered:
        ffi.register(name, _load(name, source).handler)
        _registered.add(name)
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


def module_source(closed: ClosedJaxpr, states: int, num_params: int) -> str:
    """Text of the module for one traced vector field."""
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
    state_entries, parameter_entries = _non_zeros(by_state), _non_zeros(by_parameter)
    outputs = [(f"f[{d}]", field[d]) for d in range(states)]
    derivatives = [(f"by_state[{i}]", by_state[at]) for i, at in enumerate(state_entries)]
    derivatives += [(f"by_parameter[{i}]", by_parameter[at]) for i, at in enumerate(parameter_entries)]
    constants = [
        f"STATES, PARAMETERS, INPUTS, BOUND = {states}, {num_params}, {inputs}, {BLOW_UP_BOUND!r}",
        f"NUM_STATE_ENTRIES, STATE_ENTRIES = {len(state_entries)}, {_index_array(state_entries)}",
        f"NUM_PARAMETER_ENTRIES, PARAMETER_ENTRIES = {len(parameter_entries)}, {_index_array(parameter_entries)}",
    ]
    functions = [
        _function("slope(t, x, p, f)", tape, outputs),
        _function("derivatives(t, x, p, by_state, by_parameter)", tape, derivatives),
        _spread(state_entries, states),
    ]
    header, driver = Path(__file__).with_name("driver.py").read_text().split(_MARK)
    return "\n".join([header, _IMPORTS, _HELPERS, *constants, *functions, driver])


def _non_zeros(values: np.ndarray) -> list[tuple[int, ...]]:
    return [index for index, e in np.ndenumerate(values) if isinstance(e, Symbol) or e != 0]


def _function(head: str, tape: Tape, outputs: list[tuple[str, Any]]) -> str:
    """Source of a function that sets ``outputs`` with the statements they need."""
    body = tape.needed([value for _, value in outputs]) + [f"{target} = {text(value)}" for target, value in outputs]
    lines = "\n".join(f"    {line}" for line in body or ["pass"])
    return f'\n@njit(error_model="numpy")\ndef {head}:\n{lines}\n'


def _spread(entries: list[tuple[int, ...]], states: int) -> str:
    """Source of the product of the sparse Jacobian by state with a matrix, one loop over the matrix's columns."""
    lines = [f"b{i} = by_state[{i}]" for i in range(len(entries))]
    lines += ["for q in range(width):"]
    lines += [f"    s{d} = inner[{d} * width + q]" for d in sorted({column for _, column in entries})]
    for row in range(states):
        terms = [f"b{i} * s{column}" for i, (r, column) in enumerate(entries) if r == row]
        lines.append(f"    out[{row} * width + q] = {' + '.join(terms) or '0.0'}")
    body = "\n".join(f"    {line}" for line in lines)
    return f'\n@njit(error_model="numpy", fastmath=FAST)\ndef spread(by_state, inner, width, out):\n{body}\n'


def _index_array(entries: list[tuple[int, ...]]) -> str:
    """Numba takes no empty constant: without entries, one that is never read."""
    return f"np.array({[list(e) for e in entries] or [[0, 0]]}, dtype=np.int64)"


def cache_directory() -> Path | None:
    """Where compiled code is kept between runs; ``GPNODE_CACHE`` overrides, ``None`` if nowhere is writable."""
    chosen = os.environ.get("GPNODE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    root = Path(chosen) if chosen else Path.home() / ".cache"
    directory = root / "gpnode"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        return None


def _load(name: str, source: str) -> Any:
    directory = cache_directory()
    cached = directory is not None
    folder = Path(tempfile.mkdtemp(prefix="gpnode-")) if directory is None else directory
    path = folder / f"{name}.py"
    if cached:
        # Only entry points are cached: what they call is compiled into them.
        source = source.replace("@cfunc(SIGNATURE)", "@cfunc(SIGNATURE, cache=True)")
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
