"""Worlds drawn from a model, and what many fits of them say."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.design.calibration import THINNED, Calibration, compare_simulations
from gpnode.design.simulation import with_units_of
from gpnode.model.observation import kernels
from gpnode.render import plots
from support.small_problems import decay_data, decay_model

TIMES = np.linspace(0.5, 6.0, 8)


def linear_model(process: bool = True) -> gn.Model:
    """x' = a: the posterior is normal, and Laplace's approximation exact, when noise and process are known."""
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": p.a}, {"a": gn.Normal(1.0, 0.5)})
    kernel = kernels.Matern32(variance=0.04, length_scale=0.4) if process else None
    return gn.Model(field, initial={"x": gn.Normal(2.0, 1.0)}, kernel=kernel, noise=gn.Noise(std=0.1))


def linear_data(scale: float = 1.0) -> gn.Observations:
    t = np.linspace(0.0, 5.0, 9)
    return gn.Observations({"x": (t, scale * (2.0 + t + 0.1 * np.sin(9 * t)))})


def test_worlds_have_the_moments_of_the_prior():
    data = linear_data()
    simulations, dropped = gn.simulate(linear_model(), data, 1500, seed=2, times=TIMES)
    assert dropped == 0
    t, unit = data.series[0].times, data.values_of("x").max()
    values = np.stack([w.data.series[0].values for w in simulations])
    every = np.concatenate([t, TIMES])
    lag = np.abs(np.subtract.outer(every, every)) / 5.0 * np.sqrt(3.0) / 0.4
    cov = 1.0 + 0.25 * np.outer(every, every) + 0.04 * unit**2 * (1 + lag) * np.exp(-lag)
    cov[: t.size, : t.size] += (0.1 * unit) ** 2 * np.eye(t.size)
    drawn = np.hstack([values, np.stack([w.states[:, 0] for w in simulations])])
    size = np.sqrt(np.diag(cov))
    assert np.abs((drawn.mean(axis=0) - 2.0 - every) / size).max() < 4.5 / np.sqrt(1500)
    error = np.sqrt(np.outer(size**2, size**2) + cov**2) / np.sqrt(1500)
    assert (np.abs(np.cov(drawn.T) - cov) / error).max() < 5.0
    assert np.std([w.truth["a"] for w in simulations]) == pytest.approx(0.5, rel=0.09)


def test_units_do_not_follow_new_data():
    model = with_units_of(decay_model(), decay_data())
    one, other = gn.bind(model, decay_data()), gn.bind(model, decay_data(7))
    assert float(one.scaling.state_scale[0]) == float(other.scaling.state_scale[0]) == decay_data().values_of("x").max()
    assert float(one.scaling.time_unit) == float(other.scaling.time_unit)


def test_priors_without_paths_say_so():
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": p.a * x.x**2}, {"a": gn.Normal(9.0, 0.1)})
    with pytest.raises(gn.ModelError, match="Narrow the priors"):
        gn.simulate(gn.Model(field, initial={"x": 1.0}), linear_data(), 3)


def found(ranks: np.ndarray, inside: float = 0.9, errors: tuple[str, ...] = (), slow: int = 0) -> Calibration:
    rng = np.random.default_rng(0)
    covered = (rng.uniform(size=(len(ranks), TIMES.size, 1)) < inside).astype(float)
    return Calibration({"a": ranks, "b": rng.permutation(ranks)}, covered, TIMES, ("x",), 3, errors, slow)


def test_verdicts_on_calibration():
    rng = np.random.default_rng(1)
    flat = rng.integers(0, THINNED + 1, 200)
    good = found(flat)
    assert good.bins == 16
    assert good.histogram("a").sum() == 200
    assert good.calibrated, str(good)
    assert str(good).startswith("CALIBRATED")
    assert good.coverage()["a"] == pytest.approx(0.9, abs=0.07)
    narrow = np.clip(np.round((flat - 31.5) * 1.5 + 31.5), 0, THINNED).astype(int)
    shifted = np.clip(flat - 8, 0, THINNED)
    for bad in (
        found(narrow),
        found(shifted),
        found(flat, inside=0.8),
        found(flat, errors=("StartError: no",) * 9),
        found(flat, slow=50),
    ):
        assert not bad.calibrated
        assert str(bad).startswith("NOT CALIBRATED")
        assert "BAD" in str(bad)


def test_p_values_are_uniform_where_ranks_are():
    rng = np.random.default_rng(3)
    p = [found(rng.integers(0, THINNED + 1, 200)).p_values()["a"] for _ in range(300)]
    assert np.mean(p) == pytest.approx(0.5, abs=0.07)
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.06)


def test_the_figure_has_a_panel_for_each_number_and_one_for_bands():
    axes = plots.calibration(found(np.random.default_rng(1).integers(0, THINNED + 1, 200)))
    assert [ax.get_title() for ax in axes[:3]] == ["a", "b", "truth inside 90 % bands"]


def test_too_few_fits():
    with pytest.raises(gn.ModelError, match="fits must be at least"):
        gn.calibrate(linear_model(), linear_data(), fits=5)


# -- many fits -------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_exact_approximation_is_calibrated_and_a_wrong_one_is_not(tmp_path):
    """Laplace's approximation is the posterior here; told another noise than there is, it is not."""
    data = linear_data()
    quick = gn.Laplace(draws=1000)
    good = gn.calibrate(linear_model(), data, fits=200, method=quick, progress=False, checkpoint=tmp_path)
    assert good.calibrated, str(good)
    simulations, _ = gn.simulate(linear_model(), data, 200, times=good.times)
    wrong = with_units_of(linear_model(process=False), data)
    bad = compare_simulations(wrong, simulations, good.times, method=quick, progress=False)
    assert {"a", "x.initial"} <= set(bad.uneven)
    assert bad.off_bands == ["x"]


