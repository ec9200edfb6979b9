"""Nothing adapts in draws that are kept: all were made with the same step sizes and the same shape of moves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.running.chains import Chain, run_chains, start_chains
from gpnode.inference.samplers.base import Chunking
from gpnode.inference.samplers.lifted import sampler as lifted
from gpnode.inference.samplers.lifted.adaptation import State, learn_scale_tril
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.start import disperse
from gpnode.inference.stopping.schedule import Goal, settled_rows
from support.small_problems import decay_data, decay_model

STEPS = gn.Lifted(warmup=40, draws=60, chains=1, chunking=Chunking(first_steps=1, most_steps=1))
LEARNED = ("angle", "turn", "stride", "hyper_scale_tril")


def settings_of_kept_draws() -> list[np.ndarray]:
    """What a chain had learned when it made each of the draws that are kept."""
    start = find_start(gn.bind(decay_model(), decay_data()), jax.random.key(0), STEPS, lambda what: None)
    points = disperse(start, 1, jax.random.key(1))
    chains = start_chains(start.problem, start.whitenings(1), points, jax.random.key(2), STEPS)
    goal, seen = Goal(STEPS.draws, STEPS.draws), []

    def look(chains: list[Chain]) -> None:
        leaves = jax.tree.leaves([getattr(chains[0].state, name) for name in LEARNED])
        seen.append(np.concatenate([np.ravel(leaf) for leaf in leaves]))

    run_chains(start.problem, chains, STEPS, lambda chain: chain.steps_to(goal, STEPS.warmup), look)
    kept = settled_rows(chains[0].trace.read())
    assert len(kept) == STEPS.draws
    return seen[-len(kept) :]


def adapts(settings: list[np.ndarray]) -> bool:
    return any(not np.array_equal(one, settings[0]) for one in settings)


@pytest.mark.slow
def test_kept_draws_were_made_with_the_same_settings():
    assert not adapts(settings_of_kept_draws())


def shape_learned_for_ever(patch):
    def learn(state: State, hyper, warmup, settings):
        tril, moments = learn_scale_tril(state, hyper, warmup, settings)
        late = state.step >= warmup
        return jnp.where(late, 0.99 * tril, tril), moments

    patch.setattr(lifted, "learn_scale_tril", learn)


def warming_not_told(patch):
    """The chain says that it has settled long before it has."""
    step = lifted.Lifted.step

    def early(self, problem, whitening, state):
        after, transition = step(self, problem, whitening, state)
        return after, transition._replace(warming=state.step < self.warmup // 2)

    patch.setattr(lifted.Lifted, "step", early)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [shape_learned_for_ever, warming_not_told], ids=lambda bug: bug.__name__)
def test_adaptation_in_kept_draws_is_caught(bug):
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        jax.clear_caches()
        assert adapts(settings_of_kept_draws())
    jax.clear_caches()
