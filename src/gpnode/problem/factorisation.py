"""Gaussian log densities: a covariance factorised once, for the value and everything a gradient needs.

Matrices here are small (one block of data) and come by the million: calling LAPACK by way of XLA
costs more than the factorisation, which is therefore done in native code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import Array
from numba import njit

from gpnode.solvers.native.availability import serve_under, why_unavailable
from gpnode.solvers.native.ffi import INNER, argument, integers, is_registration, last_dimension, result

LARGEST_NATIVE = 600
"""Larger matrices are left to the linear algebra library."""
_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_FACTORISE, _SCORE = "gpnode_factorise", "gpnode_score"


class Factors(NamedTuple):
    """Of a covariance (n, n): ``inverse``, ``whitener`` W with W cov W' = 1 (lower triangular), ``log_det``.

    NaN everywhere if the covariance is not positive definite.
    """

    inverse: Array
    whitener: Array
    log_det: Array


def factorise(cov: Array, largest_native: int = LARGEST_NATIVE) -> Factors:
    """One Cholesky factorisation; not differentiable, gradients are made from its results."""
    n = cov.shape[-1]
    if not _native(n, largest_native):
        factor = jnp.linalg.cholesky(cov)
        whitener = jsl.solve_triangular(factor, jnp.eye(n), lower=True)
        return Factors(whitener.T @ whitener, whitener, 2.0 * jnp.sum(jnp.log(jnp.diag(factor))))
    return Factors(*_call(_FACTORISE, _serve_factors, ((n, n), (n, n), ()), cov))


class Score(NamedTuple):
    """Of residuals (n,) under a covariance: log density, and its derivatives.

    ``by_residual`` (n,), ``by_lag`` (m,) by the covariance at every lag, ``by_noise`` (n,) by its diagonal.
    """

    value: Array
    by_residual: Array
    by_lag: Array
    by_noise: Array


def score(
    residual: Array, at_lags: Array, positions: Array, noise_var: Array, largest_native: int = LARGEST_NATIVE
) -> Score:
    """Log N(residual; 0, cov + diag(noise_var)), NaN if that is not positive definite; not differentiable.

    The upper triangle of ``cov`` (n, n), row by row, is ``at_lags[positions]``; ``noise_var`` is (n,).
    """
    n, m = residual.shape[-1], at_lags.shape[-1]
    if _native(n, largest_native):
        return Score(*_call(_SCORE, _serve_score, ((), (n,), (m,), (n,)), residual, at_lags, positions, noise_var))
    row, column = (jax.lax.broadcasted_iota(int, (n, n), axis) for axis in (0, 1))
    first, last = jnp.minimum(row, column), jnp.maximum(row, column)
    lag = positions[first * n - first * (first - 1) // 2 + last - first]
    inverse, whitener, log_det = factorise(at_lags[lag] + jnp.diag(noise_var), largest_native)
    white = whitener @ residual
    weights = white @ whitener
    value = -0.5 * (white @ white + log_det + n * _LOG_TWO_PI)
    by_cov = 0.5 * (jnp.outer(weights, weights) - inverse)
    return Score(value, -weights, jnp.zeros(m).at[lag].add(by_cov), jnp.diag(by_cov))


def _native(n: int, largest: int) -> bool:
    return n <= largest and jax.default_backend() == "cpu" and why_unavailable() is None


def _call(target: str, serve: Callable[[int], int], shapes: tuple[tuple[int, ...], ...], *arguments: Array) -> Any:
    """Call native code from JAX."""
    serve_under(target, serve)
    results = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes]
    return jax.ffi.ffi_call(target, results, vmap_method="broadcast_all")(*arguments)


# No "fast" arithmetic: results would depend on whether this process compiled the code or found it in the cache.
_inner = njit(**INNER)


@_inner
def _cholesky(upper: np.ndarray) -> bool:
    """In place: what is right of the diagonal becomes U with U'U = the matrix; False if there is no such U."""
    n = upper.shape[0]
    for i in range(n):
        row = upper[i, i:]
        whole = i - i % 4
        for k in range(0, whole, 4):  # four rows at a time, so that the row is read and written less often
            a, b, c, d = upper[k, i], upper[k + 1, i], upper[k + 2, i], upper[k + 3, i]
            ra, rb, rc, rd = upper[k, i:], upper[k + 1, i:], upper[k + 2, i:], upper[k + 3, i:]
            for j in range(n - i):
                row[j] -= a * ra[j] + b * rb[j] + c * rc[j] + d * rd[j]
        for k in range(whole, i):
            a, ra = upper[k, i], upper[k, i:]
            for j in range(n - i):
                row[j] -= a * ra[j]
        if not row[0] > 0.0:
            return False
        scale = 1.0 / np.sqrt(row[0])
        for j in range(n - i):
            row[j] *= scale
    return True


@_inner
def _invert(upper: np.ndarray, lower: np.ndarray) -> None:
    """Fill ``lower`` with the inverse of ``upper``'s transpose."""
    for i in range(upper.shape[0]):
        lower[i, :] = 0.0
        whole = i - i % 4
        for k in range(0, whole, 4):
            a, b, c, d = upper[k, i], upper[k + 1, i], upper[k + 2, i], upper[k + 3, i]
            for j in range(k + 4):
                lower[i, j] -= a * lower[k, j] + b * lower[k + 1, j] + c * lower[k + 2, j] + d * lower[k + 3, j]
        for k in range(whole, i):
            for j in range(k + 1):
                lower[i, j] -= upper[k, i] * lower[k, j]
        scale = 1.0 / upper[i, i]
        for j in range(i):
            lower[i, j] *= scale
        lower[i, i] = scale


