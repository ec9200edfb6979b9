"""Forecasts, audits, equations and figures against closed forms."""

from __future__ import annotations

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy
import xarray as xr

import gpnode as gn
from gpnode.inference.stopping import statistics as convergence
from gpnode.model.observation import kernels
from gpnode.results.comparison import pointwise_log_density
from gpnode.results.diagnostics.audit import process_shares, widths_against_prior
from gpnode.studies import glycolysis, human_motion, predator_prey, results
from gpnode.tracing import formulas as symbolic

plt.switch_backend("Agg")

RATE, NOISE, SD = 0.4, 0.05, 1.5


def decay(t, x, p):
    return {"x": -RATE * x.x}


@pytest.fixture(scope="module")
def linear():
    """x' = -0.4 x with an unknown start: the posterior of the start is normal, in closed form."""
    rng = np.random.default_rng(5)
    times = np.linspace(0.2, 5.0, 14)
    values = 2.0 * np.exp(-RATE * times) + 0.1 * rng.normal(size=times.size)
    scale = np.abs(values).max()
    data = gn.Observations({"x": (times, values)}, start=0.0)
    model = gn.Model(
        gn.KnownForm(["x"], decay, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=kernels.SquaredExponential(variance=0.01, length_scale=0.3),
        noise=gn.Noise(std=NOISE),
    )
    posterior = gn.fit(model, data, method=gn.Laplace(draws=4000), progress=False)
    span = times[-1]  # the record runs from the start to the last measurement

    def kernel(a, b):
        return 0.01 * scale**2 * np.exp(-0.5 * ((a[:, None] - b[None]) / (0.3 * span)) ** 2)

    design = np.exp(-RATE * times)
    cov = kernel(times, times) + (NOISE * scale) ** 2 * np.eye(times.size)
    return posterior, times, values, design, cov, kernel


def test_linear_posterior_is_the_normal_one(linear):
    posterior, _, values, design, cov, _ = linear
    weights = np.linalg.solve(cov, design)
    precision = design @ weights + 1.0 / SD**2
    mean = (weights @ values + 1.0 / SD**2) / precision
    draws = posterior.draws["x.initial"].to_numpy()
    assert posterior.diagnose().converged
    assert draws.mean() == pytest.approx(mean, abs=4.0 / np.sqrt(precision * draws.size))
    assert draws.std() == pytest.approx(1.0 / np.sqrt(precision), rel=0.05)


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


def paths_of(values: np.ndarray) -> gn.Forecast:
    """A forecast with the given draws (draw, time) of one state."""
    states = xr.DataArray(values[:, :, None], dims=("draw", "time", "state"), coords={"state": ["x"]})
    states = states.assign_coords(time=np.arange(float(values.shape[1])))
    return gn.Forecast(states, states, states, states[0], 0, "run")


def walks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Skewed paths (count, 40) that begin together."""
    steps = rng.normal(size=(count, 40))
    steps[:, 0] = 0.0
    return np.exp(0.1 * np.cumsum(steps, axis=1))


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


def test_coverage_counts_times_inside_and_says_what_to_expect():
    rng = np.random.default_rng(2)
    paths = paths_of(walks(rng, 2000))
    low, high = (end.to_numpy() for end in paths.interval())
    half = np.where(np.arange(40)[:, None] < 20, 0.5 * (low + high), high + 1e-6)
    found = results.coverage(paths, half)
    assert found["pointwise"]["x"] == pytest.approx(20 / 40)
    assert found["whole_path"]["x"] == 1.0
    one_by_one = [results.coverage(paths, path[:, None])["pointwise"]["x"] < 0.9 for path in walks(rng, 300)]
    chance = found["chance_below_90"]["x"]
    assert np.mean(one_by_one) == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / 300))
    together = results.over_data_sets([found, results.coverage(paths, 0.5 * (low + high))])
    assert (together["least_pointwise"]["x"], together["mean_pointwise"]["x"]) == (0.5, 0.75)
    assert (together["cases"], together["cases_below_90"]) == (2, 1)
    assert together["expected_below_90"] == pytest.approx(2 * chance)


def test_rows_are_columns_of_text():
    text = results.columns([{"who": "a", "x1": "0.1"}, {"who": "longer", "x1": "inf"}])
    assert text.splitlines() == ["who      x1", "a       0.1", "longer  inf"]
    assert results.columns([{"seen whitenings": "all", "x1": "0.1"}]).splitlines() == [
        "seen whitenings   x1",
        "all          0.1",
    ]


@pytest.mark.parametrize(
    "sindy", ["pysindy is not installed", [{"case": "case 1", "variant": "plain", "rmse": [9.0, 8.0]}]]
)
def test_the_table_of_predator_and_prey_sets_errors_side_by_side(sindy):
    held = {"pointwise": {"x1": 0.79, "x2": 1.0}, "whole_path": {"x1": 1.0, "x2": 0.5}}
    run = {"seed": 3, "rmse_mean_path_0_30": [0.25, 0.5], "coverage_95_0_30": held, "sindy": sindy}
    summary = {"median_rmse_mean_path": [0.125, 0.75], "sindy_case_1_median_rmse": {"plain": [7.0, 6.0]}}
    one, two = (predator_prey._table({"runs": [run] * n, "summary": summary}) for n in (1, 2))
    rows = [line.split() for line in one.splitlines()]
    assert ["gpnode,", "mean", "path", "0.250", "0.500"] in rows
    assert ["data", "3,", "x1", "79%", "100%"] in rows
    assert ["data", "3,", "x2", "100%", "50%"] in rows
    shown = "pysindy is not installed" if isinstance(sindy, str) else "SINDy, case 1, plain 9.000 8.000"
    assert shown in [" ".join(row) for row in rows]
    assert "median" not in one
    assert ["SINDy,", "case", "1,", "plain", "7.000", "6.000"] in [line.split() for line in two.splitlines()]


def test_the_table_of_glycolysis_names_values_that_are_not_inside():
    held = {"pointwise": {"S1": 1.0, "N2": 0.85}, "whole_path": {"S1": 1.0, "N2": 1.0}}
    ahead = {"coverage_95": held, "rmse_mean_path": {"S1": 0.02, "N2": 0.03}}
    run = {"seed": 0, "true_values_inside_95": {"J0": True, "k1": False}, **dict.fromkeys(glycolysis.STARTS, ahead)}
    rows = [line.split() for line in glycolysis._table([run]).splitlines()]
    assert ["data", "0", "1", "of", "2", "k1"] in rows
    assert ["data", "0,", "unseen", "start,", "N2", "85%", "100%", "0.0300"] in rows


def test_the_table_of_human_motion_has_a_row_for_each_mode():
    def figures(mean_path):
        return {
            "rmse_per_draw": {"mean": 4.5, "std": 0.6},
            "rmse_mean_path": mean_path,
            "rmse_ode_alone": 4.25,
            "coverage_95_with_noise": 0.8667,
            "coverage_95_whole_path_with_noise": 1.0,
        }

    modes = [{"weight": w, "seen": figures(3.1 + w), "missing": figures(3.8 + w)} for w in (0.75, 0.25)]
    text = human_motion._table({"all": {"seen": figures(3.1), "missing": figures(3.8)}, "modes": modes})
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "all draws 4.50 ± 0.60 3.800 4.250 87% 100%" in rows
    assert "mode 2, 25.0% of the draws 4.50 ± 0.60 4.050 4.250 87% 100%" in rows
    assert sum(row.startswith("mode") for row in rows) == 4


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


# -- audits ------------------------------------------------------------------------------------


def test_the_process_takes_over_where_equations_are_wrong(linear):
    right = process_shares(linear[0])["x"]
    assert right.ode > 0.9
    assert right.process < 0.05
    wrong = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": 0.0 * x.x}, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=kernels.SquaredExponential(variance=0.5, length_scale=0.5),
        noise=gn.Noise(std=NOISE),
    )
    fitted = gn.fit(wrong, linear[0].data, method=gn.Laplace(draws=200), progress=False)
    found = process_shares(fitted)["x"]
    assert found.process > 0.5
    assert found.ode + found.process + found.noise == pytest.approx(1.0, abs=0.1)
    remark = next(c for c in fitted.diagnose().checks if c.name == "Gaussian process")
    assert remark.passed is None
    assert "of the variation of x" in remark.finding


def test_numbers_the_data_say_nothing_about_are_named(linear):
    model = gn.Model(
        gn.KnownForm(
            ["x"],
            lambda t, x, p: {"x": -p.rate * x.x + 0.0 * p.idle},
            {
                "rate": gn.LogNormal(-1.0, 1.0),
                "idle": gn.Normal(0.0, 1.0),
            },
        ),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=None,
    )
    fitted = gn.fit(model, linear[0].data, method=gn.Laplace(draws=2000), progress=False)
    widths = widths_against_prior(fitted)
    assert widths["idle"] == pytest.approx(1.0, abs=0.15)
    assert widths["rate"] < 0.5
    remark = next(c for c in fitted.diagnose().checks if c.name == "not informed by the data")
    assert remark.finding.startswith("idle:")


def test_geweke_scores_are_standard_normal_for_settled_chains_and_large_for_drifting_ones():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 2000))
    slow = np.empty_like(noise)  # a first-order autoregression that needs eleven draws to forget
    slow[:, 0] = noise[:, 0]
    for i in range(1, 2000):
        slow[:, i] = 0.8 * slow[:, i - 1] + 0.6 * noise[:, i]
    for climbed in (noise, slow):
        scores = convergence.geweke(climbed)
        assert scores.shape == (40, 20)
        assert 0.7 < scores.std() < 1.3
    assert np.mean(np.abs(convergence.geweke(noise + np.linspace(0.0, 3.0, 2000))) > 2) > 0.8
    assert np.isnan(convergence.geweke(np.ones((2, 1000)))).all()


def test_classic_statistics():
    rng = np.random.default_rng(1)
    chains = rng.normal(size=(4, 1000))
    assert convergence.gelman_rubin(chains) < 1.01
    assert convergence.gelman_rubin(chains + np.arange(4)[:, None]) > 1.3
    lags = convergence.autocorrelation(chains, 5)
    assert lags.shape == (4, 6)
    assert np.allclose(lags[:, 0], 1.0)
    assert np.abs(lags[:, 1:]).max() < 0.15
    assert convergence.e_bfmi(chains) == pytest.approx(2.0, rel=0.15)
    assert convergence.e_bfmi(np.cumsum(chains, axis=1)) < 0.1


# -- equations ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(decay_data):
    """A dictionary and a known part together, with a term of the user's own."""
    library = gn.polynomial(1, constant=False) + gn.term("x/(1+x^2)", lambda x: x.x / (1.0 + x.x**2))
    model = gn.Model(
        gn.Sum(
            known=gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * jnp.exp(-0.1 * t)}, {"k": gn.Normal(0.0, 0.1)}),
            free=gn.Dictionary(["x", "y"], library),
        ),
        initial={"y": 0.0},
        kernel=None,
    )
    return gn.fit(model, decay_data, method=gn.Laplace(draws=400), progress=False)


