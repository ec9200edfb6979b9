"""What the user sees while a fit runs: draws, time left, divergences, worst R-hat."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gpnode.inference.running import interrupts
from gpnode.inference.running.chains import Chain
from gpnode.inference.samplers.base import Sampler
from gpnode.inference.stopping.schedule import Goal
from gpnode.inference.stopping.statistics import rank_rhat

_RHAT_EVERY = 3.0  # seconds; R-hat over all parameters is not free
_GUESS_PART = 0.01  # of all steps, before saying how much is left
_MOST_FOR_RHAT = 1000  # draws per chain, spread over all there are, so that long runs do not slow down
_FEWEST_FOR_RHAT = 50  # draws per chain before R-hat means anything


class Display:
    """A live bar on a terminal, a line now and then elsewhere, nothing if not ``enabled``.

    ``line_every`` so many seconds there is a line; after ``guess_after`` seconds it says how much time is left.
    """

    def __init__(self, enabled: bool, line_every: float = 10.0, guess_after: float = 1.0) -> None:
        self._line_every, self._guess_after = line_every, guess_after
        self._console = Console(file=sys.stderr)
        self._live = enabled and self._console.is_terminal
        self._plain = enabled and not self._live
        self._begun = time.perf_counter()
        self._last_line = self._last_rhat = -np.inf
        self._rhat: float | None = None
        self._first: tuple[float, int] | None = None  # when the first chunks were done, and how many steps they had
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, note="")

    def __enter__(self) -> Display:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def say(self, what: str) -> None:
        """Name the present stage; an interrupt that was noted is raised here."""
        interrupts.check()
        self._bar.update(self._task, description=what)
        if self._plain:
            self._line(what)

    def chains(self, chains: list[Chain], sampler: Sampler, goal: Goal, inactive: frozenset[int] = frozenset()) -> None:
        """Show how far chains that are not ``inactive``, by index, are on their way to a ``goal``."""
        left = sum(max(0, c.steps_to(goal, sampler.warmup)) for i, c in enumerate(chains) if i not in inactive)
        done = sum(c.done for c in chains)
        total = done + left
        warming = any(not c.trace.count for c in chains)
        stage = "warming up" if warming else "sampling"
        note = self._note(chains, [c for i, c in enumerate(chains) if i not in inactive])
        self._bar.update(self._task, description=stage, completed=done, total=total, note=note)
        now = time.perf_counter()
        # The first chunks wait for the compiler, and tell nothing about the rest.
        self._first = (now, done) if self._first is None and done else self._first
        if self._plain and now - self._last_line > self._line_every:
            self._line(f"{stage}: {done}/{total} steps{self._left(now, done, total)}, {note}")

    def items(self, done: int, total: int, failed: int) -> None:
        """Show how many of many fits are done."""
        note = f"{failed} failed" if failed else ""
        self._bar.update(self._task, description="fitting", completed=done, total=total, note=note)
        now = time.perf_counter()
        if self._plain and (done == total or now - self._last_line > self._line_every):
            self._line(f"{done} of {total} fits done{self._left(now, done, total)}{', ' + note if note else ''}")
        self._first = (now, done) if self._first is None and done else self._first

    def _left(self, now: float, done: int, total: int) -> str:
        """How long it will take, once enough is done to tell."""
        since, before = self._first or (now, done)
        if now - since < self._guess_after or done - before < _GUESS_PART * total:
            return ""
        return f", about {(now - since) * (total - done) / (done - before):.0f} s left"

    def _note(self, chains: list[Chain], active: list[Chain]) -> str:
        divergent = sum(c.divergences for c in chains)
        compared = active if len(active) > 1 else chains
        fewest = min(c.trace.count for c in compared)
        now = time.perf_counter()
        if fewest >= _FEWEST_FOR_RHAT and now - self._last_rhat > _RHAT_EVERY:
            some = np.linspace(0, fewest - 1, min(fewest, _MOST_FOR_RHAT)).astype(int)
            draws = np.stack([c.trace.read()["draw"][some] for c in compared])
            self._rhat = max(rank_rhat(draws[:, :, i]) for i in range(draws.shape[2]))
            self._last_rhat = time.perf_counter()
        rhat = "" if self._rhat is None else f", worst R-hat {self._rhat:.3f}"
        return f"{divergent} divergences{rhat}"

    def _line(self, text: str) -> None:
        now = time.perf_counter()
        print(f"[{now - self._begun:5.0f} s] {text}", file=sys.stderr, flush=True)
        self._last_line = now
