"""One call from a model and measurements to a posterior."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import jax
import numpy as np
from jax import Array

from gpnode._config import computing
from gpnode.data.observations import Observations
from gpnode.errors import CheckpointError
from gpnode.fitting.assembly import Method, Sampled, assemble, from_chains, from_laplace
from gpnode.inference.running import interrupts
from gpnode.inference.running.chains import Chain, Sampler, run_chains, start_chains
from gpnode.inference.running.checkpoint import Checkpoint, check_same, load_start, new_run, read_chain, read_run
from gpnode.inference.running.executors import ExecutorChoice
from gpnode.inference.running.progress import Display
from gpnode.inference.running.traces import Trace
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.starting.ladder import Start, disperse, find_start, whitenings_of, with_finer_steps
from gpnode.inference.stopping.agreement import Found, find_agreement, goals, looks, thin_to_equal_length
from gpnode.inference.stopping.statistics import disagreement
from gpnode.model.model import Model
from gpnode.problem.binding import bind, fingerprint
from gpnode.results.posterior import Posterior

_LONGEST_LIFTED = 1000  # measurements in a block


def fit(
    model: Model,
    data: Observations,
    *,
    method: Method | None = None,
    seed: int = 0,
    progress: bool = True,
    executor: ExecutorChoice = None,
    checkpoint: str | Path | None = None,
) -> Posterior:
    """Infer the model's unknowns from the data, from cold.

    Parameters
    ----------
    model, data
        What is known, and what was measured.
    method
        ``Lifted()`` samples the posterior on the surface the data pin down, and is the default for up
        to 1000 measurements in a series; ``NUTS()`` is the usual sampler, and the default beyond;
        ``Laplace()`` approximates quickly.
    seed
        Same seed, same numbers.
    progress
        Show stages, draws, time left, divergences and the worst R-hat on standard error.
    executor
        Where chunks of chains run: any ``concurrent.futures.Executor``, or a function that makes one, which is
        called again if its workers die. By default threads of this process, one per core. The numbers are the same.
    checkpoint
        A directory to keep the run in, chunk by chunk. The same call goes on where an earlier one stopped, however
        it stopped, and ends with the same numbers as without a stop. A finished run goes on if asked for more draws.

    Notes
    -----
    Ctrl-C stops after the chunks under way. With a checkpoint nothing is lost, and ``KeyboardInterrupt`` is raised;
    without one, the draws after the warm-up are returned, marked as interrupted.
    """
    if not isinstance(method, Method | None):
        raise TypeError(f"method must be gpnode.Lifted(...), gpnode.NUTS(...) or gpnode.Laplace(...); got {method!r}.")
    with Display(progress) as display:
        return run_fit(model, data, method or default_method(data), seed, display, executor, checkpoint)


@computing()
def run_fit(
    model: Model,
    data: Observations,
    method: Method,
    seed: int,
    display: Display,
    executor: ExecutorChoice,
    checkpoint: str | Path | None,
) -> Posterior:
    """As :func:`fit`, on a display that is already there."""
    begun = time.perf_counter()
    with interrupts.noted(), ExitStack() as stack:
        kept: Checkpoint | None = None
        if checkpoint is not None:
            run = new_run(fingerprint(model, data), seed, method)
            kept = stack.enter_context(Checkpoint(Path(checkpoint), run))
        start_key, spread_key, chain_key = jax.random.split(jax.random.key(seed), 3)
        display.say("reading the data")
        start, points = _find_or_load_start(model, data, method, (start_key, spread_key), display, kept)
        if isinstance(method, Laplace):
            display.say("drawing from the approximation")
            sampled = from_laplace(start, method, chain_key)
        else:
            start, sampled = _sample(start, points, method, chain_key, display, executor, kept)
        display.say("checking the solver's accuracy")
        return assemble(model, data, method, seed, start, sampled, time.perf_counter() - begun)


def default_method(data: Observations) -> Lifted | NUTS:
    """The lifted sampler, unless a block of data is too long for the dense whitening it needs."""
    return Lifted() if max(s.times.size for s in data.series) <= _LONGEST_LIFTED else NUTS()


def open_checkpoint(folder: str | Path, model: Model, data: Observations) -> Posterior:
    """The posterior of the draws that are in a checkpoint so far, marked as interrupted if there are more to come.

    The run may go on meanwhile.
    """
    folder = Path(folder)
    run = read_run(folder)
    if run is None:
        raise CheckpointError(f"there is no checkpoint in {folder}.")
    check_same(folder, new_run(fingerprint(model, data), run.seed, run.method))
    loaded = load_start(folder, model, data)
    if loaded is None:
        raise CheckpointError(f"the run in {folder} has no draws yet: it is still looking for a start.")
    start, points = loaded
    method = run.method
    if isinstance(method, Laplace):
        _, _, key = jax.random.split(jax.random.key(run.seed), 3)
        return assemble(model, data, method, run.seed, start, from_laplace(start, method, key), 0.0)
    chains = [read_chain(folder, i, method.warmup) for i in range(len(points))]
    ends = goals(method)
    if any(c is None or c[1].count == 0 for c in chains):
        done = min(0 if c is None else int(c[0]["done"]) for c in chains)
        raise CheckpointError(
            f"the run in {folder} has no draws yet: {done} of {method.warmup} steps of the warm-up are done."
        )
    traces = [c[1] for c in chains if c is not None]
    rows = _rows_so_far(traces, _inactive(traces, ends), ends[-1])
    failures = np.sum([c[0]["warmup_failures"] for c in chains if c is not None], axis=0)
    seconds = sum(float(c[0]["seconds"]) for c in chains if c is not None)
    at_a_goal = max(map(len, rows)) in ends
    found = _find_agreement(rows, ends) if at_a_goal else Found(False, rows)
    sampled = from_chains(found.rows, [len(r) for r in rows], failures, interrupted=not found.agreed)
    return assemble(model, data, method, run.seed, start, sampled, seconds)


def _inactive(traces: Sequence[Trace], ends: tuple[int, ...]) -> frozenset[int]:
    """Which chains rested since the last goal that some have passed."""
    passed = [end for end in ends if end < max(trace.count for trace in traces)]
    if not passed or len({trace.count for trace in traces}) == 1:
        return frozenset()
    return find_agreement([trace.read()[: passed[-1]] for trace in traces], ends[0]).inactive


def _rows_so_far(traces: Sequence[Trace], inactive: frozenset[int], most: int) -> list[np.ndarray]:
    """Rows of each chain, equally many but for those that rest, and at most so many."""
    others = min(trace.count for i, trace in enumerate(traces) if i not in inactive)
    stops = [trace.count if i in inactive else others for i, trace in enumerate(traces)]
    return _first_rows(traces, [min(stop, most) for stop in stops])


def _find_or_load_start(
    model: Model,
    data: Observations,
    method: Method,
    keys: tuple[Array, Array],
    display: Display,
    kept: Checkpoint | None,
) -> tuple[Start, list[np.ndarray]]:
    """Where chains begin, in the coordinates of their modes: from the checkpoint, or by a search."""
    loaded = None if kept is None else kept.load_start(model, data)
    if loaded is not None:
        return loaded
    start = find_start(bind(model, data), keys[0], display.say, method if isinstance(method, Lifted) else None)
    points = [] if isinstance(method, Laplace) else disperse(start, method.chains, keys[1])
    if kept is not None:
        kept.save_start(start, points)
    return start, points


def _sample(
    start: Start,
    points: list[np.ndarray],
    settings: Sampler,
    key: Array,
    display: Display,
    executor: ExecutorChoice,
    kept: Checkpoint | None,
) -> tuple[Start, Sampled]:
    """What chains leave behind, and the start they had: another one if the solver's steps had to be finer."""
    display.say("compiling the sampler")
    chains = start_chains(start.problem, whitenings_of(start, settings.chains), points, key, settings)
    if kept is not None:
        for chain in chains:
            kept.restore(chain, settings.warmup)
    keep = _forget if kept is None else kept.keep
    ends = goals(settings)
    traces = [chain.trace for chain in chains]
    stops, inactive = [0] * len(chains), frozenset[int]()
    try:
        for goal in (*looks(ends), *ends):

            def show(_: list[Chain], goal: int = goal, inactive: frozenset[int] = inactive) -> None:
                display.chains(chains, settings, max(goal, ends[0]), inactive)

            active = [chain for i, chain in enumerate(chains) if i not in inactive]
            stops = [stop if i in inactive else goal for i, stop in enumerate(stops)]
            run_chains(start.problem, active, settings, settings.warmup + goal, show, executor, keep)
            rows = _first_rows(traces, stops)
            if goal < ends[-1]:
                draws = np.stack([r["draw"] for r in thin_to_equal_length(rows)])
                finer = with_finer_steps(start, draws, settings.chains, early=goal not in ends)
                if finer is not None:
                    display.say(
                        "the solver's steps are too coarse where the chains went: beginning there with finer ones"
                    )
                    if kept is not None:
                        kept.begin_again(*finer)
                    return _sample(*finer, settings, key, display, executor, kept)
            if goal not in ends:
                continue
            found = _find_agreement(rows, ends)
            if found.agreed:
                break
            inactive = found.inactive
            display.say(_going_on(rows, inactive))
    except KeyboardInterrupt:
        if kept is not None or not all(trace.count for trace in traces):
            raise
        rows = _rows_so_far(traces, inactive, goal)
        found = Found(False, rows)
    failures = np.sum([c.warmup_failures for c in chains], axis=0)
    return start, from_chains(found.rows, [len(r) for r in rows], failures, interrupted=not found.agreed)


def _first_rows(traces: Sequence[Trace], stops: Sequence[int]) -> list[np.ndarray]:
    return [trace.read()[:stop] for trace, stop in zip(traces, stops, strict=True)]


def _find_agreement(rows: list[np.ndarray], ends: tuple[int, ...]) -> Found:
    """Whether to stop at a goal; at the last one in any case."""
    at_the_end = max(map(len, rows)) == ends[-1]
    if len(ends) == 1:
        return Found(at_the_end, rows)
    found = find_agreement(rows, ends[0])
    return found._replace(agreed=found.agreed or at_the_end)


def _going_on(rows: list[np.ndarray], inactive: frozenset[int]) -> str:
    """What to say at a goal that is not the end."""
    active = [own for i, own in enumerate(rows) if i not in inactive]
    worst = disagreement(np.stack([own["draw"] for own in thin_to_equal_length(active)]))
    some = f" with {len(active)} of {len(rows)} chains, for the others know their modes well" if inactive else ""
    return f"after {max(map(len, active))} draws each, {worst}: going on{some}"


def _forget(chain: Chain) -> None:
    """Without a checkpoint, draws are in memory only."""
