"""Doses after a delay that is inferred, against a closed form."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import lognorm, norm

import gpnode as gn
from gpnode.problem.evaluation import log_density, value_and_grad
from support.references import assert_density_is
from support.slopes import assert_slopes_are_derivatives

TIMES = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 6.2, 7.0, 8.0])
DOSES = {0.0: 4.0, 5.0: 2.0}  # the second is given on time


def level(ka, ke, lag, times=TIMES):
    def after(amount, t):
        t = np.maximum(t, 0.0)
        return amount * ka / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t))

    return 1.5 * np.exp(-ke * times) + after(4.0, times - lag) + after(2.0, times - 5.0)


def model(**settings):
    form = gn.KnownForm(
        ["gut", "blood"],
        lambda t, x, p: {"gut": -p.ka * x.gut, "blood": p.ka * x.gut - p.ke * x.blood},
        {"ka": gn.LogNormal(0.5, 0.5), "ke": gn.LogNormal(-1.0, 0.5), "lag": gn.LogNormal(-0.3, 0.5)},
        delays=["lag"],
    )
    initial = {"gut": 0.0, "blood": 1.5}
    usual = {"solver": gn.Native(tolerance=1e-10), "initial": initial, "kernel": None, "noise": gn.Noise(std=0.03)}
    return gn.Model(form, **(usual | settings))


def observed(lag=0.8):
    values = level(1.8, 0.3, lag) + 0.08 * np.random.default_rng(0).normal(size=TIMES.size)
    doses = [gn.Dose("gut", 4.0, delay="lag"), gn.Dose("gut", 2.0, time=5.0)]
    return gn.Observations({"blood": (TIMES, values)}, start=0.0).with_experiments(gn.Experiment(doses=doses))


POINT = {"ka": 1.6, "ke": 0.35, "lag": 0.83}
PRIORS = {"ka": (0.5, 0.5), "ke": (-1.0, 0.5), "lag": (-0.3, 0.5)}


@pytest.mark.parametrize(
    "solver",
    [
        gn.Native(tolerance=1e-10),
        pytest.param(gn.NativeStiff(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow),
        pytest.param(gn.Adaptive(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("lag", [0.83, 1.2, 9.0])  # before a measurement, after one, after all
def test_density_and_gradient_are_those_of_the_closed_form(solver, lag):
    data = observed()
    problem = gn.bind(model(solver=solver), data)
    point = POINT | {"lag": lag}
    y, scale = data.values_of("blood"), np.abs(data.values_of("blood")).max()

    def reference(point):
        likelihood = norm(level(**point) / scale, 0.03).logpdf(y / scale).sum()
        return likelihood + sum(lognorm(s, scale=np.exp(c)).logpdf(point[n]) for n, (c, s) in PRIORS.items())

    assert_density_is(problem, point, reference)


@pytest.mark.slow
def test_slopes_of_residuals_are_their_derivatives():
    assert_slopes_are_derivatives(gn.bind(model(), observed()))


@pytest.mark.slow
def test_second_derivatives_of_a_late_jump_are_exact():
    """The derivative of the derivative by the delay, against differences."""
    problem = gn.bind(model(), observed())
    u = problem.layout.unconstrain({n: jnp.asarray(v) for n, v in POINT.items()})

    def gradient(u):
        return value_and_grad(problem, u)[1]

    step = 1e-5
    ahead, behind = (gradient(u.at[2].add(s)) for s in (step, -step))
    second = [
        (
            float(log_density(problem, u.at[2].add(2e-3))[0])
            - 2 * float(log_density(problem, u)[0])
            + float(log_density(problem, u.at[2].add(-2e-3))[0])
        )
        / 4e-6
    ]
    assert float((ahead - behind)[2]) / (2 * step) == pytest.approx(second[0], rel=1e-3)


@pytest.mark.slow
def test_forecasts_and_simulations_are_late_too():
    posterior = gn.fit(model(), observed(), method=gn.Laplace(draws=100), progress=False)
    early = gn.forecast(posterior, [0.1, 0.3, 6.0])
    assert np.allclose(early.mean().sel(state="blood")[:2], 1.5 * np.exp(-0.3 * np.array([0.1, 0.3])), rtol=0.05)
    simulations, _ = gn.simulate(model(noise=gn.Noise(std=1e-7)), observed(), 4)
    for simulation in simulations:
        truth = {n: float(simulation.truth[n]) for n in POINT}
        assert np.allclose(simulation.data.values_of("blood"), level(**truth), atol=1e-4)


@pytest.mark.slow
def test_a_fit_finds_the_delay():
    posterior = gn.fit(model(noise=gn.Noise(std=gn.HalfNormal(0.1))), observed(), seed=0, progress=False)
    assert posterior.diagnose().converged, str(posterior.diagnose())
    table = posterior.summary()
    assert table.loc["lag", "2.5%"] < 0.8 < table.loc["lag", "97.5%"]


def test_delays_that_the_model_does_not_know_are_refused():
    late = gn.Experiment(doses=[gn.Dose("gut", 4.0, delay="pause")])
    with pytest.raises(gn.ModelError, match="later by 'pause', which is no delay of the model"):
        gn.bind(model(), observed().with_experiments(late))
    with pytest.raises(gn.ModelError, match="'pause' has no prior"):
        gn.KnownForm(["x"], lambda t, x, p: {"x": -x.x}, {}, delays=["pause"])
    with pytest.raises(gn.DataError, match="cannot be delayed"):
        gn.Dose("gut", 4.0, duration=1.0, delay="lag")
