"""Running chains as folds over chunks, on any executor.

A chunk is a pure function of a state. Who runs it, and how long it is, does not change a bit
of the result, so that progress, interruption and parallel runs are all the same thing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from threadpoolctl import threadpool_limits

from ..problem import Problem
from . import gibbs, nuts
from .frame import Frame
from .gibbs import Lifted
from .nuts import NUTS

Sampler = NUTS | Lifted
State = nuts.State | gibbs.State
Transition = nuts.Transition | gibbs.Transition

_ROOM = 100  # most steps in a chunk
_FIRST = 5  # steps in the first one, before the speed is known
_SECONDS = 1.5  # aim for a chunk, so that progress shows and an interrupt is answered


@dataclass
class Chain:
    """One chain: where it is, and what it has left behind since the warm-up ended."""

    index: int
    frame: Frame
    state: State
    kept: list[Transition] = field(default_factory=list)
    warmup_failures: list[np.ndarray] = field(default_factory=list)
    done: int = 0
    seconds: float = 0.0

    def next_count(self, total: int) -> int:
        """Length of the next chunk."""
        pace = self.seconds / self.done if self.done else None
        count = _FIRST if pace is None else int(np.clip(_SECONDS / max(pace, 1e-9), 1, _ROOM))
        return min(count, total - self.done)

    def absorb(self, state: State, transitions: Transition, seconds: float, count: int, warmup: int) -> None:
        """Take in a finished chunk; only steps after the warm-up are kept."""
        warm = int(np.clip(warmup - self.done, 0, count))
        arrays = jax.tree.map(lambda a: np.asarray(a[:count]), transitions)
        self.warmup_failures.append(arrays.failure[:warm])
        if warm < count:
            self.kept.append(jax.tree.map(lambda a: a[warm:], arrays))
        self.state, self.done, self.seconds = state, self.done + count, self.seconds + seconds

    @property
    def num_kept(self) -> int:
        return sum(t.draw.shape[0] for t in self.kept)

    def transitions(self, first: int) -> Transition:
        """The first kept steps, joined."""
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:first], *self.kept)


def start_chains(
    problem: Problem, frames: list[Frame], starts: list[np.ndarray], key: Array, settings: Sampler
) -> list[Chain]:
    """Chains before their first step. A chain's key depends on its index alone."""
    return [
        Chain(i, frame, _kernel(settings).init(problem, frame, jnp.asarray(z), jax.random.fold_in(key, i), settings))
        for i, (frame, z) in enumerate(zip(frames, starts, strict=True))
    ]


def run_chains(
    problem: Problem,
    chains: list[Chain],
    settings: Sampler,
    on_progress: Callable[[list[Chain]], None],
    executor: Executor | None = None,
) -> bool:
    """Advance all chains to the end. Returns False if interrupted; the chains then hold what there is.

    Without an executor, chains run side by side in threads, one per core.
    """
    own = None if executor else ThreadPoolExecutor(min(len(chains), _cores()))
    pool = executor or own
    assert pool is not None
    total = settings.warmup + settings.draws
    running: dict[Future, tuple[Chain, int]] = {}

    def submit(chain: Chain) -> None:
        count = chain.next_count(total)
        if count > 0:
            future = pool.submit(_run_chunk, problem, chain.frame, chain.state, count, settings)
            running[future] = (chain, count)

    def absorb(finished: set[Future]) -> list[Chain]:
        ready = []
        for future in finished:
            chain, count = running.pop(future)
            state, transitions, seconds = future.result()
            chain.absorb(state, transitions, seconds, count, settings.warmup)
            ready.append(chain)
        return ready

    # A second thread of the linear algebra library would only wait, at full speed, for the next small matrix.
    limits = threadpool_limits(1, user_api="blas")
    try:
        for chain in chains:
            submit(chain)
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for chain in absorb(finished):
                submit(chain)
            on_progress(chains)
        return True
    except KeyboardInterrupt:
        for future in [f for f in running if f.cancel()]:
            running.pop(future)
        absorb(set(wait(running).done))
        return False
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
        limits.restore_original_limits()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kernel(settings: Sampler) -> ModuleType:
    return nuts if isinstance(settings, NUTS) else gibbs


def _run_chunk(
    problem: Problem, frame: Frame, state: State, count: int, settings: Sampler
) -> tuple[State, Transition, float]:
    begun = time.perf_counter()
    result = jax.block_until_ready(chunk(problem, frame, state, jnp.asarray(count), settings, _ROOM))
    return *result, time.perf_counter() - begun


@eqx.filter_jit
def chunk(
    problem: Problem, frame: Frame, state: State, count: Array, settings: Sampler, room: int
) -> tuple[State, Transition]:
    """``count`` steps, at most ``room``; the rest of the returned arrays (room, ...) is empty.

    ``count`` is not baked into the compiled code, so chunks of any length give the same bits.
    """
    step = _kernel(settings).step
    shapes = jax.eval_shape(lambda s: step(problem, frame, s, settings)[1], state)
    empty = jax.tree.map(lambda s: jnp.zeros((room, *s.shape), s.dtype), shapes)

    def body(carry: tuple[Array, State, Transition]) -> tuple[Array, State, Transition]:
        i, state, kept = carry
        state, transition = step(problem, frame, state, settings)
        return i + 1, state, jax.tree.map(lambda buffer, new: buffer.at[i].set(new), kept, transition)

    _, state, kept = jax.lax.while_loop(lambda c: c[0] < count, body, (jnp.asarray(0), state, empty))
    return state, kept
