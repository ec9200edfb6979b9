"""Normal densities of residuals whose covariance is a function of how far apart their times are."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.problem.factorisation import Score, score

DENSE_LIMIT = 300
"""With more measurements than this in a block, kernels that allow it are treated in linear time."""

MOST_DENSE = 4000
"""More measurements in a block are refused where they need a matrix: it would take minutes a step, and gigabytes."""

RELATIVE_JITTER = 1e-10
"""Added to the diagonal of a covariance, relative to its mean diagonal, before factorising."""

_LAG_DIGITS = 13  # of times between zero and one


class Lags(eqx.Module):
    """How far apart times (n,) are, each distance once: on a regular grid there are n of them, not n squared.

    ``values`` (m,) rise from zero; ``positions`` (n (n + 1) / 2,) tell which belongs to two times, row by row
    of the upper triangle.
    """

    values: Array
    positions: Array

    @classmethod
    def between(cls, times: np.ndarray) -> Lags:
        rows, columns = np.triu_indices(times.size)
        # Equal but for rounding: what that changes in a covariance is far below the jitter.
        apart = np.abs(times[columns] - times[rows]).round(_LAG_DIGITS)
        values, positions = np.unique(apart, return_inverse=True)
        return cls(jnp.asarray(values), jnp.asarray(positions))


@jax.custom_vjp
def gaussian_log_density(residual: Array, at_lags: Array, positions: Array, noise_var: Array) -> Array:
    """Log N(residual; 0, covariance), with the gradient in closed form from one factorisation.

    The covariance is given by its values at lags (see :class:`Lags`), and what is to be added to its diagonal (n,).
    """
    return score(residual, at_lags, positions, noise_var).value


def _gaussian_fwd(residual: Array, at_lags: Array, positions: Array, noise_var: Array) -> tuple[Array, Score]:
    scored = score(residual, at_lags, positions, noise_var)
    return scored.value, scored


def _gaussian_bwd(scored: Score, cotangent: Array) -> tuple[Array, Array, None, Array]:
    # A covariance that is not positive definite gives NaN; its gradient must be finite all the same.
    factor = jnp.where(jnp.isfinite(scored.value), cotangent, 0.0)
    safe = (jnp.where(jnp.isfinite(scored.value), d, 0.0) for d in scored[1:])
    by_residual, by_lag, by_noise = (factor * d for d in safe)
    return by_residual, by_lag, None, by_noise


gaussian_log_density.defvjp(_gaussian_fwd, _gaussian_bwd)
