"""Equations as text, formulas and functions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy
import xarray as xr

import gpnode as gn
from support.growth import growth


def test_equations_of_a_known_form(posterior):
    text = str(posterior.equations())
    assert "dx/dt" in text
    assert "r*x" in text
    assert "K = " in text


def test_equations_of_a_dictionary(sparse):
    found = sparse.equations().equations[0]
    assert [t.term for t in found.terms] == ["1", "x", "y"]
    assert found.terms[1].probability is None
    assert all(0 <= t.probability <= 1 for t in found.terms if t.probability is not None)
    assert "fixed" in str(sparse.equations())


def test_only_the_noise_may_be_unknown(positive_data):
    model = gn.Model(
        gn.KnownForm(["x"], growth, {"r": 0.8, "K": 50.0}),
        initial={"x": {"low": np.float64(2.0), "high": 9}},
        kernel=None,
        transform=gn.Log(),
    )
    found = gn.fit(model, positive_data, method=gn.Laplace(draws=100), progress=False)
    assert list(found.summary().index) == ["x.noise_std"]
    assert "50" in str(found.equations())


def test_parts_of_a_sum_keep_their_symbols_apart(posterior):
    half = lambda t, x, p: {"x": p.k * x.x}
    model = gn.Model(
        gn.Sum(up=gn.KnownForm(["x"], half, {"k": gn.Normal(1.0, 1.0)}), down=gn.KnownForm(["x"], half, {"k": -0.5})),
        kernel=None,
    )
    draws = xr.Dataset({"up.k": (("chain", "draw"), np.ones((1, 5)))})
    found = dataclasses.replace(posterior, model=model, problem=gn.bind(model, posterior.data), draws=draws)
    text = str(found.equations())
    assert "up.k*x" in text
    assert "0.5*x" in text


def test_equations_in_every_form_agree_with_the_vector_field(gray_box):
    equations = gray_box.equations()
    mean = {n: gray_box.draws[n].mean(("chain", "draw")).to_numpy() for n in ("known.k", "free.coef")}
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


def test_forms_are_the_frequencies_of_sets_of_active_terms(gray_box):
    for equation in gray_box.equations().equations:
        assert sum(f.probability for f in equation.forms) <= 1.0 + 1e-12
        assert [f.probability for f in equation.forms] == sorted((f.probability for f in equation.forms), reverse=True)
        if sum(f.probability for f in equation.forms) > 1 - 1e-9:  # all forms are listed
            for term in equation.terms:
                total = sum(f.probability for f in equation.forms if term.term in f.terms)
                # Forms are drawn; the probability of a term is a mean of exact ones.
                assert total == pytest.approx(term.probability, abs=0.05)
