"""From a path that follows the data to parameters that all fit each other.

The search divides residuals by a guess of the noise. Here covariances adapt to what the path
leaves over, the path to the covariances, and so on until the density stops rising.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax import Array

from gpnode._config import compiled_for_few_calls
from gpnode.inference.samplers.lifted.conditioning import hyper_given_path, path_given_hyper, whiteners_of
from gpnode.inference.starting.least_squares import climb
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import compiled_for_search, log_density
from gpnode.solvers import Status

_ROUNDS = 8
_LEAST_GAIN = 1.0  # nats gained in a round


def alternate(problem: Problem, start: np.ndarray, key: Array) -> np.ndarray:
    """A vector at or near a maximum: path and hyperparameters are fitted in turn; ``start`` if none is better."""
    best, height = np.asarray(start), log_density(problem, start)[0]
    u = best
    for i in range(_ROUNDS):
        u = _fit_hyper(problem, fit_path(problem, u, jax.random.fold_in(key, i)))
        reached, _ = log_density(problem, u)
        gain = reached - height
        if reached > height:
            best, height = u, reached
        if i > 2 and gain < _LEAST_GAIN:
            break
    return best


@compiled_for_search
def _hyper_value(problem: Problem, u: Array, at: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(hyper_given_path(problem, u))(at)


def _fit_hyper(problem: Problem, u: np.ndarray) -> np.ndarray:
    where = problem.hyper_positions
    if not where.size:
        return u

    def place(z: np.ndarray) -> np.ndarray:
        at = u.copy()
        at[where] = z
        return at

    def negative(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _hyper_value(problem, jnp.asarray(u), jnp.asarray(place(z)))
        if not np.isfinite(value):
            return 1e12, np.zeros(where.size)
        return -float(value), -np.asarray(gradient)[where]

    optimum = scipy.optimize.minimize(negative, u[where], jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return place(optimum.x) if optimum.fun < 1e12 else u


@compiled_for_few_calls
def _path_start(problem: Problem, u: Array, key: Array) -> Array:
    return path_given_hyper(problem, u, whiteners_of(problem, u), key)[1]


@compiled_for_search
def _path_system(problem: Problem, u: Array, key: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """Residuals with the prior's below them, their Jacobian, the status, and the whole vector at ``x``."""
    surface, _, place = path_given_hyper(problem, u, whiteners_of(problem, u), key)
    at = surface.evaluate(x)
    return jnp.concatenate([at.r, x]), jnp.concatenate([at.slope, jnp.eye(x.size)]), at.status, place(x)


def fit_path(problem: Problem, u: np.ndarray, key: Array, most_evaluations: int = 30) -> np.ndarray:
    """Least squares on the lifted residuals, given the hyperparameters; ``u`` itself where there is no path."""
    at = jnp.asarray(u)

    def system(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residuals, slope, status, _ = _path_system(problem, at, key, jnp.asarray(x))
        return np.where(int(status) == Status.OK, residuals, np.inf), np.asarray(slope)

    reached = climb(system, np.asarray(_path_start(problem, at, key)), most_evaluations, least_gain=0.01)
    return u if reached is None else np.asarray(_path_system(problem, at, key, jnp.asarray(reached[0]))[3])
