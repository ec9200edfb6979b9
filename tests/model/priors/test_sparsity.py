"""Every coefficient prior against an independent computation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from gpnode.model import priors
from support import reference as ref
from support.densities import check, dictionary_model, dictionary_reference, points, tight


@pytest.mark.slow
def test_integrated_horseshoe_is_the_hierarchical_one():
    """The density with local scales integrated out against draws of the hierarchy itself."""
    block = priors.FinnishHorseshoe(expected_terms=1.0).bind("c", (0, 0, 1), 50)
    keys = jax.random.split(jax.random.key(0), 4000)
    # P(|c| < 0.05 | tau, slab) by integrating the density must match the draws.
    grid = jnp.linspace(-0.05, 0.05, 401)
    fixed = {"c.tau": jnp.array([0.1, 0.1]), "c.slab_var": jnp.asarray(1.0)}
    at = lambda c: block.log_prior({**fixed, "c": jnp.stack([c, 0.0, 0.0])})
    reference = at(0.0)
    ratio = jnp.exp(jax.vmap(at)(grid) - reference)
    wide = jnp.sinh(jnp.linspace(-8.0, 8.0, 8001)) / 50.0  # fine near zero, out to 30
    total = jnp.trapezoid(jnp.exp(jax.vmap(at)(wide) - reference), wide)
    wanted = float(jnp.trapezoid(ratio, grid) / total)
    conditional = jax.vmap(lambda k: _draw_given(block, k, fixed))(keys)
    got = float((jnp.abs(conditional) < 0.05).mean())
    assert got == pytest.approx(wanted, abs=4 * np.sqrt(0.25 / 4000))


def _draw_given(block, key, fixed):
    """First coefficient given tau and slab: local scales from their prior, then a normal."""
    node_key, coef_key = jax.random.split(key)
    lam = jnp.abs(jax.random.cauchy(node_key))
    free = (0.1 * lam) ** 2
    return jnp.sqrt(free / (1 + free) + block.floor**2) * jax.random.normal(coef_key)


def cases():
    n = 21  # measurements
    per_equation = lambda v: np.repeat(v["coef.tau"], 6)
    shared = lambda v: np.full(12, v["coef.tau"])
    tau = {"coef.tau": ref.half_cauchy(11 / 1 / np.sqrt(n))}
    tau3 = {"coef.tau": ref.half_cauchy(3 / 9 / np.sqrt(n))}
    slab = {"coef.slab_var": ref.inverse_gamma(1.0, 1.0)}
    slab4 = {"coef.slab_var": ref.inverse_gamma(4.0, 2.0)}
    finnish = lambda f, floor=0.02: lambda v: ref.horseshoe_log_density(v["coef"], f(v), v["coef.slab_var"], floor)
    yield "finnish", priors.FinnishHorseshoe(), tau | slab, finnish(per_equation)
    yield "finnish-options", priors.FinnishHorseshoe(3, 4.0, 2.0, True, 0.05), tau3 | slab4, finnish(shared, 0.05)
    plain = lambda v: ref.horseshoe_log_density(v["coef"], per_equation(v), None)
    yield "horseshoe", priors.Horseshoe(), tau, plain
    yield "laplace", priors.Laplace(0.7), {}, lambda v: stats.laplace.logpdf(v["coef"], 0, 0.7).sum()
    yield "gaussian", priors.Gaussian(0.7), {}, lambda v: stats.norm.logpdf(v["coef"], 0, 0.7).sum()
    yield "spike-and-slab", priors.SpikeAndSlab(spike_std=0.01), {"coef.inclusion": inclusion}, mixture


def inclusion(u):
    """Of one term in six, on average, on the logistic scale."""
    value = expit(u)
    return value, stats.beta(1.0, 5.0).logpdf(value) + np.log(value * (1.0 - value))


def mixture(v):
    acts = np.repeat(v["coef.inclusion"], 6)
    slab = np.mean([stats.norm(0, s).pdf(v["coef"]) for s in (0.25, 1.0, 4.0, 16.0, 64.0)], axis=0)
    return np.log((1 - acts) * stats.norm(0, 0.01).pdf(v["coef"]) + acts * slab).sum()


CASES = {name: rest for name, *rest in cases()}


@pytest.mark.parametrize("name", CASES)
def test_every_coefficient_prior(decay_data, name):
    prior, table, sparse = CASES[name]
    problem = tight(dictionary_model(prior=prior), decay_data)
    # Independent priors are sampled in units of their own width.
    width = {"laplace": 0.7 * np.sqrt(2), "gaussian": 0.7}.get(name, 1.0)
    table = {**table, "coef": lambda u: (width * u, np.log(width))}
    expected, centre = dictionary_reference(problem, decay_data, table, sparse)
    centre[:12] /= width
    if "coef.tau" in table:
        centre[problem.layout.slices()["coef.tau"]] = -1.0
    check(problem, expected, points(problem.size, centre, 0.02))


def test_every_coefficient_prior_is_tested():
    assert {type(case[0]) for case in CASES.values()} == set(priors.COEFFICIENT_PRIORS.values())
