"""Many fits over any executor: data sets, seeds, models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpnode._config import computing
from gpnode.data.observations import Observations
from gpnode.fitting.single import default_method, run_fit
from gpnode.inference.running.budget import read_budget
from gpnode.inference.running.chains import Chain
from gpnode.inference.running.executors import ExecutorChoice, Serial, Task, Workers, work_off
from gpnode.inference.running.interrupts import noted
from gpnode.inference.running.progress import Display
from gpnode.inference.running.transport import Sendable
from gpnode.inference.samplers.base import Method, Sampler
from gpnode.inference.stopping.schedule import Goal
from gpnode.model.model import Model
from gpnode.results.posterior import Posterior


@dataclass(frozen=True)
class FitTask:
    """One fit among many; the arguments are those of :func:`gpnode.fit`.

    ``checkpoint`` is a directory as the worker sees it: on a cluster, one on a shared file system. ``context`` is
    handed to what :func:`fit_many` calls with the posterior.

    >>> task = gn.FitTask(model, data, method=gn.Laplace(), seed=3, name="decay")
    """

    model: Model
    data: Observations
    method: Method | None = None
    seed: int = 0
    checkpoint: str | Path | None = None
    budget: float | str | None = None
    name: str | None = None
    context: Any = None


@dataclass(frozen=True)
class FitOutcome:
    """What became of one of many fits: a ``result``, or the ``error`` that prevented it.

    >>> done = gn.fit_many([gn.FitTask(model, data, method=gn.Laplace(), name="decay")], progress=False)
    >>> done[0].name, done[0].error
    ('decay', None)
    """

    name: str
    result: Any
    error: Exception | None

    @property
    def ok(self) -> bool:
        return self.error is None


def fit_many(
    tasks: Iterable[FitTask],
    *,
    executor: ExecutorChoice = None,
    then: Callable[[Posterior, Any], Any] | None = None,
    progress: bool = True,
) -> list[FitOutcome]:
    """Fit each of ``tasks``, side by side, and return what became of them in the same order.

    A fit that fails is reported in its outcome, and the others go on. Chains of one fit run one after the other;
    numbers are those of :func:`gpnode.fit`.

    Parameters
    ----------
    tasks
        What to fit.
    executor
        Where fits run, as for :func:`gpnode.fit`: by default threads of this process, one per core.
    then
        Called with each posterior and its task's ``context``, where the fit was made; what it returns becomes the
        result. With many fits it saves keeping, and sending, all of their draws.
    progress
        Show how many are done on standard error.

    Ctrl-C stops all fits after the chunks under way; those with a checkpoint go on there when called again.

    Examples
    --------
    >>> tasks = [gn.FitTask(model, data, method=gn.Laplace(), seed=seed) for seed in range(2)]
    >>> [outcome.error for outcome in gn.fit_many(tasks, progress=False)]
    [None, None]
    """
    items = [_Item(i, task) for i, task in enumerate(tasks)]
    halt = _Halt()

    def absorb(item: _Item, result: Sendable[Any]) -> None:
        item.outcome = FitOutcome(item.name, result.content, None)

    def fail(item: _Item, error: Exception) -> None:
        item.outcome = FitOutcome(item.name, None, error)

    def show() -> None:
        outcomes = [item.outcome for item in items if item.outcome is not None]
        display.items(len(outcomes), len(items), sum(not o.ok for o in outcomes))

    with noted(), Display(progress) as display, computing(), Workers(executor, len(items)) as workers:
        display.say(f"fitting {len(items)} problems")
        try:
            calls = [Task(item, _run, (Sendable((item.task, then)), halt)) for item in items]
            work_off(workers, calls, absorb, fail, show, patient=False)
        except KeyboardInterrupt:
            halt.set()
            raise
    return [item.outcome for item in items if item.outcome is not None]


class _Item:
    def __init__(self, index: int, task: FitTask) -> None:
        self.task, self.name = task, str(index) if task.name is None else task.name
        self.outcome: FitOutcome | None = None


class _Halt:
    """Tells fits in threads of this process to stop; in other processes it does nothing."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __reduce__(self) -> tuple[type[_Halt], tuple[()]]:
        return _Halt, ()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt


class _Quiet(Display):
    """Shows nothing, and stops the fit at its next sign of life after ``halt``."""

    def __init__(self, halt: _Halt) -> None:
        super().__init__(False)
        self._halt = halt

    def say(self, what: str) -> None:
        self._halt.check()

    def chains(self, chains: list[Chain], sampler: Sampler, goal: Goal, inactive: frozenset[int] = frozenset()) -> None:
        self._halt.check()


def _run(sendable: Sendable[tuple[FitTask, Callable[[Posterior, Any], Any] | None]], halt: _Halt) -> Sendable[Any]:
    task, then = sendable.content
    method = task.method or default_method(task.model, task.data)
    with computing(), _Quiet(halt) as display:
        posterior = run_fit(
            task.model, task.data, method, task.seed, display, Serial(), task.checkpoint, read_budget(task.budget)
        )
        return Sendable(posterior if then is None else then(posterior, task.context), lasting=False)
