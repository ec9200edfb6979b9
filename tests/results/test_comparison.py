"""Leaving one measurement out, and comparing models by it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpnode as gn
from gpnode.results.comparison import in_words, pointwise_log_density
from support.linear import NOISE, SD


def test_leaving_one_out_is_the_conditional_density(linear):
    posterior, _, values, design, cov, _ = linear
    found = pointwise_log_density(posterior)[0]
    every = posterior.draws["x.initial"].to_numpy()[0]
    start = every[:: max(1, every.size // 1000)][7]
    residual = values - start * design
    for i in (0, 6, 13):
        rest = np.delete(np.arange(values.size), i)
        weights = np.linalg.solve(cov[np.ix_(rest, rest)], cov[rest, i])
        var = cov[i, i] - weights @ cov[rest, i]
        # The data are scaled inside, so densities differ by the scale of the variable.
        scaled = -0.5 * ((residual[i] - weights @ residual[rest]) ** 2 / var + np.log(2 * np.pi * var))
        assert found[7, i] == pytest.approx(scaled + np.log(np.abs(values).max()), rel=1e-6)
    assert np.isfinite(gn.loo(posterior).elpd_loo)


def test_comparison_prefers_the_model_that_fits_and_refuses_other_data(linear):
    posterior = linear[0]
    wrong = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": 0.0 * x.x}, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=None,
        noise=gn.Noise(std=NOISE),
    )
    other = gn.fit(wrong, posterior.data, method=gn.Laplace(draws=500), progress=False)
    assert list(gn.compare({"constant": other, "decay": posterior}).index) == ["decay", "constant"]
    moved = gn.Observations({"x": (posterior.data.series[0].times, posterior.data.series[0].values + 1.0)}, start=0.0)
    third = gn.fit(wrong, moved, method=gn.Laplace(draws=100), progress=False)
    with pytest.raises(gn.ModelError, match="different data"):
        gn.compare({"a": posterior, "b": third})


def test_a_comparison_in_words():
    table = pd.DataFrame(
        {"elpd_diff": [0.0, 1.5, 30.0], "dse": [0.0, 3.0, 5.0], "warning": [False, False, True]},
        index=["logistic", "Gompertz", "linear"],
    )
    words = in_words(table).splitlines()
    assert "logistic and Gompertz predict about equally well" in words[0]
    assert "logistic predicts better than linear" in words[1]
    assert "weigh so much on linear" in words[2]
