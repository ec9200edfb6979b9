"""Objects as one would write them, and errors that show the line to write."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn

DATA = gn.Observations({"x": (np.arange(6.0), np.exp(-np.arange(6.0)))})


def decay(**priors):
    return gn.Model(gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, priors))


def test_models_show_priors_as_one_would_write_them():
    assert repr(decay(k=gn.LogNormal(0.0, 1.0))) == "Model(KnownForm(x; k ~ LogNormal(0, 1)))"
    model = gn.Model(
        gn.Dictionary(["x"], gn.polynomial(degree=3)), initial={"x": gn.Normal(1, 2)}, noise=gn.Noise(std=0.1)
    )
    assert repr(model) == "Model(Dictionary(x; 1, x, x^2, x^3), initial={'x': Normal(1, 2)}, noise=Noise(std=0.1))"


def test_long_dictionaries_are_cut():
    shown = repr(gn.Dictionary(["x", "y", "z"], gn.polynomial(degree=3)))
    assert shown == "Dictionary(x, y, z; 1, x, y, z, x*y, x*z, y*z, x^2, ... (20 terms))"


def test_data_are_shown_in_a_few_lines():
    assert repr(DATA).startswith("Observations: 6 measurements, 1 experiment")


def test_a_prior_that_nothing_uses_is_an_error():
    with pytest.raises(gn.ModelError, match="never uses 'rate'"):
        gn.bind(decay(k=gn.LogNormal(0.0, 1.0), rate=gn.Normal(0.0, 1.0)), DATA)


def test_texts_for_priors_are_answered_with_the_line_to_write():
    with pytest.raises(gn.ModelError, match=r"write it as gpnode\.LogNormal\(0, 1\)"):
        decay(k="LogNormal(0, 1)")
    model = gn.Model(decay(k=1.0).dynamics, initial={"x": "Normal(1, 1)"})
    with pytest.raises(gn.ModelError, match=r"write it as gpnode\.Normal\(1, 1\)"):
        gn.bind(model, DATA)
