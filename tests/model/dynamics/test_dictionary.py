"""Dictionaries: fixed and forbidden terms, and coefficients in the user's units."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn
from gpnode.model import priors
from support.densities import check, dictionary_model, dictionary_reference, points, tight
from support.known import DATA


def test_coefficients_are_reported_in_user_units():
    library = gn.polynomial(2) + gn.fourier(1) + gn.term("uptake", lambda x: x.x / (1.0 + x.x))
    dynamics = gn.Dictionary(["x"], library, fixed={("x", "x^2"): 0.25}, forbidden=[("x", "cos(x)")])
    problem = gn.bind(gn.Model(dynamics), DATA)
    assert [t.name for t in dynamics.terms] == ["1", "x", "x^2", "sin(x)", "cos(x)", "uptake"]
    u = 0.3 * jax.random.normal(jax.random.key(0), (problem.size,))
    coef = np.asarray(problem.report(u)["coef"])[0]
    assert coef[2] == 0.25
    assert coef[4] == 0.0
    x = 3.7  # the vector field at this state, from the reported coefficients alone
    wanted = coef @ [1, x, x**2, np.sin(x), np.cos(x), x / (1 + x)]
    scale, unit = float(problem.scaling.state_scale[0]), float(problem.scaling.time_unit)
    got = problem.dynamics.vector_field(jnp.zeros(()), jnp.array([x / scale]), problem.constrain(u))[0]
    assert float(got) * scale / unit == pytest.approx(wanted, rel=1e-10)


def test_mask_forbids():
    dynamics = gn.Dictionary(["x", "y"], gn.polynomial(1), mask=[[False, True, True], [True, False, True]])
    free, _ = dynamics.masks()
    assert free.tolist() == [[False, True, True], [True, False, True]]


def test_fixed_and_forbidden_terms(decay_data):
    fixed, forbidden = {("x", "x"): -0.2, ("y", "x"): 6.0}, [("y", "x*y"), ("x", "1")]
    model = dictionary_model(prior=priors.Gaussian(1.0), fixed=fixed, forbidden=forbidden)
    free = np.ones((2, 6), dtype=bool)
    known = np.zeros((2, 6))
    known[0, 1], known[1, 1] = -0.2, 6.0
    free[0, 1] = free[1, 1] = free[1, 3] = free[0, 0] = False
    problem = tight(model, decay_data)
    sparse = lambda v: stats.norm.logpdf(v["coef"]).sum()
    expected, centre = dictionary_reference(problem, decay_data, {}, sparse, known, free)
    check(problem, expected, points(problem.size, centre, 0.02))
