"""The highest point of a density, and its curvature there."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.maximum import find_maximum


@pytest.mark.slow
def test_mode_is_a_maximum_and_its_spread_the_curvature(start):
    mode = find_maximum(start.problem, start.maxima[0].centre + 0.3)
    assert mode.log_density == pytest.approx(start.maxima[0].log_density, abs=1e-6)
    cov = mode.scale_tril @ mode.scale_tril.T
    hessian = jax.hessian(lambda u: _dense_log_density(start.problem, u))(jnp.asarray(mode.centre))
    assert np.allclose(cov @ -np.asarray(hessian), np.eye(len(cov)), atol=2e-3)


def _dense_log_density(problem, u):
    """Without custom derivative rules, so that JAX can differentiate twice."""
    values = problem.constrain(u)
    problem = eqx.tree_at(lambda p: p.solver, problem, gn.FixedGrid())
    residuals, _ = problem.residuals(problem.solve_until(values, jnp.asarray(1.0)), values)
    blocks = zip(problem.measured, residuals, strict=True)
    return problem.log_prior(u) + sum(problem.observables[b.observable].log_density(values, b, r) for b, r in blocks)
