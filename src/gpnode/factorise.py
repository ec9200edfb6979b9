"""Factorising a covariance once, for everything a Gaussian log density and its gradient need.

Matrices here are small (one block of data) and come by the million, so LAPACK is called directly
from native code and not by way of XLA, which costs more than the factorisation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import llvmlite.binding
import numpy as np
from jax import Array
from numba import cfunc, njit, types
from numba.extending import get_cython_function_address

from .solvers.native.ffi import SIGNATURE, argument, is_registration, last_dimension, register, result

_LARGEST_NATIVE = 200
_TARGET = "gpnode_factorise"


class Factors(NamedTuple):
    """Of a covariance (n, n): ``inverse``, ``whitener`` W with W cov W' = 1 (lower triangular), ``log_det``.

    NaN everywhere if the covariance is not positive definite.
    """

    inverse: Array
    whitener: Array
    log_det: Array


def factorise(cov: Array) -> Factors:
    """One Cholesky factorisation; not differentiable, gradients are made from its results."""
    n = cov.shape[-1]
    if n > _LARGEST_NATIVE or jax.default_backend() != "cpu":
        factor = jnp.linalg.cholesky(cov)
        whitener = jsl.solve_triangular(factor, jnp.eye(n), lower=True)
        return Factors(whitener.T @ whitener, whitener, 2.0 * jnp.sum(jnp.log(jnp.diag(factor))))
    _register_once()
    square = jax.ShapeDtypeStruct((n, n), jnp.float64)
    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    return Factors(*jax.ffi.ffi_call(_TARGET, (square, square, scalar), vmap_method="broadcast_all")(cov))


_registered: list[str] = []


def _register_once() -> None:
    if not _registered:
        register(_TARGET, _handler())
        _registered.append(_TARGET)


_integer, _double = types.CPointer(types.int32), types.CPointer(types.float64)
_letter = types.CPointer(types.uint8)


def _lapack(name: str, *arguments: Any) -> types.ExternalFunction:
    """A LAPACK routine of scipy's, under a name that compiled code finds again in another process."""
    llvmlite.binding.add_symbol(f"gpnode_{name}", get_cython_function_address("scipy.linalg.cython_lapack", name))
    return types.ExternalFunction(f"gpnode_{name}", types.void(*arguments))


_dpotrf = _lapack("dpotrf", _letter, _integer, _double, _integer, _integer)
_dtrtri = _lapack("dtrtri", _letter, _letter, _integer, _double, _integer, _integer)
_dlauum = _lapack("dlauum", _letter, _integer, _double, _integer, _integer)


@njit(cache=True, error_model="numpy")
def _factorise(cov: np.ndarray, whitener: np.ndarray, inverse: np.ndarray) -> float:
    """Fill ``whitener`` and ``inverse``; returns the log determinant, or NaN if there is none.

    LAPACK stores by columns, so that what it calls upper is lower here.
    """
    n = cov.shape[0]
    size, info = np.full(1, n, np.int32), np.zeros(1, np.int32)
    upper, general = np.full(1, ord("U"), np.uint8), np.full(1, ord("N"), np.uint8)
    whitener[:] = cov
    _dpotrf(upper.ctypes, size.ctypes, whitener.ctypes, size.ctypes, info.ctypes)
    log_det = 0.0
    for i in range(n):
        log_det += 2.0 * np.log(whitener[i, i])
        for k in range(i + 1, n):
            whitener[i, k] = 0.0
    if info[0] != 0 or not np.isfinite(log_det):
        inverse[:] = np.nan
        whitener[:] = np.nan
        return np.nan
    _dtrtri(upper.ctypes, general.ctypes, size.ctypes, whitener.ctypes, size.ctypes, info.ctypes)
    inverse[:] = whitener
    _dlauum(upper.ctypes, size.ctypes, inverse.ctypes, size.ctypes, info.ctypes)
    for i in range(n):
        for k in range(i):
            inverse[k, i] = inverse[i, k]
    return log_det


@njit(cache=True, error_model="numpy")
def _serve(frame: int) -> None:
    covs, inverses, whiteners, log_dets = argument(frame, 0), result(frame, 0), result(frame, 1), result(frame, 2)
    n = last_dimension(frame, 0)
    for b in range(covs.size // (n * n)):
        at = slice(b * n * n, (b + 1) * n * n)
        inverse, whitener = inverses[at].reshape((n, n)), whiteners[at].reshape((n, n))
        log_dets[b] = _factorise(covs[at].reshape((n, n)), whitener, inverse)


def _handler() -> object:
    """Compiled on first use, cached by numba afterwards."""

    @cfunc(SIGNATURE)
    def handler(frame: int) -> int:
        if not is_registration(frame):
            _serve(frame)
        return 0

    return handler
