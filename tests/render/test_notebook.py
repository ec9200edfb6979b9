"""Results in a notebook."""

from __future__ import annotations

import dataclasses

import numpy as np

import gpnode as gn
from gpnode.results.diagnostics.verdict import Check
from support.markup import NAME, Structure


def test_notebooks_show_results_with_names_escaped(hostile):
    ahead = gn.forecast(hostile, np.linspace(0.0, 6.0, 30))
    for shown in (hostile, hostile.data, hostile.equations(), hostile.diagnose(), ahead):
        text = shown._repr_html_()
        found = Structure(text)
        assert "script" not in found.tags
        assert found.links == []
        assert "http" not in text
        assert found.tags.count("table") >= 1
    for shown in (hostile, hostile.data, hostile.equations(), ahead):
        assert NAME in Structure(shown._repr_html_()).text


def test_notebook_of_a_posterior_begins_with_the_verdict(hostile):
    text = Structure(hostile._repr_html_()).text
    verdict = hostile.diagnose()
    assert text.startswith(verdict.headline)
    for name in hostile.summary().index:
        assert name in text
    failed = dataclasses.replace(verdict, checks=(*verdict.checks, Check("it", False, "is", "do so")))
    assert "do so" in Structure(failed._repr_html_()).text
    assert "FAIL" in Structure(failed._repr_html_()).text


def test_notebook_of_a_forecast_counts_what_was_left_out(hostile):
    ahead = gn.forecast(hostile, np.linspace(0.0, 6.0, 30))
    low, high = (end.sel(state="y").to_numpy()[-1] for end in ahead.interval())
    text = Structure(dataclasses.replace(ahead, failures=3)._repr_html_()).text
    assert f"[{low:.4g}, {high:.4g}]" in text
    assert "3 draws could not be solved" in text
    assert "left out" not in Structure(dataclasses.replace(ahead, failures=0)._repr_html_()).text


def test_notebooks_stay_short_and_stand_large_numbers():
    t = np.arange(5.0)
    runs = {str(i): {"a": (t, (t - 2.0) * 4e99)} for i in range(60)}
    text = gn.Observations.from_experiments(runs)._repr_html_()
    assert "and 20 more series" in text
    assert "nan" not in text
    long = gn.Observations({"a": (np.arange(5000.0), np.sin(np.arange(5000.0)))})._repr_html_()
    assert Structure(long).tags.count("circle") == 200
