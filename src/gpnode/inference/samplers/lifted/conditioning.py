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


def whiteners_of(problem: Problem, u: Array) -> list[Array]:
    """For each block of data, what turns its residuals into independent ones of unit variance."""
    values = problem.constrain(u)
    return [problem.observables[b.observable].whitener(values, b.gp_times) for b in problem.measured]


def path_given_hyper(
    problem: Problem, u: Array, whiteners: list[Array], key: Array, landing: Landing | None = None
) -> tuple[Surface, Array, Callable[[Array], Array]]:
    """Residuals as a function of the path's parameters in units of their prior, with everything else as in ``u``.

    Returns the surface, the position ``x`` of ``u`` on it, and the map from ``x`` back to a
    whole unconstrained vector. Local scales of the horseshoe are drawn with ``key``. ``whiteners``
    are those of ``u``.
    """
    where = problem.path_positions
    values = problem.constrain(u)
    path_priors = [
        block.conditional(values, k)
        for block, k in zip(problem.path_blocks, jax.random.split(key, len(problem.path_blocks)), strict=True)
    ]
    centre, width = _gather(problem, path_priors)

    def place(x: Array) -> Array:
        return u.at[where].set(centre + width * x)

    def raw(x: Array) -> tuple[Array, Array]:
        residuals, status = problem.residuals(problem.solve(problem.constrain(place(x))))
        return jnp.concatenate(residuals), status

    def whiten(stacked: Array) -> Array:
        ends = np.cumsum([0, *(b.y.size for b in problem.measured)])
        return jnp.concatenate(
            [
                w @ stacked[a:b] if w.ndim else w * stacked[a:b]
                for w, a, b in zip(whiteners, ends, ends[1:], strict=False)
            ]
        )

    def residuals(x: Array) -> tuple[Array, Array]:
        stacked, status = raw(x)
        return whiten(stacked), status

    def evaluate(x: Array, guess: Array | None = None) -> Local:
        paths, jacobian = problem.solve_with_jacobian(problem.constrain(place(x)), guess)
        by_x = inputs_by(x)
        blocks, status = problem.residuals(paths)
        r, slope = whiten(jnp.concatenate(blocks)), slope_of(by_x, paths.xs, jacobian)
        return Local(r, slope, paths.xs, jacobian, by_x, status.astype(int))

    def inputs_by(x: Array) -> Array:
        return jax.jacfwd(lambda x: problem.path_inputs(problem.constrain(place(x))))(x)

    def slope_of(by_x: Array, xs: Array, jacobian: Array) -> Array:
        slopes = problem.residual_slopes(xs, jacobian)
        return whiten(jnp.concatenate([s @ by_x[b.experiment] for s, b in zip(slopes, problem.measured, strict=True)]))

    def steer(x: Array, local: Local, weights: Array) -> Array:
        _, pull = jax.vjp(slope_of, local.inputs_by_x, local.path, local.by_input)
        onto_inputs, onto_path, onto_jacobian = pull(weights)
        _, pull_inputs = jax.vjp(inputs_by, x)
        by_input = problem.steer(problem.constrain(place(x)), local.path, local.by_input, onto_jacobian)
        by_input += jnp.einsum("rksc,rks->rc", local.by_input, onto_path)
        return pull_inputs(onto_inputs)[0] + jnp.einsum("rc,rcn->n", by_input, local.inputs_by_x)

    def excess(x: Array) -> Array:
        """Log prior beyond the normal distributions that ``x`` is measured in."""
        at = problem.constrain(place(x))
        total = jnp.zeros(())
        for block, prior in zip(problem.path_blocks, path_priors, strict=True):
            if not prior.exact:
                total += block.log_prior(at) + problem.layout.log_jacobian(place(x), tuple(prior.centre))
        return total + (0.0 if all(p.exact for p in path_priors) else 0.5 * _norm(problem, path_priors, x))

    surface = Surface(residuals, evaluate, jax.value_and_grad(excess), steer, landing or Landing())
    return surface, (u[where] - centre) / width, place


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
    residuals, _ = problem.residuals(problem.solve(problem.constrain(u)))

    def log_density(at: Array) -> Array:
        return problem.log_prior(at) + jnp.sum(problem.block_densities(problem.constrain(at), residuals))

    return log_density
