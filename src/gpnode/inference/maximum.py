"""The highest point of the posterior density and the curvature there."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import scipy.optimize

from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_density, value_and_grad

_FLATTEST = 0.05  # curvatures below this (in prior widths) are noise of the finite differences


@dataclass(frozen=True)
class Maximum:
    """A local maximum and the normal approximation there.

    ``centre`` (size,) is unconstrained; ``scale_tril`` (size, size) maps standard normal vectors
    to deviations from it, so that ``scale_tril @ scale_tril.T`` is the approximate covariance.
    """

    centre: np.ndarray
    scale_tril: np.ndarray
    log_density: float

    @property
    def curvature(self) -> np.ndarray:
        """Inverse of the approximate covariance (size, size)."""
        root = np.linalg.inv(self.scale_tril)
        return root.T @ root

    def whitening(self, curvature: np.ndarray | None = None) -> Whitening:
        """Coordinates in which the density is round here; ``curvature`` is the mean over all maxima."""
        shared = self.curvature if curvature is None else curvature
        return Whitening(jnp.asarray(self.centre), jnp.asarray(self.scale_tril), jnp.asarray(shared))

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation to the log of the probability mass about the maximum."""
        _, log_det = np.linalg.slogdet(self.scale_tril)
        return float(self.log_density + log_det + 0.5 * self.centre.size * np.log(2 * np.pi))


def find_maximum(problem: Problem, start: np.ndarray, rounds: int = 4, max_steps: int = 300) -> Maximum:
    """Climb from ``start``, in coordinates whitened by the local curvature, which each round renews.

    The density has directions a thousand times tighter than others; without whitening a
    quasi-Newton method crawls along them.
    """
    centre = np.asarray(start, dtype=float)
    height = -np.inf
    for _ in range(rounds):
        centre, reached = _climb(problem, centre, curvature(problem, centre), max_steps)
        gain, height = reached - height, reached
        if not gain >= 0.01:
            break
    return Maximum(centre, curvature(problem, centre), height)


def approximation_at(problem: Problem, u: np.ndarray) -> Maximum | None:
    """The normal approximation with its centre at ``u`` (size,), wherever that is; None if there is no path."""
    height, _ = log_density(problem, u)
    return Maximum(u, curvature(problem, u), height) if np.isfinite(height) else None


def _climb(problem: Problem, centre: np.ndarray, scale_tril: np.ndarray, max_steps: int) -> tuple[np.ndarray, float]:
    def negative(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, _ = value_and_grad(problem, jnp.asarray(centre + scale_tril @ z))
        if not np.isfinite(value):
            return 1e12, np.zeros_like(z)  # a wall the line search backs away from
        return -float(value), -(scale_tril.T @ np.asarray(gradient))

    if not np.isfinite(float(value_and_grad(problem, jnp.asarray(centre))[0])):
        return centre, -np.inf
    optimum = scipy.optimize.minimize(
        negative, np.zeros(centre.size), jac=True, method="L-BFGS-B", options={"maxiter": max_steps, "maxcor": 30}
    )
    return centre + scale_tril @ optimum.x, -float(optimum.fun)


def curvature(problem: Problem, centre: np.ndarray) -> np.ndarray:
    """Square root (size, size) of the inverse curvature at ``centre``.

    Second derivatives are differences of exact gradients, taken twice: once along the axes
    to learn the scales, once along the scaled directions.
    """
    axes = np.eye(centre.size)
    scale_tril = _from_hessian(axes, _differences(problem, centre, 1e-5 * axes, 1e-5))
    return _from_hessian(scale_tril, _differences(problem, centre, 1e-2 * scale_tril, 1e-2))


def _differences(problem: Problem, centre: np.ndarray, steps: np.ndarray, size: float) -> np.ndarray:
    """Hessian of minus the log density in the coordinates whose axes are the columns of ``steps / size``."""
    columns = []
    for step in steps.T:
        (_, up, ok_up), (_, down, ok_down) = (value_and_grad(problem, jnp.asarray(centre + s * step)) for s in (1, -1))
        sound = int(ok_up) == 0 and int(ok_down) == 0
        columns.append(-(np.asarray(up) - np.asarray(down)) / (2.0 * size) if sound else np.zeros(centre.size))
    hessian = (steps / size).T @ np.stack(columns, axis=1)
    return 0.5 * (hessian + hessian.T)


def _from_hessian(axes: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(hessian)
    return axes @ (vectors / np.sqrt(np.maximum(values, _FLATTEST)))
