"""Statistics of chains against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.inference.stopping import statistics as convergence


def test_geweke_scores_are_standard_normal_for_settled_chains_and_large_for_drifting_ones():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 2000))
    slow = np.empty_like(noise)  # a first-order autoregression that needs eleven draws to forget
    slow[:, 0] = noise[:, 0]
    for i in range(1, 2000):
        slow[:, i] = 0.8 * slow[:, i - 1] + 0.6 * noise[:, i]
    for climbed in (noise, slow):
        scores = convergence.geweke(climbed)
        assert scores.shape == (40, 20)
        assert 0.7 < scores.std() < 1.3
    assert np.mean(np.abs(convergence.geweke(noise + np.linspace(0.0, 3.0, 2000))) > 2) > 0.8
    assert np.isnan(convergence.geweke(np.ones((2, 1000)))).all()


def test_classic_statistics():
    rng = np.random.default_rng(1)
    chains = rng.normal(size=(4, 1000))
    assert convergence.gelman_rubin(chains) < 1.01
    assert convergence.gelman_rubin(chains + np.arange(4)[:, None]) > 1.3
    lags = convergence.autocorrelation(chains, 5)
    assert lags.shape == (4, 6)
    assert np.allclose(lags[:, 0], 1.0)
    assert np.abs(lags[:, 1:]).max() < 0.15
    assert convergence.e_bfmi(chains) == pytest.approx(2.0, rel=0.15)
    assert convergence.e_bfmi(np.cumsum(chains, axis=1)) < 0.1
