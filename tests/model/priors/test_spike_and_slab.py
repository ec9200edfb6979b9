"""The prior over which terms act, against its own formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn

PRIOR = gn.SpikeAndSlab(expected_terms=1.0, spike_std=0.05, slab_stds=(0.5, 2.0))
BLOCK = PRIOR.bind("c", (0, 0, 0, 1, 1), 50)


def test_density_is_the_mixture():
    coef, inclusion = np.array([0.02, -0.7, 1.5, 0.0, 0.1]), np.array([0.3, 0.6])
    b = np.array([2.0, 1.0])  # three candidates for one expected term; two, for which any number is as likely
    wanted = stats.beta(1.0, b).logpdf(inclusion).sum()
    for c, p in zip(coef, inclusion[[0, 0, 0, 1, 1]], strict=True):
        slab = 0.5 * (stats.norm(0, 0.5).pdf(c) + stats.norm(0, 2.0).pdf(c))
        wanted += np.log((1 - p) * stats.norm(0, 0.05).pdf(c) + p * slab)
    values = {"c": jnp.asarray(coef), "c.inclusion": jnp.asarray(inclusion)}
    assert float(BLOCK.log_prior(values)) == pytest.approx(wanted)


def test_probability_of_acting_is_bayes_rule():
    values = {"c": jnp.array([0.1, 0.1, 0.1, 0.1, 3.0]), "c.inclusion": jnp.array([0.3, 0.6])}
    slab = 0.5 * (stats.norm(0, 0.5).pdf(0.1) + stats.norm(0, 2.0).pdf(0.1))
    odds = slab / stats.norm(0, 0.05).pdf(0.1) * np.array([0.3 / 0.7, 0.6 / 0.4])
    found = np.asarray(BLOCK.acting(values))
    assert np.allclose(found[[0, 3]], odds / (1 + odds))
    assert float(found[4]) == pytest.approx(1.0)


def test_components_given_coefficients_return_the_prior():
    """A draw of the prior, its component anew, and the coefficient anew: still a draw of the prior."""

    def again(key):
        first, component, last = jax.random.split(key, 3)
        values = BLOCK.draw(first)
        given = BLOCK.conditional(values, component)
        return values["c"], given.width["c"] * jax.random.normal(last, (5,))

    before, after = jax.vmap(again)(jax.random.split(jax.random.key(0), 4000))
    for k in range(5):
        assert stats.ks_2samp(np.abs(before[:, k]), np.abs(after[:, k])).pvalue > 1e-3


@pytest.mark.parametrize("wrong", [{"expected_terms": 0.0}, {"spike_std": 1.0}], ids=["none expected", "wide spike"])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(gn.ModelError, match="must be positive"):
        gn.SpikeAndSlab(**wrong).bind("c", (0, 0), 10)


def test_paper_priors_fill_what_was_left_open():
    library = gn.polynomial(2)
    kernel = gn.kernels.Matern32(length_scale=0.3)
    model = gn.paper_priors(gn.Model(gn.Dictionary(["x"], library), kernel=kernel))
    described = model.describe()
    assert described["dynamics"]["prior"]["kind"] == "finnish-horseshoe"
    assert described["kernel"]["length_scale"] == 0.3
    assert described["kernel"]["variance"]["distribution"] == "LogNormal"
    assert described["noise"]["noise_var"]["distribution"] == "LogNormal"
    own = gn.paper_priors(gn.Model(gn.Dictionary(["x"], library, prior=gn.Horseshoe()), noise=gn.Noise(std=0.1)))
    assert own.describe()["dynamics"]["prior"]["kind"] == "horseshoe"
    assert own.describe()["noise"] == {"noise_std": 0.1, "relative": True}
