"""Derivatives and corrected guesses of native code against array code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpnode.solvers import FixedGrid, Native, Status
from support.pendulum import PARAMS, TIMES, X0, pendulum


def test_sensitivities_and_adjoint_agree_on_a_grid_that_must_be_refined():
    """A field with a fast stretch: intervals are cut, and both sweeps go through the same steps."""

    def field(t, x, p):
        return jnp.stack([x[1], -((1.0 + 30.0 * jnp.exp(-((t - 0.5) ** 2) / 0.002)) ** 2) * p["b"] * x[0]])

    solver, weights = Native(tolerance=1e-8), jnp.cos(jnp.arange(82.0)).reshape(41, 2)
    found, jacobian = solver.solve_with_jacobian(field, PARAMS, X0, TIMES, (1,))
    _, pull_back = solver.solve_with_pull_back(field, PARAMS, X0, TIMES, (1,))
    assert int(found.num_steps) > 60
    assert np.allclose(pull_back(weights), jnp.einsum("tdp,td->p", jacobian, weights), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "solver", [Native(tolerance=1.0), Native(tolerance=1e-9), pytest.param(FixedGrid(), marks=pytest.mark.slow)]
)
def test_a_corrected_guess_leads_to_the_path(solver):
    """At the path nothing is corrected; near it, errors of the guess come back squared; derivatives are the path's."""
    path, jacobian = solver.solve_with_jacobian(pendulum, PARAMS, X0, TIMES, (1,))
    wrong = path.xs + 1e-2 * jnp.cos(jnp.arange(82.0)).reshape(41, 2)
    errors = []
    for _ in range(4):
        wrong, by = solver.correct_guess(pendulum, PARAMS, X0, TIMES, (1,), wrong)
        assert int(wrong.status) == Status.OK
        wrong = wrong.xs
        errors.append(float(jnp.abs(wrong - path.xs).max()))
    assert errors[0] > 1e-6
    assert errors[1] < 1e2 * errors[0] ** 2
    assert errors[3] < 1e-12
    assert np.allclose(by, jacobian, rtol=1e-9, atol=1e-10)


def test_correcting_in_native_and_in_array_code_agrees():
    guess = jnp.stack([0.7 + 0.3 * jnp.sin(TIMES), 0.4 - TIMES], axis=1)
    moved = X0 + jnp.array([0.1, -0.2])
    native, array = (
        s.correct_guess(pendulum, PARAMS, moved, TIMES, (0, 1), guess) for s in (Native(tolerance=1.0), FixedGrid())
    )
    assert np.abs(native[0].xs - guess).max() > 0.1
    for one, other in zip(jax.tree.leaves(native), jax.tree.leaves(array), strict=True):
        assert np.allclose(one, other, rtol=1e-10, atol=1e-11)


def test_a_guess_that_cannot_be_corrected_says_so():
    """The field grows without bound from where the guess is: status tells, numbers stay finite."""
    guess = jnp.full((41, 2), 1e9)
    for solver in (Native(tolerance=1.0), FixedGrid()):
        found, by = solver.correct_guess(lambda t, x, p: x**3 * p["b"], PARAMS, X0, TIMES, (0, 1), guess)
        assert int(found.status) != Status.OK
        assert np.isfinite(found.xs).all()
        assert (np.asarray(by) == 0).all()
