"""Measured variables that are no states: sums, scaled signals, rates."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import lognorm, multivariate_normal, norm

import gpnode as gn
from gpnode.problem.evaluation import log_density, value_and_grad
from support.slopes import assert_slopes_are_derivatives

TIMES = np.linspace(0.0, 6.0, 13)


def chain_of_two(**settings):
    """From a to b, of which the sum is seen through a gain, and the flow between them."""
    form = gn.KnownForm(
        ["a", "b"],
        lambda t, x, p: {"a": -p.k * x.a, "b": p.k * x.a - p.m * x.b},
        {"k": gn.LogNormal(0.0, 1.0), "m": 0.3},
    )
    total = gn.Observable(lambda t, x, p: p.gain * (x.a + x.b) + 0.1 * t, {"gain": gn.LogNormal(0.0, 1.0)})
    return gn.Model(
        form,
        initial={"a": gn.Normal(4.0, 1.0), "b": 0.0},
        kernel=None,
        noise=gn.Noise(std=0.2, relative=False),
        observables={"total": total, "flow": lambda t, x, p: p.k * x.a * p.gain},
        **settings,
    )


def path(k, start, times=TIMES):
    return solve_ivp(
        lambda t, x: [-k * x[0], k * x[0] - 0.3 * x[1]],
        (0.0, times[-1]),
        [start, 0.0],
        t_eval=times,
        rtol=1e-11,
        atol=1e-12,
    ).y


def measured(k=0.8, start=4.2, gain=2.5, seed=0):
    a, b = path(k, start)
    noise = 0.2 * np.random.default_rng(seed).normal(size=(2, TIMES.size))
    total, flow = gain * (a + b) + 0.1 * TIMES + noise[0], (k * a * gain + noise[1])[::2]
    return gn.Observations({"total": (TIMES, total), "flow": (TIMES[::2], flow)})


@pytest.fixture(scope="module")
def data():
    return measured()


@pytest.mark.parametrize(
    "solver",
    [
        gn.Native(),
        gn.FixedGrid(),
        pytest.param(gn.Adaptive(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow),
        gn.NativeStiff(),
    ],
)
def test_the_density_is_that_of_an_independent_reference(data, solver):
    problem = gn.bind(chain_of_two(solver=solver), data)
    at = {"k": 0.7, "a.initial": 4.5, "gain": 2.2}
    u = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in at.items()})
    a, b = path(0.7, 4.5)
    expected = sum(lognorm(1.0).logpdf(at[n]) + np.log(at[n]) for n in ("k", "gain")) + norm(4.0, 1.0).logpdf(4.5)
    scale = {v: np.abs(data.values_of(v)).max() for v in data.variables}
    predictions = {"total": 2.2 * (a + b) + 0.1 * TIMES, "flow": (0.7 * a * 2.2)[::2]}
    for variable, predicted in predictions.items():
        y, std = data.of(variable)[0].values / scale[variable], 0.2 / scale[variable]
        expected += multivariate_normal(predicted / scale[variable], std**2 * np.eye(y.size)).logpdf(y)
    value, gradient, _ = value_and_grad(problem, u)
    tolerance = 1e-4 if isinstance(solver, gn.Native | gn.FixedGrid) else 1e-6  # on a grid that is not refined
    assert float(value) == pytest.approx(expected, rel=tolerance)
    step = 1e-5
    differences = [
        float(log_density(problem, u.at[i].add(step))[0] - log_density(problem, u.at[i].add(-step))[0]) / (2 * step)
        for i in range(problem.size)
    ]
    assert np.allclose(gradient, differences, rtol=1e-5, atol=1e-4)


def test_slopes_of_residuals_are_their_derivatives(data):
    assert_slopes_are_derivatives(gn.bind(chain_of_two(transform={"total": gn.Log()}), data))


@pytest.mark.slow
def test_draws_agree_with_quadrature(data):
    """Only the product of gain and start is seen: a posterior like a hyperbola, whose means are found on a grid."""
    ks, products, starts = np.linspace(0.7, 0.9, 41), np.linspace(9.6, 11.4, 61), np.linspace(0.2, 9.0, 300)
    total, flow = (data.of(v)[0].values for v in ("total", "flow"))
    logs = np.zeros((ks.size, products.size))
    for i, k in enumerate(ks):
        a, b = path(k, 1.0)
        for j, product in enumerate(products):
            misfit = np.sum((total - product * (a + b) - 0.1 * TIMES) ** 2)
            misfit += np.sum((flow - (k * a * product)[::2]) ** 2)
            logs[i, j] = -0.5 * misfit / 0.2**2 + lognorm(1.0).logpdf(k)
    of_product = np.exp(logs - logs.max()).sum(axis=0)[:, None]
    gains = products[:, None] / starts
    weights = of_product * norm(4.0, 1.0).pdf(starts) * lognorm(1.0).pdf(gains) / starts
    weights /= weights.sum()
    found = gn.fit(chain_of_two(), data, method=gn.Lifted(draws=1500), progress=False).summary()
    for name, values in (("gain", gains), ("a.initial", starts)):
        mean = float((weights * values).sum())
        sd = float(np.sqrt((weights * (values - mean) ** 2).sum()))
        assert abs(found.loc[name, "mean"] - mean) < 4.5 * sd / np.sqrt(found.loc[name, "ess_bulk"])
        assert found.loc[name, "sd"] == pytest.approx(sd, rel=0.1)


def test_results_speak_of_what_was_measured(data, tmp_path):
    model = chain_of_two()
    posterior = gn.fit(model, data, method=gn.Laplace(draws=300), progress=False)
    written = str(posterior.equations())
    assert "total = gain*(a + b) + 0.1*t" in written
    assert "gain =" in written
    ahead = gn.forecast(posterior, [0.0, 3.0, 8.0])
    assert list(ahead.states["state"].to_numpy()) == ["a", "b", "total", "flow"]
    paths = {name: ahead.ode.sel(state=name).to_numpy() for name in ("a", "b", "total")}
    gains = (paths["total"] - 0.1 * ahead.times) / (paths["a"] + paths["b"])  # one for each draw, at all times
    assert np.ptp(gains, axis=1).max() < 1e-6
    assert np.isin(np.round(gains[:, 0], 6), np.round(posterior.draws["gain"].to_numpy().ravel(), 6)).all()
    assert {"total explained", "flow explained"} < {check.name for check in posterior.diagnose().checks}
    posterior.save(tmp_path / "two.nc")
    assert gn.Posterior.load(tmp_path / "two.nc", chain_of_two()).num_draws == 300
    other = gn.Model(
        model.dynamics, initial=model.initial, observables={**model.observables, "flow": lambda t, x, p: x.a}
    )
    with pytest.raises(gn.ModelError, match="another model"):
        gn.Posterior.load(tmp_path / "two.nc", other)


def test_simulations_measure_what_the_model_says(data):
    model = chain_of_two()
    simulations, _ = gn.simulate(model, data, 3, times=[1.0, 4.0])
    for simulation in simulations:
        truth = {name: float(value) for name, value in simulation.truth.items()}
        a, b = path(truth["k"], truth["a.initial"])
        expected = truth["gain"] * (a + b) + 0.1 * TIMES
        assert np.abs(simulation.data.of("total")[0].values - expected).max() < 5 * 0.2
        assert simulation.states.shape == (2, 4)


@pytest.mark.parametrize(
    ("observables", "words"),
    [
        ({"total": lambda t, x, p: p.gain * x.a}, "unknown name: there is no 'gain'"),
        ({"total": lambda t, x, p: jnp.stack([x.a, x.b])}, "must be one number"),
        ({"total": gn.Observable(lambda t, x, p: x.a, {"gain": gn.LogNormal(0, 1)})}, "never uses 'gain'"),
        ({"total": gn.Observable(lambda t, x, p: p.k * x.a, {"k": gn.LogNormal(0, 1)})}, "has its prior already"),
        ({"total": lambda t, x, p: x.a, "other": lambda t, x, p: x.a}, "'other' has no data"),
        ({}, "how it follows from the states"),
    ],
)
def test_mistakes_are_named(observables, words):
    model = chain_of_two()
    wrong = gn.Model(model.dynamics, initial=model.initial, observables=observables)
    data = gn.Observations({"total": (TIMES, 1.0 + TIMES)})
    with pytest.raises(gn.ModelError, match=words):
        gn.bind(wrong, data)


def test_priors_that_contradict_each_other_are_refused(data):
    model = chain_of_two()
    two = {
        "total": gn.Observable(lambda t, x, p: p.gain * x.a, {"gain": gn.LogNormal(0, 1)}),
        "flow": gn.Observable(lambda t, x, p: p.gain * x.b, {"gain": gn.LogNormal(0, 2)}),
    }
    with pytest.raises(gn.ModelError, match="another prior in 'flow' than elsewhere"):
        gn.bind(gn.Model(model.dynamics, initial=model.initial, observables=two), data)


def test_a_state_is_measured_as_it_is():
    with pytest.raises(gn.ModelError, match="'a' is a state"):
        gn.Model(chain_of_two().dynamics, observables={"a": lambda t, x, p: x.a})
    with pytest.raises(gn.ModelError, match="a function of t, x and p"):
        gn.Model(chain_of_two().dynamics, observables={"total": "a + b"})
