"""Data drawn from a model."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.design.simulation import with_units_of
from support.small_problems import decay_data, decay_model, linear_data, linear_model

TIMES = np.linspace(0.5, 6.0, 8)


@pytest.mark.slow
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
