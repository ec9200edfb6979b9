"""Figures show what they should."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import gpnode as gn
from support.linear import RATE, SD, decay

plt.switch_backend("Agg")


def test_plots_draw(posterior, sparse):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    paths = gn.forecast(posterior, np.linspace(0.0, 12.0, 20), experiment="low")
    (ax,) = gn.plots.paths(paths, posterior.data, truth={"x": np.ones(20)})
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["two standard deviations", "mean", "truth", "measured", "forecast"]
    assert len(ax.lines[-1].get_xdata()) == posterior.data.of("x")[0].times.size
    (ax,) = gn.plots.paths(paths, whole_paths=True)
    around = ax.collections[0].get_paths()[0].vertices
    assert ax.collections[0].get_label() == "95 % of whole paths"
    low, high = (end.sel(state="x").to_numpy() for end in paths.envelope())
    for end in (low, high):
        assert all(np.isclose(around[:, 1], value).any() for value in end)
    ax = gn.plots.coefficients(sparse, truth=np.zeros((2, 3)))
    assert [t.get_text() for t in ax.get_yticklabels()][1] == "dx/dt: x"
    assert len(gn.plots.parameters(posterior, ["r", "K"], truth={"r": 0.8})) == 2
    plt.close("all")


@pytest.mark.slow
def test_figures_draw_on_given_axes_and_show_every_item(gray_box, linear):
    chains = gn.fit(
        gn.Model(
            gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)}),
            initial={"x": gn.Normal(1.0, SD)},
            kernel=None,
            noise=gn.Noise(),
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
    ax = gn.plots.phase_portrait(gray_box, "x", "y")
    assert ax.get_xlabel() == "x"
    ax = gn.plots.inclusion(gray_box)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "x/(1+x^2)"]
    shown = [float(t.get_text()) for t in ax.texts]
    wanted = [t.probability for e in gray_box.equations().equations for t in e.terms]
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
