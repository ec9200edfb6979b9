"""Figures of studies: coverage and columns of text."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.studies import results
from support.draws import paths_of, walks


def test_coverage_counts_times_inside_and_says_what_to_expect():
    rng = np.random.default_rng(2)
    paths = paths_of(walks(rng, 2000))
    low, high = (end.to_numpy() for end in paths.interval())
    half = np.where(np.arange(40)[:, None] < 20, 0.5 * (low + high), high + 1e-6)
    found = results.coverage(paths, half)
    assert found["pointwise"]["x"] == pytest.approx(20 / 40)
    assert found["whole_path"]["x"] == 1.0
    one_by_one = [results.coverage(paths, path[:, None])["pointwise"]["x"] < 0.9 for path in walks(rng, 80)]
    chance = found["chance_below_90"]["x"]
    assert np.mean(one_by_one) == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / 80))
    together = results.over_data_sets([found, results.coverage(paths, 0.5 * (low + high))])
    assert (together["least_pointwise"]["x"], together["mean_pointwise"]["x"]) == (0.5, 0.75)
    assert (together["cases"], together["cases_below_90"]) == (2, 1)
    assert together["expected_below_90"] == pytest.approx(2 * chance)


def test_rows_are_columns_of_text():
    text = results.columns([{"who": "a", "x1": "0.1"}, {"who": "longer", "x1": "inf"}])
    assert text.splitlines() == ["who      x1", "a       0.1", "longer  inf"]
    assert results.columns([{"seen frames": "all", "x1": "0.1"}]).splitlines() == [
        "seen frames   x1",
        "all          0.1",
    ]