def test_equations_in_every_form_agree_with_the_vector_field(found):
    equations = found.equations()
    mean = {n: found.draws[n].mean(("chain", "draw")).to_numpy() for n in ("known.k", "free.coef")}
    t, x = 1.3, np.array([0.7, -2.0])
    features = np.array([x[0], x[1], x[0] / (1.0 + x[0] ** 2)])
    want = mean["free.coef"] @ features + np.array([-mean["known.k"] * np.exp(-0.13), 0.0])
    assert np.allclose(equations.function(all_terms=True)(t, x), want, rtol=1e-9)
    space: dict = {}
    exec(equations.python(all_terms=True), space)  # our own output
    assert np.allclose(space["slopes"](t, x), want, rtol=1e-9)
    values = {"t": t, "x": x[0], "y": x[1], "known.k": float(mean["known.k"])}
    symbols = {sympy.Symbol(n): v for n, v in values.items()}
    assert float(equations.expressions(all_terms=True)["x"].subs(symbols)) == pytest.approx(want[0], rel=1e-9)
    latex = equations.latex()
    assert latex.startswith("\\begin{aligned}")
    assert "\\frac{d x}{dt}" in latex
    assert latex.count("\\\\") == 2  # three lines: two equations and one parameter


def test_forms_are_the_frequencies_of_sets_of_active_terms(found):
    for equation in found.equations().equations:
        assert sum(f.probability for f in equation.forms) <= 1.0 + 1e-12
        assert [f.probability for f in equation.forms] == sorted((f.probability for f in equation.forms), reverse=True)
        if sum(f.probability for f in equation.forms) > 1 - 1e-9:  # all forms are listed
            for term in equation.terms:
                total = sum(f.probability for f in equation.forms if term.term in f.terms)
                assert total == pytest.approx(term.probability)


