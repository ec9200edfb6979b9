"""Many fits of data drawn from a model are calibrated."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.design.calibration import compare_simulations
from gpnode.design.simulation import with_units_of
from gpnode.model.observation import kernels
from support.small_problems import linear_data, linear_model


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
    model = gn.Model(
        gn.Dictionary(["x"], gn.polynomial(2), prior=gn.SpikeAndSlab(slab_stds=(0.3, 0.6, 1.2))),
        initial={"x": gn.Normal(2.0, 0.5)},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-3.0, 0.5)),
    )
    t = np.linspace(0.0, 4.0, 14)
    return model, gn.Observations({"x": (t, 2.0 * np.exp(-0.6 * t) + 0.5 + 0.1 * np.sin(7 * t))})


@pytest.mark.slow
def test_a_known_form_with_a_latent_state_is_calibrated(tmp_path):
    """300 fits, so that the coverage of forecasts is known to two parts in a hundred."""
    result = gn.calibrate(*latent_model(), fits=300, method=gn.Lifted(), seed=1, progress=False, checkpoint=tmp_path)
    assert not result.uneven, str(result)
    assert result.calibrated, str(result)
    for state, part in result.band_coverage().items():
        assert 0.865 <= part <= 0.935, (state, part)


@pytest.mark.slow
def test_a_small_dictionary_is_calibrated(tmp_path):
    result = gn.calibrate(
        *small_dictionary(), fits=300, method=gn.Lifted(), seed=1, progress=False, checkpoint=tmp_path
    )
    assert result.calibrated, str(result)


@pytest.mark.slow
def test_counts_are_calibrated(tmp_path):
    """300 fits of counts that scatter more than Poisson's, with the sampler that fit chooses for them."""
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": p.growth * x.x}, {"growth": gn.Normal(0.3, 0.2)})
    model = gn.Model(
        form, initial={"x": gn.LogNormal(2.5, 0.3)}, noise=gn.NegativeBinomialNoise(gn.LogNormal(-2.0, 0.5))
    )
    t = np.linspace(0.0, 4.0, 12)
    data = gn.Observations({"x": (t, np.round(12.0 * np.exp(0.3 * t)))})
    result = gn.calibrate(model, data, fits=300, seed=2, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)


@pytest.mark.slow
def test_limits_are_calibrated(tmp_path):
    """300 fits of a decay of which a third lies below what can be detected; taken as values they would not be."""
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(-0.5, 0.3)})
    model = gn.Model(form, initial={"x": gn.Normal(4.0, 0.3)}, noise=gn.Noise(std=gn.LogNormal(-3.0, 0.3)))
    t = np.linspace(0.0, 4.0, 15)
    cells = [v if v > 0.8 else "<0.8" for v in 4.0 * np.exp(-0.6 * t)]
    data = gn.Observations({"x": (t, np.array(cells, dtype=object))})
    result = gn.calibrate(model, data, fits=300, seed=3, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)


@pytest.mark.slow
def test_a_population_is_calibrated(tmp_path):
    """300 fits of four decays whose rates are from one population."""
    form = gn.KnownForm(
        ["x"],
        lambda t, x, p: {"x": -p.k * x.x},
        {"k": gn.Population(gn.LogNormal(-0.5, 0.4), spread=gn.HalfNormal(0.4))},
    )
    model = gn.Model(form, initial={"x": 3.0}, kernel=None, noise=gn.Noise(std=0.1, relative=False))
    t = np.linspace(0.4, 4.0, 6)
    data = gn.Observations.from_experiments(
        {str(i): {"x": (t, 3.0 * np.exp(-k * t))} for i, k in enumerate((0.4, 0.6, 0.7, 0.9))}, start=0.0
    )
    result = gn.calibrate(model, data, fits=300, seed=4, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)


@pytest.mark.slow
def test_a_delay_is_calibrated(tmp_path):
    """300 fits of a dose that reaches the blood through the gut after a while."""
    form = gn.KnownForm(
        ["gut", "blood"],
        lambda t, x, p: {"gut": -1.5 * x.gut, "blood": 1.5 * x.gut - p.ke * x.blood},
        {"ke": gn.LogNormal(-1.0, 0.4), "lag": gn.LogNormal(-0.3, 0.4)},
        delays=["lag"],
    )
    model = gn.Model(form, initial={"gut": 0.0, "blood": 0.0}, kernel=None, noise=gn.Noise(std=0.15, relative=False))
    t = np.linspace(0.25, 6.0, 14)
    late = np.maximum(t - 0.75, 0.0)
    blood = 4.0 * 1.5 / 1.1 * (np.exp(-0.4 * late) - np.exp(-1.5 * late))
    done = gn.Experiment(doses=[gn.Dose("gut", 4.0, delay="lag")])
    data = gn.Observations({"blood": (t, blood)}, start=0.0).with_experiments(done)
    result = gn.calibrate(model, data, fits=300, seed=5, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)


@pytest.mark.slow
def test_a_state_event_is_calibrated(tmp_path):
    """300 fits of a tank that is heated until it is as warm as a switch, which is inferred, allows."""
    form = gn.KnownForm(
        ["warm", "heater"],
        lambda t, x, p: {"warm": p.power * x.heater - 0.5 * x.warm, "heater": 0.0 * p.limit},
        {"power": gn.LogNormal(1.1, 0.2), "limit": gn.LogNormal(1.0, 0.2)},
    )
    noise = gn.Noise(std=0.2, relative=False)
    model = gn.Model(form, initial={"warm": 0.0, "heater": 1.0}, kernel=None, noise=noise)
    t = np.linspace(0.25, 5.0, 15)
    off = -np.log(1.0 - 0.5 * 2.7 / 3.0) / 0.5
    warm = np.where(t < off, 6.0 * (1.0 - np.exp(-0.5 * t)), 2.7 * np.exp(-0.5 * (t - off)))
    switch = gn.Trigger(lambda t, x, p: x.warm - p.limit, {"heater": 0.0})
    data = gn.Observations({"warm": (t, warm)}, start=0.0).with_experiments(gn.Experiment(triggers=[switch]))
    result = gn.calibrate(model, data, fits=300, seed=6, progress=False, checkpoint=tmp_path)
    assert result.calibrated, str(result)
