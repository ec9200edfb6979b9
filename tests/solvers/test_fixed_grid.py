"""The order of the fixed grid, and where it asks for more steps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gpnode.solvers import FixedGrid, refine
from support.oscillator import exact, oscillator


def test_fixed_grid_is_of_fifth_order():
    errors = []
    for n in (20, 40):
        ts = jnp.linspace(0.0, 3.0, n + 1)
        found = FixedGrid().solve(oscillator, {"w": jnp.asarray(2.0)}, jnp.array([1.0, 0.5]), ts)
        errors.append(np.abs(found.xs[-1] - exact(2.0, 1.0, 0.5, ts)[-1]).max())
    assert 25 < errors[0] / errors[1] < 80


def test_refine_asks_for_more_steps_where_errors_are_large():
    counts = refine(np.array([1, 2, 4]), np.array([3.2e-5, 1e-6, 1e-12]), 1e-6)
    assert counts[0] == 3  # 1.25 * 32^(1/5), rounded up
    assert counts[1] == 3
    assert counts[2] < 4
    assert refine(np.array([1]), np.array([np.nan]), 1e-6)[0] > 10
