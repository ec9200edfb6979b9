"""Factors and scores of covariances in native and in array code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gpnode.problem.covariance import Lags
from gpnode.problem.factorisation import factorise, score


@pytest.mark.parametrize("n", [1, 7, 60])
def test_factors_of_a_covariance(n):
    root = np.random.default_rng(n).normal(size=(3, n, n))
    covs = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(n)
    found = jax.vmap(factorise)(jnp.asarray(covs))
    for i, cov in enumerate(covs):
        assert np.allclose(found.inverse[i] @ cov, np.eye(n), atol=1e-8)
        assert np.allclose(found.whitener[i] @ cov @ found.whitener[i].T, np.eye(n), atol=1e-8)
        assert np.allclose(found.whitener[i], np.tril(found.whitener[i]))
        assert float(found.log_det[i]) == pytest.approx(np.linalg.slogdet(cov)[1])


def test_a_covariance_that_is_none_gives_nan():
    assert np.isnan(factorise(jnp.array([[1.0, 2.0], [2.0, 1.0]])).log_det)


@pytest.mark.parametrize("times", [np.arange(8.0) / 8.0, np.geomspace(0.01, 1.0, 7)], ids=["regular", "irregular"])
def test_score_in_native_and_in_array_code_agrees(times):
    lags = Lags.between(times)
    assert lags.values.size == (8 if times.size == 8 else 22)
    rng = np.random.default_rng(0)
    arguments = (
        jnp.asarray(rng.normal(size=times.size)),
        jnp.exp(-4.0 * lags.values),
        lags.positions,
        jnp.linspace(0.05, 0.2, times.size),
    )
    native = score(*arguments)
    array = score(*arguments, largest_native=0)
    cov = np.exp(-4.0 * np.abs(times[:, None] - times)) + np.diag(arguments[3])
    assert float(array.value) == pytest.approx(stats.multivariate_normal(cov=cov).logpdf(arguments[0]))
    for a, b in zip(native, array, strict=True):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)
