"""One call from a model and measurements to a posterior."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import jax
import numpy as np
from jax import Array

from gpnode._config import computing
from gpnode.data.observations import Observations
from gpnode.errors import CheckpointError, ModelError
from gpnode.fitting.assembly import assemble
from gpnode.fitting.drafting import Drafting, Show
from gpnode.inference.running import interrupts
from gpnode.inference.running.budget import Budget, OutOfTime, read_budget
from gpnode.inference.running.checkpoint import Checkpoint, check_same, load_start, new_run, read_run
from gpnode.inference.running.executors import ExecutorChoice
from gpnode.inference.running.progress import Display
from gpnode.inference.running.sessions import KeptSession, LiveSession
from gpnode.inference.sampled import with_details
from gpnode.inference.samplers.base import Method, Sampler
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.samplers.registry import METHODS
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.start import Start, disperse
from gpnode.model.model import Model
from gpnode.problem.binding import bind, fingerprint
from gpnode.problem.measuring import sees_path
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
    budget: float | str | None = None,
    draft: Show | None = None,
) -> Posterior:
    """Infer the model's unknowns from the data, from cold.

    Parameters
    ----------
    model, data
        What is known, and what was measured.
    method
        ``Lifted()`` samples the posterior on the surface the data pin down, and is the default for normal noise and up
        to 1000 measurements in a series; ``NUTS()`` is the usual sampler, and the default for all else;
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
    budget
        Time that the fit may take, in seconds or as a text such as ``"5 min"``: the best answer by then is returned,
        and its verdict says what was not reached. If no draw was made in that time, it is the approximation at the
        maximum. With a checkpoint, the same call with a larger budget goes on.
    draft
        A function that is called with a first posterior, the approximation at the maximum, soon after the search and in
        a thread of its own, while chains begin.

    Notes
    -----
    Ctrl-C stops after the chunks under way. With a checkpoint nothing is lost, and ``KeyboardInterrupt`` is raised;
    without one, the draws after the warm-up are returned, marked as interrupted.

    Examples
    --------
    >>> posterior = gn.fit(model, data, method=gn.Laplace(), seed=0, progress=False)
    >>> print(posterior.equations())  # doctest: +ELLIPSIS
    Equations of motion (mean, with 95 % intervals):
    ...
    """
    if not isinstance(method, Method | None):
        kinds = ", ".join(f"gpnode.{kind.__name__}(...)" for kind in METHODS.values())
        raise TypeError(f"method must be one of {kinds}; got {method!r}.")
    _refuse_swapped(model, data)
    seconds = read_budget(budget)
    with Display(progress) as display:
        return run_fit(
            model, data, method or default_method(model, data), seed, display, executor, checkpoint, seconds, draft
        )


def _refuse_swapped(model: object, data: object) -> None:
    """Say what was mixed up, where arguments are not what they should be."""
    if isinstance(model, Observations):
        raise TypeError("fit(model, data): the model comes first, then the data.")
    if not isinstance(model, Model):
        raise TypeError(f"fit(model, data) needs a gpnode.Model(...) first; got {type(model).__name__}.")
    if not isinstance(data, Observations):
        hint = " Wrap it: gpnode.Observations({'x': (times, values)})." if isinstance(data, Mapping) else ""
        raise TypeError(f"fit(model, data) needs gpnode.Observations(...) as data; got {type(data).__name__}.{hint}")


@computing()
def run_fit(
    model: Model,
    data: Observations,
    method: Method,
    seed: int,
    display: Display,
    executor: ExecutorChoice,
    checkpoint: str | Path | None,
    budget: float | None = None,
    draft: Show | None = None,
) -> Posterior:
    """As :func:`fit`, on a display that is already there, with a ``budget`` in seconds."""
    _refuse_noise(model, data, method)
    begun, allowed = time.perf_counter(), Budget(budget)
    with interrupts.noted(), ExitStack() as stack:
        kept: Checkpoint | None = None
        if checkpoint is not None:
            run = new_run(fingerprint(model, data), seed, method)
            kept = stack.enter_context(Checkpoint(Path(checkpoint), run))
        start_key, disperse_key, chain_key = _keys(seed)
        display.say("reading the data")
        start, points = _find_or_load_start(model, data, method, (start_key, disperse_key), display, kept, allowed)
        drafting = Drafting(draft if method.is_sample else None, model, data, seed, start)
        try:
            with drafting:
                start, sampled = method.draw(start, points, chain_key, LiveSession(display, executor, kept, allowed))
        except OutOfTime:
            display.say("the time is up before the warm-up has ended: approximating at the maximum")
            method = Laplace()
            start, sampled = method.draw(start, points, chain_key, LiveSession(display, executor, None))
            sampled = with_details(sampled, budget=budget, out_of_time=True)
        display.say("checking the solver's accuracy")
        return assemble(model, data, method, seed, start, sampled, time.perf_counter() - begun)


def _refuse_noise(model: Model, data: Observations, method: Method) -> None:
    other = _not_normal(model, data) if method.needs_normal_noise else []
    if other:
        raise ModelError(
            f"{other[0]!r} has noise that is not normal or depends on the path, or limits, which "
            f"{type(method).__name__} cannot sample. Leave the method open, or use NUTS()."
        )


def _not_normal(model: Model, data: Observations) -> list[str]:
    """Variables whose measurements are not normal about their predictions, with a width that is known without these."""
    limited = {s.variable for s in data.series if s.limits.any()}
    return [v for v in data.variables if v in limited or not model.noise_of(v).is_normal or sees_path(model, data, v)]


def default_method(model: Model, data: Observations) -> Sampler:
    """The lifted sampler, unless noise is not normal, or a block too long for the dense whitening it needs."""
    longest = max(s.times.size for s in data.series)
    return NUTS() if longest > _LONGEST_LIFTED or _not_normal(model, data) else Lifted()


def open_checkpoint(folder: str | Path, model: Model, data: Observations) -> Posterior:
    """The posterior of the draws that are in a checkpoint so far, marked as interrupted if there are more to come.

    The run may go on meanwhile.

    >>> done = gn.fit(model, data, method=gn.Lifted(draws=50), progress=False, checkpoint="run")
    >>> gn.open_checkpoint("run", model, data).num_draws == done.num_draws
    True
    """
    folder = Path(folder)
    run = read_run(folder)
    if run is None:
        raise CheckpointError(f"there is no checkpoint in {folder}.")
    check_same(folder, new_run(fingerprint(model, data), run.seed, run.method))
    loaded = load_start(folder, model, data)
    if loaded is None:
        raise CheckpointError(f"the run in {folder} has no draws yet: it is still looking for a start.")
    session = KeptSession(folder)
    *_, chain_key = _keys(run.seed)
    start, sampled = run.method.draw(*loaded, chain_key, session)
    return assemble(model, data, run.method, run.seed, start, sampled, session.seconds)


def _keys(seed: int) -> tuple[Array, Array, Array]:
    """For the search, for first points, and for chains."""
    start_key, disperse_key, chain_key = jax.random.split(jax.random.key(seed), 3)
    return start_key, disperse_key, chain_key


def _find_or_load_start(
    model: Model,
    data: Observations,
    method: Method,
    keys: tuple[Array, Array],
    display: Display,
    checkpoint: Checkpoint | None,
    budget: Budget,
) -> tuple[Start, list[np.ndarray]]:
    """Where chains begin, in the coordinates of their whitenings: from the checkpoint, or by a search."""
    loaded = None if checkpoint is None else checkpoint.load_start(model, data)
    if loaded is not None:
        return loaded
    start = find_start(bind(model, data), keys[0], method, display.say, budget)
    points = disperse(start, method.num_chains, keys[1])
    if checkpoint is not None and not start.hurried:
        checkpoint.save_start(start, points)
    return start, points
