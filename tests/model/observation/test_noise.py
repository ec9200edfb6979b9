"""Noise that grows with what is measured."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn
from gpnode.problem.evaluation import log_density
from gpnode.problem.smoothing import smoothed_level

TIMES = np.linspace(0.0, 4.0, 40)
FIELD = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)})


def data(noise=0.02, seed=0):
    path = 5.0 * np.exp(-0.8 * TIMES)
    return gn.Observations({"x": (TIMES, path * (1.0 + noise * np.random.default_rng(seed).normal(size=TIMES.size)))})


def test_both_parts_are_in_the_density():
    """Against the formula: normal errors whose standard deviation is a + b times the smoothed level."""
    measured = data()
    problem = gn.bind(gn.Model(FIELD, initial={"x": 5.0}, kernel=None), measured)
    values = {"k": 0.8, "x.noise_additive": 0.01, "x.noise_proportional": 0.03}
    u = problem.layout.unconstrain({name: jnp.asarray(v) for name, v in values.items()})
    y = measured.values_of("x")
    largest = np.abs(y).max()
    std = 0.01 + 0.03 * smoothed_level(TIMES, y / largest)
    likelihood = stats.norm.logpdf(y / largest, 5.0 * np.exp(-0.8 * TIMES) / largest, std).sum()
    priors = stats.lognorm(1.0, scale=np.exp(-1.0)).logpdf(0.8) + np.log(0.8)
    for v in (0.01, 0.03):  # sampled as 0.01 softplus(10 u), whose slope is 0.1 times a logistic function
        priors += stats.expon(scale=0.1).logpdf(v) + np.log(0.1 * -np.expm1(-v / 0.01))
    assert log_density(problem, u)[0] == pytest.approx(likelihood + priors, rel=1e-6)


def test_the_level_is_that_of_what_was_measured():
    values = data(noise=0.0).values_of("x")
    assert np.allclose(smoothed_level(TIMES, values), values, rtol=0.02, atol=0.02)
    assert np.allclose(smoothed_level(TIMES[:3], np.array([3.0, 0.0, 3.0])), np.sqrt(6.0))


@pytest.mark.parametrize(
    ("additive", "proportional"), [(-0.1, 0.1), (0.0, 0.0), (gn.Normal(0.0, 1.0), 0.1)], ids=["less", "none", "prior"]
)
def test_noise_that_is_none_is_refused(additive, proportional):
    with pytest.raises(gn.ModelError, match="from zero up"):
        gn.CombinedNoise(additive, proportional)


def test_on_the_log_scale_noise_is_proportional_anyway():
    assert gn.Model(FIELD, transform=gn.Log()).noise_of("x") == gn.Noise()
    with pytest.raises(gn.ModelError, match="all noise is proportional"):
        gn.bind(gn.Model(FIELD, transform=gn.Log(), noise=gn.CombinedNoise()), data())


@pytest.mark.slow
def test_multiplicative_noise_is_found_as_such():
    posterior = gn.fit(gn.Model(FIELD), data(noise=0.1), method=gn.Laplace(draws=500), progress=False)
    proportional = float(posterior.draws["x.noise_proportional"].median())
    additive = float(posterior.draws["x.noise_additive"].median())
    assert 0.06 < proportional < 0.14
    assert additive < 0.01 * 5.0
