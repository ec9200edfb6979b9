"""Multiple shooting: parameters and the whole path are sought together, from the smoothed data on.

A path that is solved from its start forgets the data on the way: where it oscillates or runs apart, its misfit has
many valleys. Here states at all nodes of the solver are unknowns, too, which begin at the smoothed data, and the
equations that say how intervals join up are met step by step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.starting.targets import Target
from gpnode.problem.evaluation import compiled_for_search
from gpnode.problem.slopes import residual_slopes
from gpnode.solvers import Status

_MOST_STEPS, _MOST_RETRIES = 40, 8
_DAMPING, _LESS, _MORE = 1e-2, 0.3, 5.0  # of Levenberg and Marquardt, and its changes after steps that do, or do not
_WORSE = 1.5  # how far the misfit may rise in a step: on its way the path gives up what the smooth had for free
_SETTLED = 1e-3  # of a step, in units of the ridge
_FARTHEST = 10.0  # scaled states a guess may have: beyond, nothing was measured


def shoot(target: Target, theta: np.ndarray, guess: np.ndarray) -> np.ndarray | None:
    """Parameters (moving,) near ``theta`` whose path follows the data; None if nothing can be solved there.

    ``guess`` is the path to begin with (experiments, nodes, states), in scaled units.
    """
    with np.errstate(all="ignore"):  # what runs away is refused
        return _shoot(target, theta, guess)


def _shoot(target: Target, theta: np.ndarray, guess: np.ndarray) -> np.ndarray | None:
    damping, width = _DAMPING, np.asarray(target.width)
    residuals, slope, path, change = _linearise(target, theta, guess)
    if not np.isfinite(residuals).all():
        return None
    for _ in range(_MOST_STEPS):
        before = 0.5 * float(residuals @ residuals)
        scaled = slope * width
        normal, gradient = scaled.T @ scaled, scaled.T @ residuals
        for _ in range(_MOST_RETRIES):
            step = -np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), gradient)
            moved = theta + width * step
            reached = path + np.tensordot(change, width * step, axes=1)
            found = _linearise(target, moved, np.clip(reached, -_FARTHEST, _FARTHEST))
            if np.isfinite(found[0]).all() and 0.5 * float(found[0] @ found[0]) < _WORSE * before:
                break
            damping *= _MORE
        else:
            break
        theta, damping = moved, damping * _LESS
        residuals, slope, path, change = found
        if np.abs(step).max() < _SETTLED:
            break
    return theta


def _linearise(target: Target, theta: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, ...]:
    """Residuals, their slope, the path one step nearer than ``guess``, and its change by ``theta``."""
    *found, status = _shooting_fit(target, jnp.asarray(theta), jnp.asarray(guess))
    residuals, slope, path, change = map(np.asarray, found)
    sound = int(status) == Status.OK and all(np.isfinite(a).all() for a in (slope, path, change))
    return np.where(sound, residuals, np.inf), slope, path, change


@compiled_for_search
def _shooting_fit(target: Target, theta: Array, guess: Array) -> tuple[Array, Array, Array, Array, Array]:
    problem = target.problem

    def inputs(theta: Array) -> Array:
        return problem.path_inputs(problem.constrain(target.full(theta)))

    values = problem.constrain(target.full(theta))
    paths, by_input = problem.solve_with_jacobian(values, guess)
    inputs_by_theta = jax.jacfwd(inputs)(theta)
    blocks, status = problem.residuals(paths, values)
    slopes = residual_slopes(problem, paths.xs, by_input, inputs(theta))
    white = [r / target.noise_std[m.observable] for m, r in zip(problem.measured, blocks, strict=True)]
    steep = [
        s @ inputs_by_theta[m.experiment] / target.noise_std[m.observable]
        for m, s in zip(problem.measured, slopes, strict=True)
    ]
    ridge = target.ridge(theta)
    return (
        jnp.concatenate([*white, ridge]),
        jnp.concatenate([*steep, jnp.diag(1.0 / target.width)]),
        paths.xs,
        jnp.einsum("rksc,rcn->rksn", by_input, inputs_by_theta),
        status,
    )
