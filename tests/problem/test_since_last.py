"""What came since the last measurement: new cases of a week."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import lognorm, norm

import gpnode as gn
from gpnode.formats.problem_toml import read_problem
from gpnode.problem.evaluation import log_density
from support.references import assert_gradient_is_its_derivative
from support.slopes import assert_slopes_are_derivatives

WEEKS = np.array([1.0, 2.0, 2.0, 3.5, 5.0])  # twice at 2, and not evenly


def grown(rate, gain, times=WEEKS):
    """Since the last earlier time, of gain * (exp(rate t) - 1)."""
    earlier = np.array([max((s for s in times if s < t), default=0.0) for t in times])
    return gain * (np.exp(rate * times) - np.exp(rate * earlier))


def model(**settings):
    reading = gn.Observable(lambda t, x, p: p.gain * x.all, {"gain": gn.LogNormal(0.5, 0.4)}, since_last=True)
    form = gn.KnownForm(
        ["x", "all"], lambda t, x, p: {"x": p.rate * x.x, "all": p.rate * x.x}, {"rate": gn.LogNormal(-1.0, 0.5)}
    )
    settings = {"kernel": None, "noise": gn.Noise(std=0.05), "initial": {"x": 1.0, "all": 0.0}} | settings
    return gn.Model(form, observables={"cases": reading}, **settings)


@pytest.fixture
def data():
    noise = 1 + 0.05 * np.random.default_rng(0).normal(size=WEEKS.size)
    return gn.Observations({"cases": (WEEKS, grown(0.4, 2.0) * noise)}, start=0.0)


@pytest.mark.parametrize("transform", [gn.Identity(), gn.Log()])
def test_density_and_gradient_are_those_of_the_closed_form(data, transform):
    problem = gn.bind(model(solver=gn.Native(tolerance=1e-10), transform=transform), data)
    y, scale = data.values_of("cases"), np.abs(data.values_of("cases")).max()
    change = np.log if isinstance(transform, gn.Log) else np.asarray

    def reference(rate, gain):
        away = change(y / scale) - change(grown(rate, gain) / scale)
        priors = lognorm(0.5, scale=np.exp(-1.0)).logpdf(rate) + lognorm(0.4, scale=np.exp(0.5)).logpdf(gain)
        return norm(0, 0.05).logpdf(away).sum() + priors

    u = problem.layout.unconstrain({"rate": jnp.asarray(0.37), "gain": jnp.asarray(2.2)})
    _, log_jacobian = problem.layout.constrain(u)
    value, _ = log_density(problem, u)
    assert float(value - log_jacobian) == pytest.approx(reference(0.37, 2.2), rel=1e-7)
    assert_gradient_is_its_derivative(problem, u)
    assert_slopes_are_derivatives(problem)


@pytest.mark.slow
def test_forecasts_and_simulations_are_of_what_comes_since_the_last_time(data):
    posterior = gn.fit(model(), data, method=gn.Laplace(draws=50), progress=False)
    ahead = gn.forecast(posterior, [1.0, 2.0, 4.0])
    rate, gain = float(posterior.draws["rate"].mean()), float(posterior.draws["gain"].mean())
    since = np.maximum(np.array([1.0, 2.0, 4.0]) - 1.0, 0.0)  # the usual time between measurements
    expected = gain * (np.exp(rate * np.array([1.0, 2.0, 4.0])) - np.exp(rate * since))
    assert np.allclose(ahead.mean().sel(state="cases"), expected, rtol=0.1)
    simulations, _ = gn.simulate(model(noise=gn.Noise(std=1e-6)), data, 3)
    for simulation in simulations:
        truth = simulation.truth
        expected = grown(float(truth["rate"]), float(truth["gain"]))
        assert np.allclose(simulation.data.values_of("cases"), expected, rtol=1e-3, atol=1e-4)


def test_problem_files_say_since_last(tmp_path):
    rows = [f"{t},{c}" for t, c in zip(np.unique(WEEKS), grown(0.4, 2.0, np.unique(WEEKS)), strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["time,cases", *rows]))
    (tmp_path / "problem.toml").write_text(
        '[data]\nfile = "data.csv"\nstart = 0.0\n[model]\nequations = ["dx/dt = rate*x", "dall/dt = rate*x"]\n'
        '[parameters]\nrate = "LogNormal(-1, 0.5)"\ngain = "LogNormal(0, 1)"\n[initial]\nx = 1.0\nall = 0.0\n'
        '[observables]\ncases = "since_last(gain*all)"\n'
    )
    problem = read_problem(tmp_path / "problem.toml")
    assert problem.model.observable_of("cases").since_last
    bound = gn.bind(problem.model, problem.data)
    assert bound.measured[0].previous.tolist() == [-1, 0, 1, 2]
