"""Noise that is not normal: outliers and counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import log_density, value_and_grad

TIMES = np.linspace(0.0, 4.0, 20)


def decay(noise, **settings):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    return gn.Model(form, initial={"x": 50.0}, noise=noise, **settings)


def path(rate):
    return 50.0 * np.exp(-rate * TIMES)


def negative_binomial(mean, dispersion):
    return scipy.stats.nbinom(1.0 / dispersion, 1.0 / (1.0 + dispersion * mean))


FAMILIES = {
    "poisson": (gn.PoissonNoise(), {}, lambda mean, p: scipy.stats.poisson(mean)),
    "negative binomial": (
        gn.NegativeBinomialNoise(gn.HalfNormal(1.0)),
        {"x.noise_dispersion": 0.3},
        lambda mean, p: negative_binomial(mean, p["x.noise_dispersion"]),
    ),
    "known dispersion": (gn.NegativeBinomialNoise(0.2), {}, lambda mean, p: negative_binomial(mean, 0.2)),
    "student": (
        gn.StudentNoise(std=gn.HalfNormal(5.0), df=gn.Gamma(4.0, 1.0), relative=False),
        {"x.noise_scale": 3.0, "x.noise_df": 5.0},
        lambda mean, p: scipy.stats.t(p["x.noise_df"], mean, p["x.noise_scale"]),
    ),
    "laplace": (
        gn.LaplaceNoise(std=gn.HalfNormal(5.0), relative=False),
        {"x.noise_std": 3.0},
        lambda mean, p: scipy.stats.laplace(mean, p["x.noise_std"] / np.sqrt(2.0)),
    ),
    "laplace, relative": (
        gn.LaplaceNoise(std=0.1),
        {},
        lambda mean, p: scipy.stats.laplace(mean, 0.1 * p["scale"] / np.sqrt(2.0)),
    ),
    "binomial": (gn.BinomialNoise(60), {}, lambda mean, p: scipy.stats.binom(60, mean / 60)),
    "student, relative": (gn.StudentNoise(std=0.1), {}, lambda mean, p: scipy.stats.t(4.0, mean, 0.1 * p["scale"])),
}


def measured(name, seed=0):
    _, parameters, family = FAMILIES[name]
    parameters = {"scale": 50.0, **parameters}
    values = family(path(0.7), parameters).rvs(random_state=np.random.default_rng(seed))
    return gn.Observations({"x": (TIMES, np.asarray(values, dtype=float))})


@pytest.mark.parametrize("name", FAMILIES)
def test_density_gradient_and_places_are_those_of_scipy(name):
    noise, parameters, family = FAMILIES[name]
    data = measured(name)
    problem = gn.bind(decay(noise), data)
    y = data.of("x")[0].values
    scale = np.abs(y).max()
    known = {"rate": 0.7, **parameters}
    u = problem.layout.unconstrain({n: jnp.asarray(v) for n, v in known.items()})
    reference = family(path(0.7), {**parameters, "scale": scale})
    logs = reference.logpmf(y) if hasattr(reference.dist, "logpmf") else reference.logpdf(y)
    values, observable, block = problem.constrain(u), problem.observables[0], problem.measured[0]
    residual = jnp.asarray((y - path(0.7)) / scale)  # of the exact path
    density = float(observable.log_density(values, block, residual))
    assert density == pytest.approx(np.sum(logs) + y.size * np.log(scale), rel=1e-8)
    value, gradient, _ = value_and_grad(problem, u)
    assert float(value - problem.log_prior(u)) == pytest.approx(density, rel=1e-4)
    step = 1e-6
    differences = [
        float(log_density(problem, u.at[i].add(step))[0] - log_density(problem, u.at[i].add(-step))[0]) / (2 * step)
        for i in range(problem.size)
    ]
    assert np.allclose(gradient, differences, rtol=1e-5, atol=1e-5)
    places = observable.left_out(values, block, residual).places
    middle = reference.cdf(y) - (0.5 * reference.pmf(y) if hasattr(reference.dist, "pmf") else 0.0)
    assert np.allclose(scipy.stats.norm.cdf(places), middle, atol=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_simulated_measurements_have_the_right_mean_and_spread(name):
    noise, parameters, family = FAMILIES[name]
    problem = gn.bind(decay(noise), measured(name))
    values = {n: jnp.asarray(v) for n, v in {"rate": 0.7, **parameters}.items()}
    observable = problem.observables[0]
    signal = jnp.full(20_000, 12.0) / observable.unit
    drawn = np.asarray(observable.add_noise(values, signal, jax.random.key(0)) * observable.unit)
    reference = family(12.0, {**parameters, "scale": float(observable.unit)})
    assert drawn.mean() == pytest.approx(12.0, abs=5 * reference.std() / np.sqrt(20_000))
    assert np.quantile(drawn, [0.1, 0.9]) == pytest.approx(reference.ppf([0.1, 0.9]), rel=0.05, abs=1.0)


@pytest.mark.slow
def test_counts_are_fitted_by_default_and_their_forecasts_are_counts():
    posterior = gn.fit(decay(gn.PoissonNoise()), measured("poisson", seed=4), progress=False)
    assert posterior.record.method == "nuts"
    assert posterior.diagnose().recommended, str(posterior.diagnose())
    summary = posterior.summary().loc["rate"]
    assert summary["2.5%"] < 0.7 < summary["97.5%"]
    ahead = gn.forecast(posterior, TIMES, noise=True).states.to_numpy()
    assert np.allclose(ahead, np.round(ahead), atol=1e-6)


@pytest.mark.slow
@pytest.mark.slow
def test_outliers_move_a_fit_less():
    y = path(0.7) + np.random.default_rng(0).normal(size=TIMES.size)
    y[[7, 12]] += 25.0
    data = gn.Observations({"x": (TIMES, y)})
    quick = gn.Laplace(draws=500)
    normal = gn.fit(decay(gn.Noise(), kernel=None), data, method=quick, progress=False).summary().loc["rate", "mean"]
    robust = gn.fit(decay(gn.StudentNoise()), data, method=quick, progress=False).summary().loc["rate", "mean"]
    assert abs(robust - 0.7) < 0.3 * abs(normal - 0.7)


@pytest.mark.parametrize(
    ("value", "words"), [(2.5, "is 2.5 at time 0, which is no count"), (-3.0, "is -3 at time 0, which is no count")]
)
def test_what_is_no_count_is_refused(value, words):
    y = np.round(path(0.7))
    y[0] = value
    with pytest.raises(gn.DataError, match=words):
        gn.bind(decay(gn.PoissonNoise()), gn.Observations({"x": (TIMES, y)}))


def test_bad_combinations_are_refused():
    data = measured("poisson")
    with pytest.raises(gn.ModelError, match="no process can be added"):
        gn.bind(decay(gn.PoissonNoise(), kernel={"x": kernels.Matern32()}), data)
    with pytest.raises(gn.ModelError, match="all noise is proportional"):
        gn.bind(decay(gn.PoissonNoise(), transform=gn.Log()), data)
    with pytest.raises(gn.ModelError, match="which Lifted cannot sample"):
        gn.fit(decay(gn.PoissonNoise()), data, method=gn.Lifted(), progress=False)
    with pytest.raises(gn.ModelError, match="must be positive"):
        gn.StudentNoise(df=-1.0)
    with pytest.raises(gn.ModelError, match="must be positive"):
        gn.NegativeBinomialNoise(0.0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('kind = "poisson"', gn.PoissonNoise),
        ('kind = "negative-binomial"\ndispersion = "HalfNormal(0.5)"', gn.NegativeBinomialNoise),
        ('kind = "student"\ndf = 5.0\nstd = "HalfNormal(0.1)"', gn.StudentNoise),
    ],
)
def test_problem_files_name_them(tmp_path, text, kind):
    from gpnode.formats.problem_toml import read_problem

    rows = "\n".join(f"{t},{x:.0f}" for t, x in zip(TIMES, path(0.7), strict=True))
    (tmp_path / "data.csv").write_text(f"time,x\n{rows}\n")
    (tmp_path / "problem.toml").write_text(f'[data]\nfile = "data.csv"\n[noise]\n{text}\n')
    problem = read_problem(tmp_path / "problem.toml")
    assert isinstance(problem.model.noise_of("x"), kind)
    gn.bind(problem.model, problem.data)
