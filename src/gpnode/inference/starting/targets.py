"""The least-squares problem behind the search: misfit of paths or slopes, and a ridge that stands for the prior."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import compiled_for_few_calls
from gpnode.inference.starting.slopes import SlopeData
from gpnode.model.priors.distributions import centre_and_width
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import compiled_for_search
from gpnode.problem.smoothing import Smooth


class Target(eqx.Module):
    """The least-squares problem behind the search.

    ``template`` (size,) holds the parameters that stay put; ``moving`` the positions that are
    searched; ``centre`` and ``width`` (moving,) a ridge that stands for the prior.
    """

    problem: Problem
    template: Array
    moving: Array
    centre: Array
    width: Array
    noise_std: Array

    def full(self, theta: Array) -> Array:
        return self.template.at[self.moving].set(theta)

    def ridge(self, theta: Array) -> Array:
        return (theta - self.centre) / self.width

    def path_residuals(self, theta: Array, fraction: Array) -> tuple[Array, Array]:
        """Whitened data misfit over the first ``fraction`` of each experiment, then the ridge; and the status."""
        problem = self.problem
        values = problem.constrain(self.full(theta))
        blocks, status = problem.residuals(problem.solve_until(values, fraction), values)
        horizon = problem.horizon(fraction)
        white = [
            jnp.where(problem.nodes[m.experiment, m.rows] <= horizon[m.experiment], m.broken(r), 0.0)
            / self.noise_std[m.observable]
            for m, r in zip(problem.measured, blocks, strict=True)
        ]
        return jnp.concatenate([*white, self.ridge(theta)]), status

    def slope_residuals(self, theta: Array, slopes: SlopeData) -> Array:
        """Misfit of the vector field to smoothed slopes, then the ridge."""
        problem = self.problem
        values = problem.constrain(self.full(theta))
        field = jax.vmap(lambda t, x: problem.dynamics.vector_field(t, x, values))(slopes.times, slopes.states)
        return jnp.concatenate([jnp.ravel((slopes.slopes - field) / slopes.width), self.ridge(theta)])


@compiled_for_search
def path_fit(target: Target, theta: Array, fraction: Array) -> tuple[Array, Array, Array]:
    """Residuals of the path, their Jacobian, and the status of the solve."""

    def both(th: Array) -> tuple[Array, tuple[Array, Array]]:
        residuals, status = target.path_residuals(th, fraction)
        return residuals, (residuals, status)

    jacobian, (residuals, status) = jax.jacfwd(both, has_aux=True)(theta)
    return residuals, jacobian, status


@compiled_for_few_calls
def slope_fit(target: Target, theta: Array, slopes: SlopeData) -> tuple[Array, Array]:
    """Residuals of the slopes, and their Jacobian."""
    residuals = target.slope_residuals(theta, slopes)
    return residuals, jax.jacfwd(target.slope_residuals)(theta, slopes)


def noise_levels(problem: Problem, smooths: list[Smooth | None]) -> np.ndarray:
    """Noise of each observable from the smoothed series; a floor keeps noise-free data finite."""
    noise_std = np.full(len(problem.observables), 0.1)
    for index in range(len(problem.observables)):
        blocks = [(m, s) for m, s in zip(problem.measured, smooths, strict=True) if m.observable == index]
        signal_std = np.std(np.concatenate([np.asarray(m.y) for m, _ in blocks]))
        levels = [s.noise_std for _, s in blocks if s is not None]
        level = np.median(levels) if levels else 0.1 * signal_std
        noise_std[index] = np.clip(level, 0.03 * signal_std, 0.5 * signal_std)
    return noise_std


@compiled_for_few_calls
def draw_starts(problem: Problem, hyper: Values, keys: Array) -> Array:
    """Prior draws (keys, size) of what the path depends on, given the hyperparameters."""
    return jax.vmap(lambda key: problem.draw_path_prior(key, hyper))(keys)


def make_target(problem: Problem, noise_std: np.ndarray, draws: np.ndarray) -> Target:
    """Searched positions and their ridge, which has the centre and width of prior draws."""
    centre = np.median(draws, axis=0)
    width = np.subtract(*np.quantile(draws, [0.84, 0.16], axis=0)) / 2.0
    slices = problem.layout.slices()
    for block in problem.dynamics.blocks:
        for name, (middle, size) in block.search_ranges().items():
            centre[slices[name]], width[slices[name]] = middle, size
    moving = problem.path_positions
    return Target(
        problem,
        jnp.asarray(centre),
        jnp.asarray(moving),
        jnp.asarray(centre[moving]),
        jnp.asarray(np.maximum(width[moving], 1e-3)),
        jnp.asarray(noise_std),
    )


def guess_hyper(problem: Problem, noise_std: np.ndarray) -> Values:
    """Each observable's noise as smoothed, a modest Gaussian process, prior means elsewhere."""
    hyper: Values = {}
    for observable, level in zip(problem.observables, noise_std, strict=True):
        guesses = observable.guesses(float(level))
        for name, prior in observable.priors().items():
            guess = guesses.get(name)
            inside = guess is not None and bool(prior.support(guess))
            hyper[name] = jnp.asarray(guess if inside else centre_and_width(prior)[0], dtype=float)
    return hyper
