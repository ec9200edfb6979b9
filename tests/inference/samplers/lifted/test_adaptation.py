"""When a lifted chain finds its step sizes anew, and what it learns of hyperparameters."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from gpnode.inference.samplers.lifted.adaptation import Moments, State
from gpnode.inference.samplers.lifted.settings import Adaptation


def untuned() -> State:
    """Before the first round; of eight unknowns."""
    nowhere, none = jnp.asarray(-jnp.inf), jnp.asarray(0)
    return State(jnp.zeros(8), *[None] * 6, none, nowhere, nowhere, jnp.zeros(()), none)


def test_a_chain_that_diverges_in_a_narrower_place_finds_its_step_sizes_anew():
    """But only three times, and not for a rare divergence."""
    state, begun = untuned(), []
    rng = np.random.default_rng(0)
    for i in range(4000):
        often = 0.2 if i > 2000 else 0.002
        state = state.after_round(jnp.asarray(rng.normal()), jnp.asarray(rng.random() < often), 100, Adaptation())
        begun += [i] if state.step == 0 else []
    assert len(begun) == int(state.retuned) == 3
    assert 2000 < begun[0] < 2040
    assert begun[1] > begun[0] + 100


def test_the_shape_of_hyperparameter_moves_is_learned():
    """Of two correlated unknowns, from a start that knows neither their widths nor that they belong together."""
    root = np.array([[3.0, 0.0], [0.2, 0.02]])
    points = np.random.default_rng(0).normal(size=(200, 2)) @ root.T
    moments = Moments.none(2)
    for point in points:
        moments = moments.with_point(jnp.asarray(point))
    scale_tril = moments.scale_tril(0.02 * jnp.eye(2), Adaptation().old_weight)
    assert np.allclose(moments.mean, points.mean(axis=0))
    white = np.linalg.solve(np.asarray(scale_tril), root)
    assert np.linalg.eigvalsh(white @ white.T) == pytest.approx(np.ones(2), abs=0.3)


def test_a_chain_that_climbs_finds_its_step_sizes_anew():
    """Up from -100 to 0, it warms up a second time, and only that: then it just fluctuates."""
    state = untuned()
    noise = np.random.default_rng(0).normal(0.0, 2.0, 4000)  # of the log density of eight normal variables
    begun = []
    for i, log_density in enumerate(np.where(np.arange(4000) < 500, -100.0, 0.0) + noise):
        state = state.after_round(jnp.asarray(log_density), jnp.asarray(False), 100, Adaptation())
        begun += [i] if state.step == 0 else []
    assert begun
    assert 500 < begun[0] < 520
    assert len(begun) <= 3  # the level goes on rising for a while as it forgets
    assert begun[-1] < 1000
    assert float(state.tuned_at) == pytest.approx(0.0, abs=2.0)