@_inner
def _square(lower: np.ndarray, square: np.ndarray) -> None:
    """Fill ``square`` up to its diagonal, and here and there beyond, with lower' lower."""
    n = lower.shape[0]
    whole = n - n % 4
    for i in range(0, whole, 4):  # four rows of the result at a time: each row of the factor is read less often
        square[i : i + 4, : i + 4] = 0.0
        a, b, c, d = square[i], square[i + 1], square[i + 2], square[i + 3]
        for k in range(i, n - 1, 2):
            one, two = lower[k], lower[k + 1]
            a1, b1, c1, d1 = one[i], one[i + 1], one[i + 2], one[i + 3]
            a2, b2, c2, d2 = two[i], two[i + 1], two[i + 2], two[i + 3]
            for j in range(i + 4):
                a[j] += a1 * one[j] + a2 * two[j]
                b[j] += b1 * one[j] + b2 * two[j]
                c[j] += c1 * one[j] + c2 * two[j]
                d[j] += d1 * one[j] + d2 * two[j]
        if (n - i) % 2:
            one = lower[n - 1]
            for j in range(i + 4):
                for m in range(4):
                    square[i + m, j] += one[i + m] * one[j]
    for i in range(whole, n):
        square[i, : i + 1] = 0.0
        for k in range(i, n):
            for j in range(i + 1):
                square[i, j] += lower[k, i] * lower[k, j]


@_inner
def _mirror(lower: np.ndarray) -> None:
    """Make it symmetric."""
    for i in range(lower.shape[0]):
        for j in range(i):
            lower[j, i] = lower[i, j]


@_inner
def _factorise(upper: np.ndarray, whitener: np.ndarray, inverse: np.ndarray) -> float:
    """Fill ``whitener`` and, up to its diagonal, ``inverse``; returns the log determinant, or NaN if there is none.

    Only the upper triangle of the covariance is used, and overwritten. Plain loops over rows: for matrices this small
    they are faster than LAPACK.
    """
    if not _cholesky(upper):
        inverse[:] = np.nan
        whitener[:] = np.nan
        return np.nan
    _invert(upper, whitener)
    _square(whitener, inverse)
    log_det = 0.0
    for i in range(upper.shape[0]):
        log_det += 2.0 * np.log(upper[i, i])
    return log_det


@_inner
def _score(
    residual: np.ndarray,
    at_lags: np.ndarray,
    positions: np.ndarray,
    noise_var: np.ndarray,
    by_residual: np.ndarray,
    by_lag: np.ndarray,
    by_noise: np.ndarray,
) -> float:
    """Fill the derivatives; returns the value."""
    n = residual.size
    upper, whitener, inverse = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    at = 0
    for i in range(n):
        for j in range(i, n):
            upper[i, j] = at_lags[positions[at]]
            at += 1
        upper[i, i] += noise_var[i]
    log_det = _factorise(upper, whitener, inverse)
    square = 0.0
    by_residual[:] = 0.0
    # By way of the whitened residual: the inverse itself is less exact by the root of the matrix's condition.
    for i in range(n):
        white = 0.0
        for j in range(i + 1):
            white += whitener[i, j] * residual[j]
        square += white * white
        for j in range(i + 1):
            by_residual[j] -= white * whitener[i, j]
    by_lag[:] = 0.0
    at = 0
    for i in range(n):
        by_diagonal = 0.5 * (by_residual[i] * by_residual[i] - inverse[i, i])
        by_noise[i] = by_diagonal
        by_lag[positions[at]] += by_diagonal
        for j in range(i + 1, n):  # each pair stands for two entries of the covariance
            by_lag[positions[at + j - i]] += by_residual[i] * by_residual[j] - inverse[j, i]
        at += n - i
    return -0.5 * (square + log_det + n * _LOG_TWO_PI)


def _serve_factors(call_frame: int) -> int:
    if is_registration(call_frame):
        return 0
    covs, inverses, whiteners, log_dets = (
        argument(call_frame, 0),
        result(call_frame, 0),
        result(call_frame, 1),
        result(call_frame, 2),
    )
    n = last_dimension(call_frame, 0)
    for b in range(covs.size // (n * n)):
        at = slice(b * n * n, (b + 1) * n * n)
        inverse, whitener = inverses[at].reshape((n, n)), whiteners[at].reshape((n, n))
        log_dets[b] = _factorise(covs[at].copy().reshape((n, n)), whitener, inverse)
        _mirror(inverse)
    return 0


def _serve_score(call_frame: int) -> int:
    if is_registration(call_frame):
        return 0
    residuals, all_at_lags, noise_vars = argument(call_frame, 0), argument(call_frame, 1), argument(call_frame, 3)
    all_positions = integers(call_frame, 2)
    values, by_residuals, by_lags, by_noises = (
        result(call_frame, 0),
        result(call_frame, 1),
        result(call_frame, 2),
        result(call_frame, 3),
    )
    n, m, pairs = last_dimension(call_frame, 0), last_dimension(call_frame, 1), last_dimension(call_frame, 2)
    for b in range(values.size):
        row, lags = slice(b * n, (b + 1) * n), slice(b * m, (b + 1) * m)
        positions = all_positions[b * pairs : (b + 1) * pairs]
        values[b] = _score(
            residuals[row],
            all_at_lags[lags],
            positions,
            noise_vars[row],
            by_residuals[row],
            by_lags[lags],
            by_noises[row],
        )
    return 0
