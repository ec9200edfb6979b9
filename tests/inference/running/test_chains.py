"""Chains: the same bits however they are cut, failures counted, interruption without loss."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor, Future

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.running.chains import chunk, run_chains, start_chains
from gpnode.inference.samplers.base import Chunking
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.starting.start import disperse
from gpnode.inference.stopping.schedule import Goal
from gpnode.inference.whitening import Whitening
from gpnode.solvers import Status

SETTINGS = NUTS(warmup=40, draws=30, chains=2)


def chains_of(start, settings=SETTINGS):
    points = disperse(start, settings.chains, jax.random.key(1))
    return start_chains(start.problem, start.whitenings(settings.chains), points, jax.random.key(2), settings)


def left(chain):
    return chain.steps_to(Goal(SETTINGS.draws, SETTINGS.draws), SETTINGS.warmup)


class Inline(Executor):
    """Runs chunks at once in this thread, and can be told to interrupt."""

    def __init__(self, interrupt_after: int | None = None):
        self.count, self.interrupt_after = 0, interrupt_after

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        if self.interrupt_after is not None and self.count > self.interrupt_after:
            raise KeyboardInterrupt
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_bits_do_not_depend_on_chunks_or_executor(start):
    def run(executor=None, chunking=SETTINGS.chunking):
        chains, settings = chains_of(start), dataclasses.replace(SETTINGS, chunking=chunking)
        run_chains(start.problem, chains, settings, left, lambda c: None, executor)
        return [c.trace.read() for c in chains]

    one = run()
    for chunking in (Chunking(first_steps=7, seconds=0.001), Chunking(first_steps=SETTINGS.warmup)):
        for a, b in zip(one, run(Inline(), chunking), strict=True):
            assert len(a) == SETTINGS.draws
            assert np.array_equal(a, b)
    assert not np.array_equal(one[0]["draw"], one[1]["draw"])


def test_interruption_keeps_what_there_is(start):
    one_step_a_chunk = dataclasses.replace(SETTINGS, chunking=Chunking(seconds=1e-9))
    chains = chains_of(start)
    with pytest.raises(KeyboardInterrupt):
        run_chains(
            start.problem,
            chains,
            one_step_a_chunk,
            left,
            lambda c: None,
            Inline(interrupt_after=90),
        )
    assert all(0 < c.done < 70 for c in chains)
    whole = chains_of(start)
    run_chains(start.problem, whole, SETTINGS, left, lambda c: None)
    kept = chains[0].trace.count
    assert kept > 0
    assert np.array_equal(chains[0].trace.read(), whole[0].trace.read()[:kept])


def test_failed_solves_are_counted_by_cause(data):
    """Growth that can explode in finite time, with a prior that likes to."""
    dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2 - 0.5 * x.x}, {"rate": gn.Normal(0.0, 0.3)})
    problem = gn.bind(gn.Model(dynamics, initial={"x": 8.0}, kernel=None, noise=gn.Noise()), data)
    whitening = Whitening(jnp.zeros(problem.size), jnp.eye(problem.size), jnp.eye(problem.size))
    settings = NUTS(warmup=20, draws=4, chains=1)
    state = settings.init(problem, whitening, jnp.array([-0.5, 4.0]), jax.random.key(3))
    state = state._replace(adapt=state.adapt._replace(step_size=jnp.asarray(3.0)))
    _, kept = chunk(problem, whitening, state, jnp.asarray(20), settings, 20)
    failed = np.asarray(kept.failure)
    assert (failed == Status.BLOW_UP).any()
    assert np.all(np.asarray(kept.diverging)[failed != 0])
    assert np.isfinite(kept.log_density).all()
