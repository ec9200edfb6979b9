"""Simulation of what a file says, events and all: one step after the other, on plain numbers."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpnode.errors import SbmlError
from gpnode.formats.sbml.running import Running
from gpnode.formats.sbml.system import System

_ROUNDING = 1e-13  # of a time
_COST_OF_IMPLICIT = 50  # steps of the solver that is tried when the first one fails count that much


@dataclass(frozen=True)
class Simulation:
    """How files are simulated.

    ``rtol`` and ``atol`` bound errors of a step, ``most_steps`` the work, ``most_happenings`` how many events can
    follow one another at one time. Events of the same priority happen in an order that ``seed`` draws.
    """

    rtol: float = 1e-9
    atol: float = 1e-12
    most_steps: int = 100_000
    most_happenings: int = 2_000
    seed: int = 0

    def run(
        self, system: System, times: Sequence[float], numbers: Mapping[str, float] | None = None
    ) -> dict[str, np.ndarray]:
        """Values (times,) of every identifier at ``times``, in order from 0 on; ``numbers`` replace the file's."""
        wanted = np.asarray(times, dtype=float).ravel()
        if not wanted.size or not np.isfinite(wanted).all() or (np.diff(wanted) < 0).any() or wanted[0] < 0:
            raise SbmlError("times of a simulation must be finite numbers that increase, from 0 on.")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a solver warns of, another one or an error deals with
            return _Course(self, system, wanted, numbers or {}).run()


@dataclass
class _Pending:
    """Something that has been triggered and is going to happen."""

    index: int
    due: float
    values: list[float] | None  # of its changes, if it knows them already


