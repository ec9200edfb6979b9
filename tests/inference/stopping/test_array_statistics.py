"""Statistics on fixed arrays, against formulas written out here and against numbers that arviz 0.23.4 gave."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import genpareto, rankdata

from gpnode.inference.stopping.statistics import (
    autocorrelation,
    bulk_ess,
    gelman_rubin,
    mean_ess,
    pareto_k,
    rank_rhat,
    smooth_weights,
    tail_ess,
)


def waves(chains=4, draws=200):
    """Draws without a random number generator: incommensurate waves, one chain apart from the rest."""
    time = np.arange(draws)
    rows = [np.sin(1.3 * time + k) + 0.5 * np.cos(0.11 * time * (k + 1)) + 0.02 * k for k in range(chains)]
    return np.array(rows)


def classic_rhat(draws):
    n = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean()
    between = draws.mean(axis=1).var(ddof=1)
    return np.sqrt(((n - 1) / n * within + between) / within)


def split(draws):
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def normal_scores(draws):
    ranks = rankdata(draws).reshape(draws.shape)
    return ndtri((ranks - 0.375) / (draws.size + 0.25))


def test_rhat_is_what_its_definition_says():
    draws = waves()
    folded = np.abs(split(draws) - np.median(split(draws)))
    expected = max(classic_rhat(normal_scores(split(draws))), classic_rhat(normal_scores(folded)))
    assert rank_rhat(draws) == pytest.approx(expected, rel=1e-9)
    assert gelman_rubin(draws) == pytest.approx(classic_rhat(draws), rel=1e-9)


def test_autocorrelation_is_what_its_definition_says():
    draws = waves()
    centred = draws - draws.mean(axis=1, keepdims=True)
    sums = [(centred[:, lag:] * centred[:, : draws.shape[1] - lag]).sum(axis=1) for lag in range(11)]
    assert np.allclose(autocorrelation(draws, 10), np.transpose(sums / sums[0]), atol=1e-10)


def test_effective_draws_are_those_of_arviz_0_23():
    draws = waves()
    assert bulk_ess(draws) == pytest.approx(446.79724716007496, rel=1e-6)
    assert tail_ess(draws) == pytest.approx(904.204742296133, rel=1e-6)
    assert mean_ess(draws) == pytest.approx(450.2337444963342, rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.0])
def test_what_cannot_be_computed_never_passes(value):
    draws = np.full((4, 100), value)
    assert rank_rhat(draws) == np.inf
    assert bulk_ess(draws) == tail_ess(draws) == 0.0
    spoilt = waves()
    spoilt[2, 17] = np.nan
    assert rank_rhat(spoilt) == np.inf
    assert bulk_ess(spoilt) == tail_ess(spoilt) == 0.0
    assert pareto_k(spoilt[0]) < 1.0 < pareto_k(spoilt[2]) == np.inf


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_shape_of_a_known_tail_is_found(shape):
    quantiles = genpareto.ppf((np.arange(4000) + 0.5) / 4000, shape)
    assert pareto_k(np.log(quantiles)) == pytest.approx(shape, abs=0.06)


def test_smoothed_weights_are_those_of_arviz_0_23():
    log_weights = 2.0 * waves(1, 300)[0]
    smoothed, k = smooth_weights(log_weights)
    assert k == pytest.approx(-0.483471013756903, rel=1e-6)
    assert smoothed.max() == pytest.approx(-3.8975634944651443, rel=1e-6)
    assert np.exp(smoothed).sum() == pytest.approx(1.0)
    _, shorter = smooth_weights(log_weights, relative_ess=4.0)
    assert shorter == pytest.approx(-0.2969470684471843, rel=1e-6)


@pytest.mark.parametrize(
    "log_weights",
    [
        1e4 * waves(1, 400)[0],  # but one weight are zero beside the largest
        np.r_[1e-3 * waves(1, 399)[0], 1000.0],
        np.r_[waves(1, 300)[0], np.full(100, 5.0)],  # a tail of equal weights has no shape
        waves(1, 15)[0],
    ],
)
def test_weights_without_a_tail_to_fit_never_pass(log_weights):
    assert pareto_k(log_weights) > 1.0
