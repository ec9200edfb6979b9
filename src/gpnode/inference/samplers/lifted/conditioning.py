"""The posterior in two halves: what the path depends on given the hyperparameters, and these given the path."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.samplers.lifted.settings import Landing
from gpnode.inference.samplers.lifted.surface import Local, Surface
from gpnode.model.priors.parameters import Conditional, Values
from gpnode.problem.density import Problem
from gpnode.problem.slopes import residual_slopes


def whiteners_of(problem: Problem, u: Array) -> list[Array]:
    """For each block of data, what turns its residuals into independent ones of unit variance."""
    values = problem.constrain(u)
    stds = problem.noise_stds(values)
    return [
        problem.observables[b.observable].whitener(values, b, std)
        for b, std in zip(problem.measured, stds, strict=True)
    ]


class PathSurface:
    """Residuals as a function of what moves the path, with everything else as in ``u``, in units of any widths.

    ``theta`` is the difference to the prior's centre, ``x`` is ``theta`` in units of a width (n,); ``width`` are those
    of the priors. ``whiteners`` are those of ``u``. Scales that are integrated out elsewhere are drawn with ``key``.
    """

    def __init__(self, problem: Problem, u: Array, whiteners: list[Array], key: Array, landing: Landing) -> None:
        self.problem, self.landing = problem, landing
        self._u, self._whiteners, self._where = u, whiteners, problem.path_positions
        values = problem.constrain(u)
        keys = jax.random.split(key, len(problem.path_blocks))
        self._priors = [b.conditional(values, k) for b, k in zip(problem.path_blocks, keys, strict=True)]
        self._centre, self.width = _gather(problem, self._priors)

    def theta(self, u: Array) -> Array:
        return u[self._where] - self._centre

    def place(self, theta: Array) -> Array:
        """The whole unconstrained vector."""
        return self._u.at[self._where].set(self._centre + theta)

    def surface(self, width: Array) -> Surface:
        """In units of ``width``."""
        problem = self.problem

        def values_at(x: Array) -> Values:
            return problem.constrain(self.place(width * x))

        def residuals(x: Array) -> tuple[Array, Array]:
            values = values_at(x)
            stacked, status = problem.residuals(problem.solve(values), values)
            return self._whiten(jnp.concatenate(stacked)), status

        def evaluate(x: Array, guess: Array | None = None) -> Local:
            values = values_at(x)
            paths, jacobian = problem.solve_with_jacobian(values, guess)
            by_x = inputs_by(x)
            blocks, status = problem.residuals(paths, values)
            inputs = problem.path_inputs(values)
            r, slope = self._whiten(jnp.concatenate(blocks)), self._slope_of(by_x, paths.xs, jacobian, inputs)
            return Local(r, slope, paths.xs, jacobian, by_x, status.astype(int))

        def inputs_by(x: Array) -> Array:
            return jax.jacfwd(lambda x: problem.path_inputs(values_at(x)))(x)

        def steer(x: Array, local: Local, weights: Array) -> Array:
            values = values_at(x)
            at = local.inputs_by_x, local.path, local.by_input, problem.path_inputs(values)
            _, pull = jax.vjp(self._slope_of, *at)
            onto_inputs, onto_path, onto_jacobian, directly = pull(weights)
            _, pull_inputs = jax.vjp(inputs_by, x)
            by_input = problem.steer(values, local.path, local.by_input, onto_jacobian)
            by_input += jnp.einsum("rksc,rks->rc", local.by_input, onto_path)
            if problem.has_readings:
                by_input += directly
            return pull_inputs(onto_inputs)[0] + jnp.einsum("rc,rcn->n", by_input, local.inputs_by_x)

        excess = jax.value_and_grad(lambda x: self._excess(width * x))
        return Surface(residuals, evaluate, excess, steer, self.landing)

    def _whiten(self, stacked: Array) -> Array:
        ends = np.cumsum([0, *(b.y.size for b in self.problem.measured)])
        return jnp.concatenate(
            [
                w @ stacked[a:b] if w.ndim == 2 else (w * stacked[a:b].T).T
                for w, a, b in zip(self._whiteners, ends, ends[1:], strict=False)
            ]
        )

    def _slope_of(self, by_x: Array, xs: Array, jacobian: Array, inputs: Array) -> Array:
        problem = self.problem
        slopes = residual_slopes(problem, xs, jacobian, inputs)
        by_block = [s @ by_x[b.experiment] for s, b in zip(slopes, problem.measured, strict=True)]
        return self._whiten(jnp.concatenate(by_block))

    def _excess(self, theta: Array) -> Array:
        """Log prior beyond the normal distributions of :attr:`width`."""
        problem, whole = self.problem, self.place(theta)
        at = problem.constrain(whole)
        total = jnp.zeros(())
        for block, prior in zip(problem.path_blocks, self._priors, strict=True):
            if not prior.exact:
                total += block.log_prior(at) + problem.layout.log_jacobian(whole, tuple(prior.centre))
        rough = not all(p.exact for p in self._priors)
        return total + (0.5 * _norm(problem, self._priors, theta / self.width) if rough else 0.0)


def path_given_hyper(
    problem: Problem, u: Array, whiteners: list[Array], key: Array, landing: Landing | None = None
) -> tuple[Surface, Array, Callable[[Array], Array]]:
    """Residuals as a function of the path's parameters in units of their prior, with everything else as in ``u``.

    Returns the surface, the position ``x`` of ``u`` on it, and the map from ``x`` back to a
    whole unconstrained vector. Local scales of the horseshoe are drawn with ``key``. ``whiteners``
    are those of ``u``.
    """
    path = PathSurface(problem, u, whiteners, key, landing or Landing())
    return path.surface(path.width), path.theta(u) / path.width, lambda x: path.place(path.width * x)


def _gather(problem: Problem, path_priors: list[Conditional]) -> tuple[Array, Array]:
    """Centre and width of each number that moves the path, in the order of ``problem.path_positions``."""
    centres: Values = {}
    widths: Values = {}
    for prior in path_priors:
        centres |= prior.centre
        widths |= prior.width
    return tuple(  # type: ignore[return-value]
        jnp.concatenate([jnp.zeros(0), *(jnp.ravel(by_name[n]) for n in problem.path_names)])
        for by_name in (centres, widths)
    )


def _norm(problem: Problem, path_priors: list[Conditional], x: Array) -> Array:
    """Squared length of ``x`` over the blocks whose prior is not normal."""
    rough = {n for p in path_priors if not p.exact for n in p.centre}
    sizes = {p.name: p.size for p in problem.layout.parameters}
    mask = np.concatenate([np.zeros(0), *(np.full(sizes[n], float(n in rough)) for n in problem.path_names)])
    return jnp.sum(mask * x**2)


def hyper_given_path(problem: Problem, u: Array) -> Callable[[Array], Array]:
    """The posterior's log density as a function of a whole vector whose path is that of ``u``: no solve needed."""
    values = problem.constrain(u)
    residuals, _ = problem.residuals(problem.solve(values), values)

    def log_density(at: Array) -> Array:
        return problem.log_prior(at) + jnp.sum(problem.block_densities(problem.constrain(at), residuals))

    return log_density
