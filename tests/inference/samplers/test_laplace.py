"""Laplace's approximation where it is exact."""

from __future__ import annotations

import numpy as np
import pytest

from support.linear import SD


def test_linear_posterior_is_the_normal_one(linear):
    posterior, _, values, design, cov, _ = linear
    weights = np.linalg.solve(cov, design)
    precision = design @ weights + 1.0 / SD**2
    mean = (weights @ values + 1.0 / SD**2) / precision
    draws = posterior.draws["x.initial"].to_numpy()
    assert posterior.diagnose().converged
    assert draws.mean() == pytest.approx(mean, abs=4.0 / np.sqrt(precision * draws.size))
    assert draws.std() == pytest.approx(1.0 / np.sqrt(precision), rel=0.05)