class _Course:
    """One simulation."""

    def __init__(self, how: Simulation, system: System, times: np.ndarray, numbers: Mapping[str, float]) -> None:
        self.how, self.times = how, times
        self.running = Running(system, numbers)
        self.happenings = system.happenings
        self.pending: list[_Pending] = []
        self.chance = random.Random(how.seed)
        self.rows: list[list[float]] = []
        self.steps = 0
        self.true = [happening.true_before for happening in system.happenings]

    def run(self) -> dict[str, np.ndarray]:
        running, end = self.running, float(self.times[-1])
        t, y = 0.0, self._settle(0.0, running.starts())
        self._record_until(t, lambda _: y)
        while len(self.rows) < len(self.times):
            target = min([end, *(p.due for p in self.pending)])
            t, y = self._advance(t, y, target)
            y = self._settle(t, y)
            self._record_until(t, lambda _, y=y: y)  # type: ignore[misc]
        table = np.asarray(self.rows, dtype=float).reshape(len(self.rows), -1)
        return {name: table[:, i] for i, name in enumerate(running.identifiers)}

    # -- paths -----------------------------------------------------------------------------

    def _record_until(self, t: float, path: Callable[[float], np.ndarray], inclusive: bool = True) -> None:
        while len(self.rows) < len(self.times):
            at = float(self.times[len(self.rows)])
            if at > t or (at == t and not inclusive):
                return
            self.rows.append(self.running.everything(at, path(at)))

    def _advance(self, t: float, y: np.ndarray, target: float) -> tuple[float, np.ndarray]:
        """Solve up to ``target``, or to where a condition changes before it."""
        if t >= target:
            return t, y
        running = self.running
        before = running.conditions(t, y)
        for segment in self._segments(t, y, target):
            begin, finish, path = segment
            changed = self._first_change(begin, finish, path, before)
            self._record_until(finish if changed is None else changed, path, inclusive=False)
            if changed is not None:
                return changed, path(changed)
            y = path(finish)
        return target, y

    def _segments(self, t: float, y: np.ndarray, target: float) -> Any:
        """Steps of the solver: where each begins and ends, and the path in between."""
        if not self.running.moving:  # nothing has a slope: intervals between times will do
            between = self.times[(self.times > t) & (self.times < target)]
            edges = [t, *between.tolist(), target]
            for begin, finish in itertools.pairwise(edges):
                yield begin, finish, lambda _: y
            return
        from scipy.integrate import LSODA, Radau

        self._refuse_non_finite(t, y)
        for method, cost in ((LSODA, 1), (Radau, _COST_OF_IMPLICIT)):
            solver = method(
                self.running.slopes,
                t,
                y,
                target,
                rtol=self.how.rtol,
                atol=self.how.atol,
                max_step=self._longest(target),
            )
            while solver.status == "running":
                self.steps += cost
                if self.steps > self.how.most_steps:
                    raise SbmlError(f"the simulation takes more than {self.how.most_steps} steps; it is at time {t:g}.")
                solver.step()
                if solver.status == "failed" or not np.isfinite(solver.y).all():
                    break
                yield float(solver.t_old), float(solver.t), solver.dense_output()
                t, y = float(solver.t), solver.y
            else:
                return
        raise SbmlError(
            f"the equations cannot be solved beyond time {t:g}: a state becomes infinite, or changes too fast."
        )

    def _longest(self, target: float) -> float:
        """A step goes over no more than one time that is wanted, so that short pulses are noticed."""
        gaps = np.diff(self.times)
        return max(float(gaps[gaps > 0].min(initial=target)), float(self.times[-1]) * 1e-4)

    def _refuse_non_finite(self, t: float, y: np.ndarray) -> None:
        slopes = self.running.slopes(t, y)
        for name, value, slope in zip(self.running.moving, y, slopes, strict=True):
            if not math.isfinite(value) or not math.isfinite(slope):
                what = "is" if not math.isfinite(value) else "changes by what is"
                raise SbmlError(
                    f"{name.split('@')[0]!r} {what} no finite number at time {t:g}: does it have all its values?"
                )

    def _first_change(self, begin: float, finish: float, path: Any, before: tuple[bool, ...]) -> float | None:
        """The first time found at which some condition is not as it was."""
        if not before:
            return None
        running, low = self.running, begin
        for part in (0.25, 0.5, 0.75, 1.0):
            high = finish if part == 1.0 else begin + part * (finish - begin)
            if running.conditions(high, path(high)) != before:
                while True:
                    middle = low + 0.5 * (high - low)
                    if middle <= low or middle >= high:
                        return high
                    if running.conditions(middle, path(middle)) == before:
                        low = middle
                    else:
                        high = middle
            low = high
        return None

    # -- events ----------------------------------------------------------------------------

    def _settle(self, t: float, y: np.ndarray) -> np.ndarray:
        """Let happen what is due at ``t``, and what that triggers; the moving states after it."""
        if not self.happenings:
            return y
        for _ in range(self.how.most_happenings):
            self._note_triggers(t, y)
            due = [pending for pending in self.pending if pending.due <= t]
            if not due:
                return y
            chosen = self._first_of(due, t, y)
            self.pending.remove(chosen)
            values = chosen.values
            if values is None:
                values = self.running.changes(chosen.index, t, y)
            y = self.running.changed(chosen.index, values, t, y)
        raise SbmlError(f"events trigger one another without end at time {t:g}.")

    def _note_triggers(self, t: float, y: np.ndarray) -> None:
        now = self.running.triggers(t, y)
        for i, happening in enumerate(self.happenings):
            if now[i] and not self.true[i]:
                delay = self.running.delay(i, t, y)
                if not delay >= 0 or not math.isfinite(delay):
                    raise SbmlError(f"the delay of the event {happening.name!r} is {delay:g} at time {t:g}.")
                values = self.running.changes(i, t, y) if happening.at_trigger else None
                self.pending.append(_Pending(i, self._due(t + delay), values))
            elif not now[i] and self.true[i] and not happening.persistent:
                self.pending = [pending for pending in self.pending if pending.index != i]
        self.true = list(now)

    def _due(self, at: float) -> float:
        """A time that is wanted, or at which something else is due, if only rounding tells them apart."""
        near = int(np.searchsorted(self.times, at))
        others = [*self.times[max(near - 1, 0) : near + 1].tolist(), *(pending.due for pending in self.pending)]
        return next((other for other in others if abs(other - at) <= _ROUNDING * abs(at)), at)

    def _first_of(self, due: list[_Pending], t: float, y: np.ndarray) -> _Pending:
        if len(due) == 1:
            return due[0]
        priorities = [self.running.priority(pending.index, t, y) for pending in due]
        best = max(priorities)
        return self.chance.choice([p for p, priority in zip(due, priorities, strict=True) if priority == best])
