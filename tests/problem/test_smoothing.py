"""Series smoothed before any fit."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.problem.smoothing import smoothed_level

TIMES = np.linspace(0.0, 10.0, 80)
NORMAL = np.random.default_rng(0).normal(size=TIMES.size)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_small_values_have_a_small_level(sign):
    """A decay over four decades, each measured to one part in twenty."""
    truth = 7.0 * np.exp(-TIMES)
    level = smoothed_level(TIMES, sign * truth * (1.0 + 0.05 * NORMAL))
    assert np.abs(np.log(level / truth)).max() < 0.15


def test_noise_that_is_not_proportional_leaves_the_level_where_values_are_large():
    truth = 7.0 * np.exp(-TIMES)
    level = smoothed_level(TIMES, np.abs(truth + 0.05 * NORMAL))
    large = truth > 0.5
    assert np.abs(np.log(level / truth))[large].max() < 0.1
    assert level[~large].max() < 0.7


def test_a_level_that_changes_sign_is_as_large_as_it_is_uncertain():
    truth = 3.0 * np.cos(TIMES)
    level = smoothed_level(TIMES, truth + 0.1 * NORMAL)
    assert np.abs(level - np.abs(truth)).max() < 0.15
    assert level.min() > 0.0


def test_values_clipped_to_a_floor_are_not_taken_for_sizes():
    truth = np.exp(-TIMES)
    level = smoothed_level(TIMES, np.maximum(truth + 0.03 * NORMAL, 1e-9))
    assert np.abs(level - truth).max() < 0.1