def test_functions_without_a_formula_are_refused_by_name():
    with pytest.raises(symbolic.NoExpression):
        symbolic.formulas(lambda x: [jnp.sort(jnp.stack([x, 1.0]))[0]], [sympy.Symbol("x")])


# -- figures: that they show what they should ------------------------------------------------------


def test_figures_draw_on_given_axes_and_show_every_item(found, linear):
    chains = gn.fit(
        gn.Model(
            gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)}),
            initial={"x": gn.Normal(1.0, SD)},
            kernel=None,
        ),
        linear[0].data,
        method=gn.Lifted(draws=100, warmup=40, chains=2),
        progress=False,
    )
    names = ["k", "x.initial", "x.noise_std"]
    _, ax = plt.subplots()
    assert gn.plots.geweke(chains, names, ax=ax) is ax
    assert [t.get_text() for t in ax.get_legend().get_texts()] == names
    ax = gn.plots.autocorrelation(chains, names, lags=10)
    assert [line.get_ydata()[0] for line in ax.lines[1:]] == pytest.approx([1.0, 1.0, 1.0])
    axes = gn.plots.traces(chains, names)
    assert len(axes) == 6
    assert sum(line.get_ydata().size == 100 for line in axes[0].lines) == 2
    with pytest.raises(KeyError, match="no 'z'"):
        gn.plots.traces(chains, ["z"])
    ax = gn.plots.residuals(linear[0])[0]
    series = linear[0].data.series[0]
    expected = series.values - gn.forecast(linear[0], series.times, max_draws=200).ode.mean("draw").to_numpy()[:, 0]
    assert np.allclose(ax.lines[1].get_ydata(), expected)
    ax = gn.plots.phase_portrait(found, "x", "y")
    assert ax.get_xlabel() == "x"
    ax = gn.plots.inclusion(found)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "x/(1+x^2)"]
    shown = [float(t.get_text()) for t in ax.texts]
    wanted = [t.probability for e in found.equations().equations for t in e.terms]
    assert shown == pytest.approx(wanted, abs=0.006)
    assert len(gn.plots.parameters(chains, ["k"])) == 1
    plt.close("all")


def test_gaps_and_forecasts_are_shaded():
    t = np.concatenate([np.linspace(0.0, 2.0, 9), np.linspace(5.0, 7.0, 9)])
    model = gn.Model(gn.KnownForm(["x"], decay, {}), initial={"x": gn.Normal(1.0, SD)}, kernel=None)
    data = gn.Observations({"x": (t, 2.0 * np.exp(-RATE * t) + 0.01 * np.sin(40 * t))})
    fitted = gn.fit(model, data, method=gn.Laplace(draws=50), progress=False)
    ax = gn.plots.paths(gn.forecast(fitted, np.linspace(0.0, 9.0, 30)), data)[0]
    spans = {p.get_label(): p.get_extents() for p in ax.patches}
    assert set(spans) == {"gap", "forecast"}
    plt.close("all")
