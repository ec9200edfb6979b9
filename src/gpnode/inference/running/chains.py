"""Running chains as folds over chunks, on any executor.

A chunk is a pure function of a state. Who runs it, and how long it is, does not change a bit
of the result, so that progress, interruption, checkpoints and parallel runs are all the same thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import compiled_for_few_calls, computing
from gpnode.inference.running.executors import ExecutorChoice, Task, Workers, work_off
from gpnode.inference.running.traces import MemoryTrace, Trace, as_rows
from gpnode.inference.running.transport import Sendable
from gpnode.inference.samplers.base import Chunking, Sampler
from gpnode.inference.stopping.schedule import Goal
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import compiled_for_sampling
from gpnode.solvers import Status


@dataclass
class Chain:
    """One chain: where it is, and what it has left behind since its first warm-up ended.

    ``settled`` counts rows since its last warm-up ended, ``warm`` steps of a warm-up since that began.
    ``warmup_failures`` (statuses,) are those of all warm-ups by the status of their solves.
    """

    index: int
    whitening: Whitening
    state: Any
    trace: Trace = field(default_factory=MemoryTrace)
    warmup_failures: np.ndarray = field(default_factory=lambda: np.zeros(len(Status), dtype=int))
    divergences: int = 0
    done: int = 0
    warm: int = 0
    settled: int = 0
    seconds: float = 0.0

    def steps_to(self, goal: Goal, warmup: int) -> int:
        """Steps to a goal, if the chain does not warm up again."""
        return goal.left(self.trace.count, self.settled, 0 if self.settled else max(0, warmup - self.warm))

    def next_count(self, left: int, chunking: Chunking) -> int:
        """Length of the next chunk if there are ``left`` steps to make."""
        count = chunking.first_steps
        if self.done:
            pace = self.seconds / self.done
            count = int(np.clip(chunking.seconds / max(pace, 1e-9), 1, chunking.most_steps))
        return min(count, left)

    def absorb(self, state: Any, rows: np.ndarray, seconds: float) -> None:
        """Take in a finished chunk. What comes before the first warm-up has ended leaves no trace."""
        warming = np.asarray(rows["warming"])
        self.warmup_failures += _count(rows["failure"][warming])
        ended = int(np.argmin(warming)) if not self.trace.count and warming.any() else 0
        leaves_none = not self.trace.count and warming.all()
        if not leaves_none:
            self.trace.append(rows[ended:])
        if warming.any():
            settled = len(rows) - 1 - int(np.flatnonzero(warming)[-1])
            self.warm = int(warming.sum()) + (0 if self.settled else self.warm)
            self.settled, self.divergences = settled, 0
        else:
            self.settled += len(rows)
        self.divergences += int(rows["diverging"][len(rows) - min(self.settled, len(rows)) :].sum())
        self.state, self.done, self.seconds = state, self.done + len(rows), self.seconds + seconds


def _count(statuses: np.ndarray) -> np.ndarray:
    return np.bincount(statuses, minlength=len(Status))


def start_chains(
    problem: Problem, whitenings: list[Whitening], starts: list[np.ndarray], key: Array, sampler: Sampler
) -> list[Chain]:
    """Chains before their first step. A chain's key depends on its index alone."""
    return [
        Chain(i, whitening, first_state(problem, whitening, z, jax.random.fold_in(key, i), sampler))
        for i, (whitening, z) in enumerate(zip(whitenings, starts, strict=True))
    ]


def first_state(problem: Problem, whitening: Whitening, z: np.ndarray, key: Array, sampler: Sampler) -> Any:
    """The sampler's state before the first step from ``z``, in the types it has when read from a file."""
    return jax.tree.map(_plain, _init(sampler.for_steps(), problem, whitening, jnp.asarray(z), key))


@compiled_for_few_calls
def _init(sampler: Sampler, problem: Problem, whitening: Whitening, z: Array, key: Array) -> Any:
    return sampler.init(problem, whitening, z, key)


def _plain(leaf: Array) -> Array:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else jnp.asarray(np.asarray(leaf))


def run_chains(
    problem: Problem | Sequence[Problem],
    chains: list[Chain],
    sampler: Sampler,
    left: Callable[[Chain], int],
    on_progress: Callable[[list[Chain]], None],
    executor: ExecutorChoice = None,
    keep: Callable[[Chain], None] = lambda chain: None,
) -> None:
    """Advance chains while ``left`` says how many steps are left to make; ``keep`` is called with each that moved on.

    There is one ``problem`` for all of them, or one for each.
    Without an executor, chains run side by side in threads, one per core. When interrupted, chunks under way are
    still taken in before the interrupt is raised again.
    """
    shared = sampler.for_steps()
    problems = [problem] * len(chains) if isinstance(problem, Problem) else problem
    made = {id(p): Sendable((p, shared)) for p in problems}
    sendables = {id(chain): made[id(p)] for chain, p in zip(chains, problems, strict=True)}

    def next_chunk(chain: Chain) -> Task | None:
        count = chain.next_count(left(chain), sampler.chunking)
        if count <= 0:
            return None
        room = sampler.chunking.most_steps
        return Task(chain, run_chunk, (sendables[id(chain)], chain.whitening, chain.state, count, room))

    def absorb(chain: Chain, result: tuple[Any, np.ndarray, float]) -> Task | None:
        chain.absorb(*result)
        keep(chain)
        return next_chunk(chain)

    def fail(chain: Chain, error: Exception) -> None:
        raise error

    with computing(), Workers(executor, len(chains)) as workers:
        first = [task for task in map(next_chunk, chains) if task is not None]
        work_off(workers, first, absorb, fail, lambda: on_progress(chains))


def run_chunk(
    sendable: Sendable[tuple[Problem, Sampler]], whitening: Whitening, state: Any, count: int, room: int
) -> tuple[Any, np.ndarray, float]:
    """``count`` steps from ``state``: the state after them, what they left behind, and how long they took.

    A worker in any process may call this, any number of times, with the same result.
    """
    problem, sampler = sendable.content
    begun = time.perf_counter()
    with computing():
        state, kept = jax.block_until_ready(chunk(problem, whitening, state, jnp.asarray(count), sampler, room))
    rows = as_rows(jax.tree.map(lambda a: np.asarray(a)[:count], kept))
    return state, rows, time.perf_counter() - begun


@compiled_for_sampling
def chunk(
    problem: Problem, whitening: Whitening, state: Any, count: Array, sampler: Sampler, room: int
) -> tuple[Any, Any]:
    """``count`` steps, at most ``room``; the rest of the returned arrays (room, ...) is empty.

    ``count`` is not baked into the compiled code, so chunks of any length give the same bits.
    """
    empty = jax.tree.map(lambda a: jnp.zeros((room, *a.shape), a.dtype), sampler.blank(problem.size))

    def body(carry: tuple[Array, Any, Any]) -> tuple[Array, Any, Any]:
        i, state, kept = carry
        state, transition = sampler.step(problem, whitening, state)
        return i + 1, state, jax.tree.map(lambda buffer, new: buffer.at[i].set(new), kept, transition)

    _, state, kept = jax.lax.while_loop(lambda c: c[0] < count, body, (jnp.asarray(0), state, empty))
    return state, kept
