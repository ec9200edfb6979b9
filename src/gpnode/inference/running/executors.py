"""Tasks on any executor: who runs them does not matter, and a worker that dies costs its task only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from typing import Any, NamedTuple

from gpnode.errors import WorkerError
from gpnode.inference.running.interrupts import check as check_interrupts

ExecutorChoice = Executor | Callable[[], Executor] | None
"""An executor, a function that makes one (which can be called again if its workers die), or threads of our own."""

_LOOK_EVERY = 0.1  # seconds, for interrupts
_MOST_DEATHS = 8  # of workers on one task; a pool that breaks fails the tasks of all its workers


class Task(NamedTuple):
    """A call of a pure function, and who it is for."""

    owner: Any
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Raised(NamedTuple):
    """An error of the task itself, as against one of the worker it ran on."""

    error: Exception


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return _Raised(error)


class Serial(Executor):
    """Runs each task at once in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Workers:
    """An executor that is renewed when its workers die. Use as a context: what was made here is shut down."""

    def __init__(self, choice: ExecutorChoice, most: int) -> None:
        if choice is not None and not isinstance(choice, Executor) and not callable(choice):
            raise TypeError(
                f"executor must be a concurrent.futures.Executor or a function that makes one; got {choice!r}."
            )
        self._choice, self._most = choice, most
        self._borrowed = isinstance(choice, Executor)
        self._executor = choice if isinstance(choice, Executor) else self._make()

    def _make(self) -> Executor:
        if self._choice is None or isinstance(self._choice, Executor):
            return ThreadPoolExecutor(max(1, min(self._most, cores())))
        return self._choice()

    def submit(self, task: Task) -> Future[Any]:
        """Hand a task over."""
        try:
            return self._executor.submit(_call, task.function, *task.arguments)
        except (BrokenExecutor, RuntimeError):  # broken, or shut down because it broke
            self._renew()
            return self._executor.submit(_call, task.function, *task.arguments)

    def _renew(self) -> None:
        if self._borrowed:
            warnings.warn(
                "the executor has lost its workers and cannot go on; the run goes on in threads of this process, with "
                "the same results. To have workers replaced, pass a function that makes the executor.",
                stacklevel=2,
            )
            self._borrowed = False
        else:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._make()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._borrowed:
            self._executor.shutdown(cancel_futures=True)


def work_off(
    workers: Workers,
    tasks: Iterable[Task],
    absorb: Callable[[Any, Any], Task | None],
    fail: Callable[[Any, Exception], None],
    on_progress: Callable[[], None],
    patient: bool = True,
) -> None:
    """Run tasks to the end. ``absorb(owner, result)`` may return the owner's next task; ``fail`` takes its error.

    When interrupted, tasks that are under way are waited for and absorbed if ``patient``, dropped if not, and the
    interrupt is raised again.
    """
    running: dict[Future[Any], Task] = {}
    deaths: dict[int, int] = {}

    def submit(task: Task | None) -> None:
        if task is not None:
            running[workers.submit(task)] = task

    def collect(future: Future[Any]) -> Task | None:
        task = running.pop(future)
        try:
            result = future.result()
        except Exception as error:  # the worker died, or the way to it broke: the task can be run again
            deaths[id(task.owner)] = deaths.get(id(task.owner), 0) + 1
            if deaths[id(task.owner)] > _MOST_DEATHS:
                fail(task.owner, WorkerError(f"{_MOST_DEATHS} workers died on the same task ({error!r:.200})."))
                return None
            return task
        deaths.pop(id(task.owner), None)
        if isinstance(result, _Raised):
            fail(task.owner, result.error)
            return None
        return absorb(task.owner, result)

    try:
        for task in tasks:
            submit(task)
        while running:
            for future in _finished(running, FIRST_COMPLETED):
                submit(collect(future))
            on_progress()
    except KeyboardInterrupt:
        for future in list(running):
            if future.cancel() or not patient:
                running.pop(future)
        for future in _finished(running, ALL_COMPLETED):
            if future.exception() is None:
                collect(future)
        raise
    except BaseException:
        for future in running:
            future.cancel()
        raise


def _finished(running: Iterable[Future[Any]], when: str) -> set[Future[Any]]:
    """Wait for the first, or for all, with an eye on interrupts."""
    while True:
        done, others = wait(running, timeout=_LOOK_EVERY, return_when=when)
        check_interrupts()
        if not others or (done and when == FIRST_COMPLETED):
            return done


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
