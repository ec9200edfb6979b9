"""Several measurements of one thing at the same time are data like any other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import log_density

TIMES = np.repeat(np.linspace(0.0, 4.0, 7), 3)


def decay(kernel=None):
    return gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)}),
        initial={"x": 3.0},
        kernel=kernel,
        noise=gn.Noise(std=0.2, relative=False),
    )


def triplicates(seed=0):
    noise = 0.2 * np.random.default_rng(seed).normal(size=TIMES.size)
    return gn.Observations({"x": (TIMES, 3.0 * np.exp(-0.7 * TIMES) + noise)})


@pytest.mark.parametrize(
    "kernel", [None, kernels.Matern32(variance=0.01, length_scale=0.3), kernels.SquaredExponential(0.01, 0.3)]
)
def test_each_counts_once(kernel):
    """Counted once for a time, or given a process of its own, the density would be another."""
    data = triplicates()
    problem = gn.bind(decay(kernel), data)
    values = data.of("x")[0].values
    scale = np.abs(values).max()
    cov = (0.2 / scale) ** 2 * np.eye(TIMES.size)
    if kernel is not None:
        lag = np.abs(np.subtract.outer(TIMES, TIMES)) / 4.0 / 0.3
        rooted = np.sqrt(3.0) * lag
        shape = (1 + rooted) * np.exp(-rooted) if isinstance(kernel, kernels.Matern32) else np.exp(-0.5 * lag**2)
        cov = cov + 0.01 * shape
    expected = multivariate_normal(3.0 * np.exp(-0.7 * TIMES) / scale, cov).logpdf(values / scale)
    u = problem.layout.unconstrain({"rate": np.float64(0.7)})
    prior = problem.log_prior(u)
    assert float(log_density(problem, u)[0] - prior) == pytest.approx(expected, abs=2e-4)


def test_a_fit_of_triplicates_is_as_sure_as_three_times_as_many_measurements():
    three = gn.fit(decay(), triplicates(), method=gn.Laplace(draws=500), progress=False).summary().loc["rate"]
    one = gn.Observations({"x": (TIMES[::3], triplicates().of("x")[0].values[::3])})
    single = gn.fit(decay(), one, method=gn.Laplace(draws=500), progress=False).summary().loc["rate"]
    assert 0.45 < three["sd"] / single["sd"] < 0.75  # one over the root of three
    assert abs(three["mean"] - 0.7) < 4 * three["sd"]


@pytest.mark.slow
def test_defaults_take_repeats_from_a_file(tmp_path):
    noise = 0.2 * np.random.default_rng(1).normal(size=TIMES.size)
    lines = [f"{t:.3f},{x:.4f}" for t, x in zip(TIMES, 3.0 * np.exp(-0.7 * TIMES) + noise, strict=True)]
    (tmp_path / "x.csv").write_text("time,x\n" + "\n".join(lines) + "\n")
    data = gn.Observations.from_file(tmp_path / "x.csv")
    posterior = gn.fit(
        gn.Model(gn.Dictionary(["x"], gn.polynomial(2))), data, method=gn.Laplace(draws=200), progress=False
    )
    assert posterior.diagnose().explains
    assert np.isfinite(gn.loo(posterior).elpd_loo)


def test_one_time_alone_says_nothing_of_motion():
    with pytest.raises(gn.DataError, match="at one time only"):
        gn.Observations({"x": ([1.0, 1.0, 1.0], [1.0, 1.1, 0.9])})
