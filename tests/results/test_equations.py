"""Equations as text, formulas and functions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy
import xarray as xr

import gpnode as gn
from gpnode.results.diagnostics.explaining import adequacy
from gpnode.results.equations.alternatives import FAR_APART, find_alternatives
from gpnode.results.equations.forms import TOLD_APART
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
    problem = gn.bind(model, posterior.data)
    draws = xr.Dataset({"up.k": (("chain", "draw"), np.ones((1, 5)))})
    unconstrained = np.zeros((1, 5, problem.size))
    found = dataclasses.replace(posterior, model=model, problem=problem, draws=draws, unconstrained=unconstrained)
    text = str(found.equations())
    assert "up.k*x" in text
    assert "0.5*x" in text


def curved(spread: float) -> gn.Posterior:
    """Draws of x' = -a b x with a b = 0.5, and a between 1 / spread and spread."""
    dynamics = gn.KnownForm(
        ["x"], lambda t, x, p: {"x": -p.a * p.b * x.x}, {"a": gn.LogNormal(0.0, 2.0), "b": gn.LogNormal(0.0, 2.0)}
    )
    times = np.linspace(0.0, 5.0, 20)
    data = gn.Observations({"x": (times, 3.0 * np.exp(-0.5 * times))})
    model = gn.Model(dynamics, initial={"x": 3.0}, kernel=None, noise=gn.Noise(std=0.1))
    problem = gn.bind(model, data)
    log_a = np.log(spread) * np.linspace(-1.0, 1.0, 51)
    drawn = np.stack([log_a, np.log(0.5) - log_a], axis=1)
    fitted = gn.fit(model, data, method=gn.Laplace(draws=51), progress=False)
    assert list(problem.layout.slices()) == ["a", "b"]
    draws = fitted.draws.copy(data={"a": np.exp(drawn[None, :, 0]), "b": np.exp(drawn[None, :, 1])})
    return dataclasses.replace(fitted, draws=draws, unconstrained=drawn[None])


def test_equations_are_written_with_a_draw_where_means_do_not_fit():
    found = curved(spread=10.0)
    a, b = (p.value for p in found.equations().parameters)
    assert float(found.draws["a"].mean() * found.draws["b"].mean()) > 2.0  # four times too fast
    assert a * b == pytest.approx(0.5)
    assert "the most likely draw" in str(found.equations())
    assert adequacy(found)["x"].written > 0.99


def test_equations_are_written_with_means_where_these_fit(posterior):
    for parameter in posterior.equations().parameters:
        assert parameter.value == pytest.approx(float(posterior.draws[parameter.name].mean()))
    assert "mean, with 95 % intervals" in str(posterior.equations())


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


def test_forms_that_cannot_be_told_apart_are_named_with_what_they_disagree_on(sparse):
    equations = sparse.equations()
    best, other = equations.systems
    assert equations.alternatives is None  # one form has nearly all the probability
    unlikely = dataclasses.replace(other, probability=best.probability / (2 * TOLD_APART))
    rival = dataclasses.replace(other, probability=best.probability / 2)
    assert rival.rivals(best)
    assert not unlikely.rivals(best)
    numbers = equations.representative.values
    group = find_alternatives(sparse.problem, [best, rival], [numbers, numbers])
    assert group is not None
    assert group.systems == (best, rival)
    assert set(group.difference.values()) == {0.0}  # the same numbers, and so the same path
    assert group.disputed == {"x": ("1",), "y": ()}
    text = str(dataclasses.replace(equations, alternatives=group))
    assert "2 forms cannot be told apart" in text
    assert "disagree on 1 in dx/dt" in text
    larger = numbers | {"x.initial": 2.0 * numbers["x.initial"]}
    apart = find_alternatives(sparse.problem, [best, rival], [numbers, larger])
    assert apart is not None
    assert max(apart.difference.values()) > FAR_APART
    assert "about as probable" in str(apart)
    nowhere = numbers | {"coef": numbers["coef"] * np.nan}
    assert find_alternatives(sparse.problem, [best, rival], [numbers, nowhere]) is None


def test_equations_are_drawn_apart(sparse):
    """Which terms act in one equation says nothing of the other: two undecided terms make four forms."""
    half = xr.full_like(sparse.draws["coef.acting"], 0.5)
    undecided = dataclasses.replace(sparse, draws=sparse.draws.assign({"coef.acting": half}))
    probabilities = [system.probability for system in undecided.equations().systems]
    assert probabilities[0] < 0.15  # of sixteen forms
