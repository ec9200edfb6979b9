"""Densities of paths that cannot be solved, or grow large."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import gpnode as gn
from gpnode.problem.evaluation import log_density, value_and_grad
from gpnode.solvers import Status
from support.known import DATA, RATE, known


def test_failed_solve_is_minus_infinity_with_finite_gradient():
    model = gn.Model(gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2}, RATE), initial={"x": 8.0})
    problem = gn.bind(gn.paper_priors(model), DATA)
    u = problem.layout.unconstrain(
        {"rate": 50.0, "x.kernel.variance": 1.0, "x.kernel.length_scale": 1.0, "x.noise_var": 1.0}
    )
    value, gradient, status = value_and_grad(problem, u)
    assert value == -np.inf
    assert int(status) == Status.BLOW_UP
    assert np.isfinite(gradient).all()


def test_path_below_zero_on_the_log_scale_is_counted_by_cause():
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate}, RATE), initial={"x": 8.0}, transform=gn.Log(), kernel=None
    )
    problem = gn.bind(gn.paper_priors(model), DATA)
    value, status = log_density(problem, problem.layout.unconstrain({"rate": 50.0, "x.noise_var": 1.0}))
    assert value == -np.inf
    assert int(status) == Status.OUTSIDE_DOMAIN


def test_a_large_latent_state_is_no_blow_up():
    """A latent state that starts at zero has no scale to go by; it may still grow to ten million."""
    f = lambda t, x, p: {"x": -p.rate * x.x, "made": 1e7 * p.rate * x.x}
    problem = gn.bind(gn.Model(known(["x", "made"], f), initial={"made": 0.0}, kernel=None), DATA)
    value, status = log_density(problem, jnp.zeros(problem.size))
    assert int(status) == Status.OK
    assert np.isfinite(value)
