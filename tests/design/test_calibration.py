"""What many fits of simulated data say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gpnode as gn
from gpnode.design.calibration import THINNED, Calibration
from gpnode.render import plots
from support.small_problems import linear_data, linear_model

TIMES = np.linspace(0.5, 6.0, 8)


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


def said_and_acts(off: float = 0.0, sharpness: float = 1.0) -> Calibration:
    """300 fits of two terms, whose log odds are said to be ``off``, or too far from zero by a factor."""
    rng = np.random.default_rng(2)
    log_odds = 2.0 * rng.normal(size=(2, 300))
    acts = rng.random((2, 300)) < 1.0 / (1.0 + np.exp(-log_odds))
    said = 1.0 / (1.0 + np.exp(-(sharpness * log_odds + off)))
    both = {name: np.stack([s, a], axis=1) for name, s, a in zip(["1 in dx/dt", "x in dx/dt"], said, acts, strict=True)}
    return dataclasses.replace(found(rng.integers(0, THINNED + 1, 200)), acting=both)


def test_probabilities_that_terms_act_are_checked():
    good = said_and_acts()
    assert not good.off_terms
    assert "probabilities that terms act: right" in str(good)
    for bad in (said_and_acts(off=0.8), said_and_acts(sharpness=2.0), said_and_acts(sharpness=0.5)):
        assert bad.off_terms
        assert not bad.calibrated
        assert "probabilities that terms act: wrong" in str(bad)


def test_decided_terms_are_no_false_alarm():
    """Terms that nearly all fits are sure of: one surprise among thousands is no evidence."""
    rng = np.random.default_rng(4)
    p = []
    for _ in range(100):
        log_odds = 5.0 * rng.normal(size=200) + 12.5 * rng.choice([-1.0, 1.0], size=200)
        said = 1.0 / (1.0 + np.exp(-log_odds))
        acts = rng.random(200) < said
        both = {"1 in dx/dt": np.stack([said, acts], axis=1)}
        p.append(
            dataclasses.replace(found(rng.integers(0, THINNED + 1, 200)), acting=both).acting_p_values["1 in dx/dt"]
        )
    assert np.mean(np.array(p) < 0.05) < 0.12
