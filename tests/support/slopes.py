"""Slopes of residuals, against derivatives of the residuals themselves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gpnode.problem.slopes import residual_slopes


def assert_slopes_are_derivatives(problem):
    """At a point near the centre of the prior, by all unconstrained numbers."""
    u = jnp.asarray(np.random.default_rng(1).normal(size=problem.size) * 0.2)

    def stacked(u):
        values = problem.constrain(u)
        return jnp.concatenate(problem.residuals(problem.solve_until(values, jnp.asarray(1.0)), values)[0])

    values = problem.constrain(u)
    paths, jacobian = problem.solve_with_jacobian(values)
    by_inputs = jax.jacfwd(lambda u: problem.path_inputs(problem.constrain(u)))(u)
    slopes = residual_slopes(problem, paths.xs, jacobian, problem.path_inputs(values))
    found = np.concatenate([s @ by_inputs[b.experiment] for s, b in zip(slopes, problem.measured, strict=True)])
    assert np.allclose(found, jax.jacfwd(stacked)(u), atol=1e-12)
