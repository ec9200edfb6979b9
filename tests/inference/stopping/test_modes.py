"""Regions that chains do not leave, told from draws."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.inference.stopping.modes import find_modes
from support.draws import visits


@pytest.mark.parametrize("length", [4000, 20_000])
@pytest.mark.parametrize("memory", [0.99, 0.999, 0.9995])
def test_one_slow_mode_is_not_taken_for_two(memory, length):
    """Chains move slowly, but a single hill has no two levels."""
    draws = np.random.default_rng(0).normal(size=(4, length, 3))
    for t in range(1, length):
        draws[:, t] = memory * draws[:, t - 1] + np.sqrt(1.0 - memory**2) * draws[:, t]
    assert find_modes(draws, np.zeros((4, length))).count == 1


@pytest.mark.parametrize("length", [1000, 4000])
def test_a_place_left_slowly_is_no_mode(length):
    """Two chains come from a place of low density; on their way, averages go up and down."""
    draws = np.random.default_rng(3).normal(size=(4, length, 3))
    way = 8.0 * np.clip(np.linspace(3.0, -1.0, 200), 0.0, 1.0)
    draws[:2, :200, 0] += way
    assert find_modes(draws, np.where(draws[:, :, 0] > 4.0, -30.0, 0.0)).count == 1


def test_visits_are_seen_though_a_run_is_long():
    """One chain is away every seventh time, for a seventieth of its length, another one twice and longer."""
    levels = np.zeros((4, 70))
    levels[0, 3::7], levels[1, [20, 21, 50, 51, 52]] = 9.0, 9.0
    draws = visits(levels, 300)[:, :, None]
    found = find_modes(draws, np.zeros(draws.shape[:2]))
    assert found.count == 2
    assert found.switches == 2 * 12
    assert np.mean(found.labels == np.repeat(levels > 0, 300, axis=1)) > 0.995


def test_the_way_to_modes_belongs_to_none():
    draws = visits([[20.0, 0, 0, 0], [20.0, 9, 9, 9], [0.0, 0, 9, 9], [9.0, 9, 9, 0]], 1000)[:, :, None]
    found = find_modes(draws, np.where(draws[:, :, 0] > 15.0, -30.0, 0.0))
    assert found.count == 2
    assert 2 <= found.switches <= 3  # averages pass through levels between
    assert (found.labels[:2, :900] == -1).all()
    assert found.weights == pytest.approx([8 / 14, 6 / 14], abs=0.02)
    assert np.mean(found.of(draws, 0) > 15.0) < 0.01


def test_three_modes_are_found():
    levels = np.array([[0.0, 1, 2, 0, 1, 2], [1.0, 0, 2, 1, 0, 2], [2.0, 1, 0, 2, 1, 0], [0.0, 2, 1, 0, 2, 1]])
    draws = np.stack([visits(9.0 * (levels == k), 500) for k in (1, 2)], axis=2)
    found = find_modes(draws, np.zeros(draws.shape[:2]))
    assert found.count == 3
    assert 20 <= found.switches <= 30  # an average over two modes may look like the third
    assert found.weights == pytest.approx(1 / 3, abs=0.02)
