"""Parameters that differ between experiments."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import halfnorm, lognorm, norm

import gpnode as gn
from gpnode.problem.evaluation import log_density
from support.references import assert_gradient_is_its_derivative
from support.slopes import assert_slopes_are_derivatives

SHARED = Path(__file__).parents[4] / "shared" / "data"
TIMES = np.linspace(0.5, 5.0, 8)
RATES = {"p": 0.5, "q": 0.8, "r": 1.1}


def flasks(seed=0):
    rng = np.random.default_rng(seed)
    return gn.Observations.from_experiments(
        {
            name: {"y": (TIMES, 8.0 * np.exp(-k * TIMES) + 0.2 * rng.normal(size=TIMES.size))}
            for name, k in RATES.items()
        },
        start=0.0,
    )


def decay(prior, **settings):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": prior})
    return gn.Model(
        form,
        initial={"x": 4.0},
        kernel=None,
        noise=gn.Noise(std=0.2, relative=False),
        observables={"y": lambda t, x, p: 2.0 * x.x + 0.0 * p.k},
        scales={"x": 4.0},
        **settings,
    )


ARRAY_CODE = pytest.param(gn.Adaptive(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow)
SOLVERS = [gn.Native(), ARRAY_CODE]
POPULATIONS = {
    "positive": gn.Population(gn.LogNormal(-0.3, 0.7), gn.HalfNormal(0.5)),
    "real": gn.Population(gn.Normal(0.7, 0.5), gn.HalfNormal(0.4)),
}


def assert_likelihood(problem, u, ks, data):
    """Of flasks whose rates are ``ks``, and its gradient."""
    scale = np.abs(data.values_of("y")).max()
    likelihood = sum(
        norm(8.0 * np.exp(-k * TIMES) / scale, 0.2 / scale).logpdf(series.values / scale).sum()
        for k, series in zip(ks, data.series, strict=True)
    )
    assert float(log_density(problem, u)[0] - problem.log_prior(u)) == pytest.approx(likelihood, rel=1e-4)
    assert_gradient_is_its_derivative(problem, u)


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_density_is_that_of_an_independent_reference(name, solver):
    """Without the Jacobian of the individuals, or with one value for all, it would be another."""
    data = flasks()
    problem = gn.bind(decay(POPULATIONS[name], solver=solver), data)
    ks, typical, spread = np.array([0.45, 0.9, 1.2]), 0.7, 0.35
    values = {"k": jnp.asarray(ks), "k.typical": jnp.asarray(typical), "k.spread": jnp.asarray(spread)}
    u = problem.layout.unconstrain(values)
    expected = halfnorm(scale=0.5 if name == "positive" else 0.4).logpdf(spread)
    if name == "positive":
        expected += (
            lognorm(0.7, scale=np.exp(-0.3)).logpdf(typical) + norm(np.log(typical), spread).logpdf(np.log(ks)).sum()
        )
        expected -= np.log(ks).sum()
    else:
        expected += norm(0.7, 0.5).logpdf(typical) + norm(typical, spread).logpdf(ks).sum()
    _, log_jacobian = problem.layout.constrain(u)
    assert float(problem.log_prior(u) - log_jacobian) == pytest.approx(expected, rel=1e-9)
    assert_likelihood(problem, u, ks, data)


@pytest.mark.parametrize("solver", SOLVERS)
def test_values_of_their_own_have_the_density_of_an_independent_reference(solver):
    data = flasks()
    problem = gn.bind(decay(gn.Each(gn.LogNormal(-0.3, 0.7)), solver=solver), data)
    ks = np.array([0.45, 0.9, 1.2])
    u = problem.layout.unconstrain({"k": jnp.asarray(ks)})
    _, log_jacobian = problem.layout.constrain(u)
    expected = lognorm(0.7, scale=np.exp(-0.3)).logpdf(ks).sum()
    assert float(problem.log_prior(u) - log_jacobian) == pytest.approx(expected, rel=1e-9)
    assert_likelihood(problem, u, ks, data)


@pytest.mark.slow
def test_values_of_their_own_are_those_of_separate_fits():
    data, model = flasks(), decay(gn.Each(gn.LogNormal(-0.3, 0.7)))
    together = gn.fit(model, data, seed=0, progress=False)
    assert together.diagnose().converged
    for name in RATES:
        series = next(s for s in data.series if s.experiment == name)
        alone = gn.Observations({"y": (series.times, series.values)}, start=0.0)
        apart = gn.fit(decay(gn.LogNormal(-0.3, 0.7)), alone, seed=0, progress=False).draws["k"]
        own = together.draws["k"].sel(experiment=name)
        assert float(own.mean()) == pytest.approx(float(apart.mean()), abs=0.2 * float(apart.std()))
        assert float(own.std()) == pytest.approx(float(apart.std()), rel=0.15)


@pytest.mark.slow
def test_a_new_individual_is_as_far_from_typical_as_the_population_is_wide():
    posterior = gn.fit(decay(POPULATIONS["positive"]), flasks(), seed=0, progress=False)
    ahead = gn.forecast(posterior, [2.0], new_individual=True, max_draws=4000)
    rates = -np.log(ahead.ode.sel(state="x").to_numpy()[:, 0] / 4.0) / 2.0
    draws = posterior.draws
    expected = np.sqrt(float(np.log(draws["k.typical"]).var()) + float((draws["k.spread"] ** 2).mean()))
    assert np.std(np.log(rates)) == pytest.approx(expected, rel=0.1)
    one = gn.Observations({"y": (TIMES, 8.0 * np.exp(-0.5 * TIMES))})
    fitted = gn.fit(decay(gn.LogNormal(0, 1)), one, method=gn.Laplace(draws=50), progress=False)
    with pytest.raises(gn.ModelError, match="no new individual"):
        gn.forecast(fitted, [1.0], new_individual=True)


def test_slopes_of_residuals_are_their_derivatives():
    assert_slopes_are_derivatives(gn.bind(decay(POPULATIONS["positive"]), flasks()))


@pytest.mark.slow
def test_a_fit_tells_individuals_apart():
    posterior = gn.fit(decay(POPULATIONS["positive"]), flasks(), method=gn.Lifted(draws=400), progress=False)
    individuals = posterior.draws["k"]
    assert individuals.dims == ("chain", "draw", "experiment")
    for name, truth in RATES.items():
        one = individuals.sel(experiment=name)
        assert abs(float(one.mean()) - truth) < 4 * float(one.std())
    written = str(posterior.equations())
    assert "k.typical =" in written
    assert "k.spread" in written
    slow, fast = (gn.forecast(posterior, [3.0], experiment=name).mean().sel(state="y") for name in ("p", "r"))
    assert float(slow[0]) == pytest.approx(8.0 * np.exp(-1.5), rel=0.15)
    assert float(fast[0]) == pytest.approx(8.0 * np.exp(-3.3), rel=0.3)


def test_simulated_individuals_have_the_spread_they_should():
    simulations, _ = gn.simulate(decay(POPULATIONS["positive"]), flasks(), 200)
    scores = [(np.log(s.truth["k"]) - np.log(s.truth["k.typical"])) / s.truth["k.spread"] for s in simulations]
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=0.25)


def test_bad_populations_are_refused():
    with pytest.raises(gn.ModelError, match="typical of a population must be a prior"):
        gn.Population(0.3)
    with pytest.raises(gn.ModelError, match="spread of a population must be positive"):
        gn.Population(gn.LogNormal(0, 1), gn.Normal(0, 1))
    one = gn.Observations({"y": (TIMES, 8.0 * np.exp(-0.5 * TIMES))})
    with pytest.raises(gn.ModelError, match="one experiment says nothing"):
        gn.bind(decay(POPULATIONS["positive"]), one)


def test_problem_files_have_populations(tmp_path):
    from gpnode.formats.problem_toml import read_problem

    rows = [f"{name},{t},{8 * np.exp(-k * t):.4f}" for name, k in RATES.items() for t in TIMES]
    (tmp_path / "data.csv").write_text("flask,time,x\n" + "\n".join(rows) + "\n")
    (tmp_path / "problem.toml").write_text(
        '[data]\nfile = "data.csv"\n[model]\nequations = ["dx/dt = -k*x"]\n[parameters]\n'
        'k = { typical = "LogNormal(0, 1)", spread = "HalfNormal(0.5)" }\n'
    )
    problem = read_problem(tmp_path / "problem.toml")
    assert gn.bind(problem.model, problem.data).populations[0].count == 3
    (tmp_path / "problem.toml").write_text(
        '[data]\nfile = "data.csv"\n[model]\nequations = ["dx/dt = -k*x"]\n[parameters]\nk = { centre = 1.0 }\n'
    )
    with pytest.raises(gn.ModelError, match="centre"):
        read_problem(tmp_path / "problem.toml")


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "theophylline").exists(), reason="needs the shared data set theophylline")
def test_theophylline_has_the_posterior_of_its_closed_form():
    table = pd.read_csv(SHARED / "theophylline" / "theophylline.csv")
    reference = json.loads((SHARED / "reference" / "theophylline.json").read_text())["summary"]
    table, doses = table[table.time_h > 0], table.groupby("subject").dose_mg_per_kg.first()
    data = gn.Observations.from_experiments(
        {str(s): {"conc": (rows.time_h, rows.conc_mg_per_l)} for s, rows in table.groupby("subject")}, start=0.0
    ).with_experiments({str(s): gn.Experiment(doses=[gn.Dose("gut", float(dose))]) for s, dose in doses.items()})
    spread = gn.HalfNormal(0.5)
    form = gn.KnownForm(
        ["gut", "body"],
        lambda t, x, p: {"gut": -p.ka * x.gut, "body": p.ka * x.gut - p.cl / p.v * x.body},
        {
            "cl": gn.Population(gn.LogNormal(-3.2, 1.0), spread),
            "v": gn.Population(gn.LogNormal(-0.8, 0.3), spread),
            "ka": gn.Population(gn.LogNormal(0.5, 0.5), spread),
        },
    )
    model = gn.Model(
        form,
        initial={"gut": 0.0, "body": 0.0},
        kernel=None,
        noise=gn.Noise(std=gn.HalfNormal(1.0), relative=False),
        observables={"conc": lambda t, x, p: x.body / p.v},
        scales={"body": float(doses.mean())},
    )
    posterior = gn.fit(model, data, progress=False)
    assert posterior.diagnose().recommended, str(posterior.diagnose())
    draws = {f"log_{n}": np.log(posterior.draws[f"{n}.typical"]) for n in ("cl", "v", "ka")}
    draws |= {f"omega[{i}]": posterior.draws[f"{n}.spread"] for i, n in enumerate(("cl", "v", "ka"))}
    draws["sigma"] = posterior.draws["conc.noise_std"]
    for name, values in draws.items():
        known, found = reference[name], values.to_numpy()
        error = np.hypot(found.std() / np.sqrt(400.0), known["mcse_mean"])
        assert abs(found.mean() - known["mean"]) < 4 * error, name
        assert found.std() == pytest.approx(known["sd"], rel=0.1), name
