"""Second derivatives of paths."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gpnode as gn
from gpnode.solvers import FixedGrid, Native
from support.pendulum import PARAMS, X0


def bent(t, x, p):
    """Neither linear in the states nor in the parameters, nor the same at all times."""
    first = x[1] * p["a"][1] + p["a"][2] * x[0] * x[1]
    return jnp.stack([first, p["b"] ** 2 * jnp.sin(6.0 * x[0]) - jnp.tanh(p["b"] * x[1]) + p["a"][0] * t])


def test_steering_is_the_gradient_of_weighted_derivatives():
    """Of which differences of exact derivatives are the measure. Only some times have weights."""
    times, free = jnp.linspace(0.0, 1.0, 161), (1,)
    solver = Native(tolerance=1.0)
    weights = jnp.where(jnp.arange(161) % 8 == 3, 1.0, 0.0)[:, None, None] * jnp.cos(jnp.arange(161.0 * 10))
    weights = weights.reshape(161, -1)[:, :10].reshape(161, 2, 5)
    flat, unravel = ravel_pytree(PARAMS)

    def solve(theta):
        return solver.solve_with_jacobian(bent, unravel(theta[:-1]), X0.at[1].set(theta[-1]), times, free)

    theta = jnp.concatenate([flat, X0[1:]])
    path, jacobian = solve(theta)
    found = solver.jacobian_gradient(bent, PARAMS, times, path.xs, jacobian, weights, free)
    steps = 1e-5 * jnp.eye(theta.size)
    wanted = [jnp.sum(weights * (solve(theta + s)[1] - solve(theta - s)[1])) / 2e-5 for s in steps]
    assert np.abs(np.asarray(wanted)).min() > 1e-3
    assert np.allclose(found, wanted, rtol=1e-6)


def relaxing(t, x, p):
    """The second state follows the first at a rate far above that of the path."""
    wanted = p["a"][0] + 0.3 * jnp.sin(5.0 * x[0] * p["a"][1])
    return jnp.stack([x[1] * jnp.cos(x[0]), 130.0 * p["b"] * (wanted - x[1])])


def test_steering_is_stable_where_a_state_follows_at_once():
    """Each interval spans four times what it takes to relax: the sweep would explode with one step for each."""
    times, free = jnp.linspace(0.0, 1.0, 21), (0,)
    solver = Native(tolerance=1e-9)
    weights = jnp.cos(jnp.arange(21.0 * 10)).reshape(21, 2, 5)
    flat, unravel = ravel_pytree(PARAMS)

    def solve(theta):
        return solver.solve_with_jacobian(relaxing, unravel(theta[:-1]), X0.at[0].set(theta[-1]), times, free)

    theta = jnp.concatenate([flat, X0[:1]])
    path, jacobian = solve(theta)
    found = solver.jacobian_gradient(relaxing, PARAMS, times, path.xs, jacobian, weights, free)
    steps = 1e-5 * jnp.eye(theta.size)
    wanted = np.array([jnp.sum(weights * (solve(theta + s)[1] - solve(theta - s)[1])) / 2e-5 for s in steps])
    assert np.linalg.norm(wanted) > 1.0
    assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.slow
def test_a_problem_without_second_derivatives_does_not_steer():
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.Normal(0.0, 1.0)})
    data = gn.Observations({"x": (np.arange(6.0), np.linspace(0.2, 0.5, 6))})
    problem = gn.bind(gn.Model(field, initial={"x": 0.2}, solver=FixedGrid()), data)
    values = problem.constrain(jnp.zeros(problem.size))
    paths, jacobian = problem.solve_with_jacobian(values)
    assert np.array_equal(problem.steer(values, paths.xs, jacobian, jacobian), np.zeros((1, 1)))
