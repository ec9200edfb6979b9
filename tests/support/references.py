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
    """At the parameters ``point``, by name: the log density and its gradient are those of ``reference(point)``."""
    u = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in point.items()})
    value, gradient, status = value_and_grad(problem, u)
    _, log_jacobian = problem.layout.constrain(u)
    assert int(status) == 0
    assert float(value - log_jacobian) == pytest.approx(reference(point), rel=rel)
    step = 1e-6
    along = jax.jacfwd(lambda u: jnp.stack([problem.constrain(u)[name] for name in point]))(u)
    slopes = [
        (reference(point | {n: point[n] + step}) - reference(point | {n: point[n] - step})) / (2 * step) for n in point
    ]
    by_jacobian = jax.grad(lambda u: problem.layout.constrain(u)[1])(u)
    assert np.allclose(gradient - by_jacobian, np.array(slopes) @ along, rtol=1e-5, atol=1e-4)
