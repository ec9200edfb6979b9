"""Log densities and gradients of problems, against references that share nothing with the package."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpnode.problem.evaluation import log_density, value_and_grad


def assert_gradient_is_its_derivative(problem, u, *, rtol=1e-5, atol=1e-4, step=1e-5):
    """Of the log density at ``u`` (size,), by differences."""
    _, gradient, status = value_and_grad(problem, u)
    assert int(status) == 0
    differences = [
        float(log_density(problem, u.at[i].add(step))[0] - log_density(problem, u.at[i].add(-step))[0]) / (2 * step)
        for i in range(problem.size)
    ]
    assert np.allclose(gradient, differences, rtol=rtol, atol=atol)


def assert_density_is(problem, point, reference, *, rel=1e-7):
    """At the parameters ``point``, by name: the log density and its gradient are those of ``reference(point)``.

    The Jacobian of the map from the unconstrained vector is that of the map's own derivatives.
    """
    u = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in point.items()})
    value, gradient, status = value_and_grad(problem, u)
    assert int(status) == 0

    def by_name(u):
        values = problem.constrain(u)
        return jnp.concatenate([jnp.ravel(values[name]) for name in point])

    def log_jacobian(u):
        return jnp.linalg.slogdet(jax.jacfwd(by_name)(u))[1]

    assert float(value - log_jacobian(u)) == pytest.approx(reference(point), rel=rel)
    step = 1e-6
    slopes = []
    for name, at in point.items():
        for unit in np.eye(np.size(at)).reshape(-1, *np.shape(at)):
            ahead, behind = (reference(point | {name: at + s * unit}) for s in (step, -step))
            slopes.append((ahead - behind) / (2 * step))
    expected = np.array(slopes) @ jax.jacfwd(by_name)(u) + jax.grad(log_jacobian)(u)
    assert np.allclose(gradient, expected, rtol=1e-5, atol=1e-4)
