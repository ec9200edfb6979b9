"""Values that are known to lie below or above a limit."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import log_density, value_and_grad

TIMES = np.linspace(0.0, 6.0, 25)


def decay(**settings):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    settings = {"noise": gn.Noise(std=0.2, relative=False), **settings}
    return gn.Model(form, initial={"x": 4.0}, **settings)


def cut(lower=0.6, upper=3.2, rate=0.7, seed=0):
    values = 4.0 * np.exp(-rate * TIMES) + 0.2 * np.random.default_rng(seed).normal(size=TIMES.size)
    cells = [f"<{lower}" if v < lower else f">{upper}" if v > upper else v for v in values]
    return gn.Observations({"x": (TIMES, np.array(cells, dtype=object))})


@pytest.mark.parametrize("transform", [gn.Identity(), gn.Log()])
def test_each_counts_with_the_probability_of_lying_there(transform):
    """Taken as values, or left out, the density would be another."""
    data = cut()
    series = data.of("x")[0]
    assert (series.limits == -1).sum() > 5
    assert (series.limits == 1).sum() > 1
    problem = gn.bind(decay(transform=transform, noise=gn.Noise(std=0.1)), data)
    u = problem.layout.unconstrain({"rate": jnp.asarray(0.65)})
    scale = series.values.max()
    change = np.log if isinstance(transform, gn.Log) else (lambda x: x)
    away = (change(series.values / scale) - change(4.0 * np.exp(-0.65 * TIMES) / scale)) / 0.1
    expected = np.where(
        series.limits == 0,
        norm.logpdf(away) - np.log(0.1),
        np.where(series.limits < 0, norm.logcdf(away), norm.logsf(away)),
    )
    density = problem.observables[0].log_density(problem.constrain(u), problem.measured[0], jnp.asarray(0.1 * away))
    assert float(density) == pytest.approx(expected.sum(), rel=1e-8)
    value, gradient, _ = value_and_grad(problem, u)
    assert float(value - problem.log_prior(u)) == pytest.approx(expected.sum(), rel=1e-3)
    ahead, behind = (log_density(problem, u + step)[0] for step in (1e-6, -1e-6))
    assert float(gradient[0]) == pytest.approx(float(ahead - behind) / 2e-6, rel=1e-5)


@pytest.mark.slow
def test_a_fit_finds_the_truth_where_limits_as_values_do_not():
    data = cut(lower=1.2, upper=9.0)
    series = data.of("x")[0]
    posterior = gn.fit(decay(), data, progress=False)
    assert posterior.record.method == "nuts"
    right = posterior.summary().loc["rate"]
    assert right["2.5%"] < 0.7 < right["97.5%"]
    assert posterior.diagnose().recommended, str(posterior.diagnose())
    as_values = gn.Observations({"x": (series.times, series.values)})
    wrong = gn.fit(decay(kernel=None), as_values, method=gn.Laplace(draws=200), progress=False).summary().loc["rate"]
    assert wrong["97.5%"] < 0.7


@pytest.mark.slow
def test_limits_are_kept_in_files_and_tables(tmp_path):
    data = cut()
    posterior = gn.fit(decay(), data, method=gn.Laplace(draws=100), progress=False)
    posterior.save(tmp_path / "cut.nc")
    again = gn.Posterior.load(tmp_path / "cut.nc", decay()).data
    assert again.of("x")[0].limits.tolist() == data.of("x")[0].limits.tolist()
    assert again.to_long()["value"].tolist() == data.to_long()["value"].tolist()
    data.to_long().to_csv(tmp_path / "cut.csv", index=False)
    read = gn.Observations.from_file(tmp_path / "cut.csv", variable="variable", value="value", experiment="experiment")
    assert read.of("x")[0].limits.tolist() == data.of("x")[0].limits.tolist()
    assert "limits)" in str(data)
    assert np.isfinite(gn.loo(posterior).elpd_loo)
    gn.plots.paths(gn.forecast(posterior, TIMES), data)


def test_simulations_are_cut_where_the_data_are():
    simulations, _ = gn.simulate(decay(), cut(), 5)
    for simulation in simulations:
        series = simulation.data.of("x")[0]
        assert (series.values[series.limits == -1] == 0.6).all()
        assert (series.values[series.limits == 0] >= 0.6).all()
        assert (series.values[series.limits == 0] <= 3.2).all()


def test_bad_combinations_are_refused():
    with pytest.raises(gn.ModelError, match="has limits, which normal noise alone"):
        gn.bind(decay(noise=gn.StudentNoise()), cut())
    with pytest.raises(gn.ModelError, match="no process can be added"):
        gn.bind(decay(kernel={"x": kernels.Matern32()}), cut())
    with pytest.raises(gn.ModelError, match="which Lifted cannot sample"):
        gn.fit(decay(), cut(), method=gn.Lifted(), progress=False)
    with pytest.raises(gn.DataError, match="limits alone"):
        gn.Observations({"x": ([0.0, 1.0, 2.0], ["<1", "<1", "<2"])})
    with pytest.raises(gn.DataError, match="'low', which is not a number"):
        gn.Observations({"x": ([0.0, 1.0, 2.0], [1.0, "<low", 2.0])})