def latent_model() -> tuple[gn.Model, gn.Observations]:
    """Two coupled states, of which one is never measured."""

    def field(t, x, p):
        return {"a": -p.k * x.a + 0.5 * x.b, "b": p.m * x.a - 0.8 * x.b}

    model = gn.Model(
        gn.KnownForm(["a", "b"], field, {"k": gn.LogNormal(0.0, 0.3), "m": gn.LogNormal(-0.5, 0.4)}),
        initial={"a": gn.Normal(5.0, 0.5), "b": gn.LogNormal(0.0, 0.5)},
        kernel=kernels.Matern32(variance=gn.LogNormal(-5.0, 0.5), length_scale=gn.LogNormal(-1.0, 0.5)),
        noise=gn.Noise(std=gn.LogNormal(-3.5, 0.5)),
    )
    t = np.linspace(0.0, 4.0, 14)
    return model, gn.Observations({"a": (t, 5.0 * np.exp(-0.6 * t) + 1.0 + 0.1 * np.sin(7 * t))})


def small_dictionary() -> tuple[gn.Model, gn.Observations]:
    prior = gn.FinnishHorseshoe(expected_terms=1.0, slab_dof=8.0)
    model = gn.Model(
        gn.Dictionary(["x"], gn.polynomial(2), prior=prior),
        initial={"x": gn.Normal(2.0, 0.5)},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-3.0, 0.5)),
    )
    t = np.linspace(0.0, 4.0, 14)
    return model, gn.Observations({"x": (t, 2.0 * np.exp(-0.6 * t) + 0.5 + 0.1 * np.sin(7 * t))})


@pytest.mark.slow
def test_a_known_form_with_a_latent_state_is_calibrated(tmp_path):
    """300 fits, so that the coverage of forecasts is known to two parts in a hundred."""
    result = gn.calibrate(*latent_model(), fits=300, seed=1, progress=False, checkpoint=tmp_path)
    assert not result.uneven, str(result)
    assert result.calibrated, str(result)
    for state, part in result.band_coverage().items():
        assert 0.865 <= part <= 0.935, (state, part)


@pytest.mark.slow
def test_a_small_dictionary_is_calibrated(tmp_path):
    result = gn.calibrate(*small_dictionary(), fits=200, seed=1, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)
