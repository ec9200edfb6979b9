"""Forecasts against closed forms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr

import gpnode as gn
from gpnode.results.forecast_paths import conditional
from support.draws import paths_of, walks
from support.linear import NOISE, RATE, SD


def test_forecast_passes_through_the_data_and_from_new_starts(posterior):
    times = np.linspace(0.0, 12.0, 25)
    found = gn.forecast(posterior, times, experiment="high")
    assert found.states.shape == (120, 25, 1)
    assert found.failures == 0
    series = posterior.data.of("x")[1]
    at_data = gn.forecast(posterior, series.times, experiment="high").mean().to_numpy()[:, 0]
    assert np.allclose(at_data, series.values, rtol=0.15)
    fresh = gn.forecast(posterior, times, initial={"x": 1.0})
    assert np.allclose(fresh.states[:, 0], 1.0)
    assert np.allclose(fresh.states, fresh.ode, rtol=1e-12)
    noisy = gn.forecast(posterior, times, initial={"x": 1.0}, noise=True)
    at_start = np.log(noisy.states[:, 0, 0]).std()  # the path is certain there, so this is the noise alone
    assert at_start == pytest.approx(float(posterior.draws["x.noise_std"].mean()), rel=0.4)
    low, high = found.quantile([0.05, 0.95]).to_numpy()
    assert (low <= high).all()


@pytest.mark.parametrize("wrong", [[-1.0, 2.0], [], [np.nan]])
def test_forecast_refuses_impossible_times(posterior, wrong):
    with pytest.raises(gn.ModelError, match="times"):
        gn.forecast(posterior, wrong)


def test_a_start_beyond_all_measurements_is_named(posterior):
    measured = posterior.data.values_of("x")
    inside, outside = 0.5 * measured.max(), 2.0 * measured.max()
    assert gn.forecast(posterior, [1.0], initial={"x": inside}).outside == ()
    assert gn.forecast(posterior, [1.0], initial={"x": outside}).outside == ("x",)
    assert gn.forecast(posterior, [1.0]).outside == ()


def test_conditional_is_the_textbook_one(posterior):
    problem = posterior.problem
    values = problem.constrain(posterior.unconstrained[0, 0])
    observable, t = problem.observables[0], np.array([0.1, 0.4, 0.8])
    block = dataclasses.replace(problem.measured[0], gp_times=t, level=np.array([0.5, 1.0, 0.2]))
    new = np.array([0.2, 0.9])
    residual = np.array([0.3, -0.2, 0.1])
    both = np.concatenate([t, new])
    joint = np.asarray(observable.signal_cov(values, both, both)) + np.diag(
        [*observable.noise_var(values, block.level), 0, 0]
    )
    mean, cov = conditional(observable, values, block, residual, new)
    solved = joint[3:, :3] @ np.linalg.inv(joint[:3, :3])
    assert np.allclose(mean, solved @ residual, rtol=1e-6)
    assert np.allclose(cov, joint[3:, 3:] - solved @ joint[:3, 3:], atol=1e-9)


def test_paths_below_zero_on_the_log_scale_are_counted_not_invented(posterior):
    sinking = gn.KnownForm(["x"], lambda t, x, p: {"x": p.r - 0.0 * x.x}, {"r": gn.Normal(0.0, 5.0)})
    model = gn.Model(sinking, initial={"x": {"low": 2.0, "high": 9.0}}, transform=gn.Log(), kernel=None)
    draws = np.array([[[-1.0, 0.0], [1.0, 0.0]]])
    stats = xr.Dataset({"log_density": (("chain", "draw"), np.array([[0.0, 1.0]]))})
    down = dataclasses.replace(posterior, problem=gn.bind(model, posterior.data), unconstrained=draws, stats=stats)
    paths = gn.forecast(down, [1.0, 5.0])
    assert paths.failures == 1
    assert (paths.states > 0).all()


def exact_forecast(linear, new):
    """Mean and covariance of path plus process at new times, with the start integrated out."""
    _, times, values, design, cov, kernel = linear
    ahead = np.exp(-RATE * new)
    joint = cov + SD**2 * np.outer(design, design)
    cross = kernel(new, times) + SD**2 * np.outer(ahead, design)
    own = kernel(new, new) + SD**2 * np.outer(ahead, ahead)
    weights = np.linalg.solve(joint, cross.T).T
    return ahead + weights @ (values - design), own - weights @ cross.T


@pytest.mark.parametrize("noise", [False, True])
def test_forecast_is_the_exact_predictive_distribution(linear, noise):
    posterior, _, values = linear[:3]
    new = np.array([0.5, 2.1, 4.0, 7.0, 9.0])
    mean, cov = exact_forecast(linear, new)
    sd = np.sqrt(np.diag(cov) + noise * (NOISE * np.abs(values).max()) ** 2)
    found = gn.forecast(posterior, new, noise=noise, max_draws=4000)
    error = sd / np.sqrt(found.states.sizes["draw"])
    assert np.all(np.abs(found.mean().to_numpy()[:, 0] - mean) < 4.5 * error)
    assert np.allclose(found.std().to_numpy()[:, 0], sd, rtol=0.07)
    low, high = (end.to_numpy()[:, 0] for end in found.interval(0.9))
    assert np.allclose(high - low, 2 * 1.645 * sd, rtol=0.07)
    assert found.failures == 0
    table = found.table()
    assert np.array_equal(table["time"], new)
    assert np.array_equal(table["x.mean"], found.mean().to_numpy()[:, 0])


def test_map_path_is_that_of_the_highest_density_and_not_the_mean(linear):
    posterior = linear[0]
    new = np.array([1.0, 3.0])
    best = np.argmax(posterior.stats["log_density"].to_numpy()[0])
    alone = gn.forecast(posterior, new, max_draws=4000).expected.to_numpy()[best]
    assert np.allclose(gn.forecast(posterior, new, max_draws=10).map_path.to_numpy(), alone, rtol=1e-9)


def test_new_starts_leave_the_process_out_and_may_name_some_states_only(linear):
    found = gn.forecast(linear[0], [1.0, 5.0], initial={"x": 3.0})
    assert np.allclose(found.states.to_numpy()[:, :, 0], 3.0 * np.exp(-RATE * np.array([1.0, 5.0])), rtol=1e-6)
    with pytest.raises(gn.ModelError, match="not a state"):
        gn.forecast(linear[0], [1.0], initial={"y": 3.0})
    with pytest.raises(gn.ModelError, match="finite"):
        gn.forecast(linear[0], [1.0], initial={"x": np.nan})


def test_an_envelope_holds_whole_paths():
    rng = np.random.default_rng(0)
    low, high = (end.to_numpy()[:, 0] for end in paths_of(walks(rng, 4000)).envelope(0.9))
    fresh = walks(rng, 4000)
    whole = ((fresh >= low) & (fresh <= high)).all(axis=1).mean()
    assert whole == pytest.approx(0.9, abs=4 * np.sqrt(2 * 0.9 * 0.1 / 4000))  # both samples are random
    assert low[0] == high[0] == 1.0  # a known start stays known
    pointwise = [end.to_numpy()[:, 0] for end in paths_of(fresh).interval(0.9)]
    assert ((fresh >= pointwise[0]) & (fresh <= pointwise[1])).all(axis=1).mean() < 0.75


def test_an_envelope_of_parallel_paths_is_the_interval():
    offsets = np.random.default_rng(1).normal(size=500)
    parallel = paths_of(offsets[:, None] + np.sin(np.arange(20.0)))
    for wide, usual in zip(parallel.envelope(), parallel.interval(), strict=True):
        assert np.allclose(wide, usual, atol=0.02)  # neighbouring draws are so far apart at its ends
