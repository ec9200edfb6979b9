"""What is done in an experiment: its conditions, inputs over time, doses and events."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from gpnode.errors import DataError

MOST_DOSES = 10_000
"""Of one experiment, repeats included."""
MOST_TRIGGERED = 20
"""Times that one trigger may change states: each costs a further solve."""


@dataclass(frozen=True, eq=False)
class Input:
    """Something that changes over time as a table says: ``times`` (n,), increasing, and ``values`` (n,) there.

    Before the first time it has its first value, after the last one its last.
    """

    times: Any
    values: Any

    def __post_init__(self) -> None:
        for what in ("times", "values"):
            try:
                numbers = np.atleast_1d(np.asarray(getattr(self, what), dtype=float))
            except (TypeError, ValueError):
                raise DataError(f"{what} of {type(self).__name__} must be numbers.") from None
            if numbers.ndim != 1 or not np.isfinite(numbers).all():
                raise DataError(f"{what} of {type(self).__name__} must be a list of finite numbers.")
            object.__setattr__(self, what, numbers)
        if self.times.size != self.values.size or not self.times.size:
            raise DataError(
                f"{type(self).__name__} needs as many values as times, at least one; got {self.times.size} times and "
                f"{self.values.size} values."
            )
        if not (np.diff(self.times) > 0).all():
            raise DataError(f"times of {type(self).__name__} must increase.")

    def __repr__(self) -> str:
        ends = f"{self.values[0]:g} at {self.times[0]:g} to {self.values[-1]:g} at {self.times[-1]:g}"
        return f"{type(self).__name__}({self.times.size} values, {ends})"

    @abstractmethod
    def coefficients(self) -> np.ndarray:
        """Of polynomials in the time since each of ``times`` (n, 4), the last of which lasts for ever."""

    def at(self, times: np.ndarray) -> np.ndarray:
        """Values (m,) at ``times`` (m,)."""
        piece = np.maximum(np.searchsorted(self.times, times, side="right") - 1, 0)
        since = np.maximum(times - self.times[piece], 0.0)
        return np.sum(self.coefficients()[piece] * since[:, None] ** np.arange(4), axis=1)


class Steps(Input):
    """An input that keeps each of its values until the next time.

    >>> light = gn.Steps([0.0, 12.0, 24.0], [1.0, 0.0, 1.0])
    """

    def coefficients(self) -> np.ndarray:
        return np.pad(self.values[:, None], ((0, 0), (0, 3)))


class Lines(Input):
    """An input that runs straight from each of its values to the next.

    >>> temperature = gn.Lines([0.0, 1.0, 3.0], [20.0, 30.0, 37.0])
    """

    def coefficients(self) -> np.ndarray:
        slopes = np.append(np.diff(self.values) / np.diff(self.times), 0.0)
        return np.pad(np.stack([self.values, slopes], axis=1), ((0, 0), (0, 2)))


class Smooth(Input):
    """An input that runs smoothly through its values, without overshooting them (monotone cubic pieces).

    >>> temperature = gn.Smooth([0.0, 1.0, 3.0], [20.0, 30.0, 37.0])
    """

    def coefficients(self) -> np.ndarray:
        last = [self.values[-1], 0.0, 0.0, 0.0]
        if self.times.size == 1:
            return np.array([last])
        from scipy.interpolate import PchipInterpolator

        return np.concatenate([PchipInterpolator(self.times, self.values).c[::-1].T, [last]])


def _is_finite(value: Any) -> bool:
    """Whether it is a number, and finite."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    return known and bool(abs(value) <= sys.float_info.max)


@dataclass(frozen=True)
class Dose:
    """An ``amount`` added to a ``state`` at a ``time``, all at once or evenly over a ``duration``.

    With ``every``, it is given ``count`` times in all, so long after one another. What is measured at the very time of
    a dose is measured just before it. With ``delay``, the name of a parameter (:class:`KnownForm` has it among its
    ``delays``), it comes that much later.

    >>> gn.Dose("gut", 320.0)
    Dose(320 to gut at 0)
    >>> gn.Dose("blood", 50.0, time=1.0, duration=0.5, every=12.0, count=3)
    Dose(50 to blood at 1 over 0.5, 3 times every 12)
    """

    state: str
    amount: float
    time: float = 0.0
    duration: float = 0.0
    every: float | None = None
    count: int = 1
    delay: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None and (not isinstance(self.delay, str) or self.duration):
            raise DataError("the delay of a dose is the name of a parameter; what lasts cannot be delayed.")
        for what in ("amount", "time", "duration", "every"):
            value = getattr(self, what)
            if (what != "every" or value is not None) and not _is_finite(value):
                raise DataError(f"the {what} of a dose must be a finite number; got {value!r:.80}.")
        if self.duration < 0:
            raise DataError(f"the duration of a dose must not be negative; got {self.duration:g}.")
        if (
            isinstance(self.count, bool)
            or not isinstance(self.count, int | np.integer)
            or not 1 <= self.count <= MOST_DOSES
        ):
            raise DataError(
                f"a dose is given a whole number of times, 1 to {MOST_DOSES}; got count={self.count!r:.80}."
            )
        if self.count > 1 and (self.every is None or not self.every > 0):
            raise DataError(f"a dose that is given {self.count} times needs every=..., the time between two of them.")
        if not np.isfinite(self.times).all() or (self.count > 1 and not (np.diff(self.times) > 0).all()):
            raise DataError(f"doses every {self.every:g} from {self.time:g} on cannot be told apart, or never end.")
        if self.duration and not (self.times + self.duration > self.times).all():
            raise DataError(f"a dose at {self.time:g} cannot last {self.duration:g}: that is lost in rounding.")

    @property
    def times(self) -> np.ndarray:
        """When it is given (count,)."""
        return self.time + (self.every or 0.0) * np.arange(self.count)

    def __repr__(self) -> str:
        lasting = f" over {self.duration:g}" if self.duration else ""
        repeated = f", {self.count} times every {self.every:g}" if self.count > 1 else ""
        late = f", later by {self.delay}" if self.delay else ""
        return f"Dose({self.amount:g} to {self.state} at {self.time:g}{lasting}{repeated}{late})"


@dataclass(frozen=True)
class Event:
    """At a ``time``, states change: ``changes`` holds for each of them a function of t, x and p, or a number.

    All functions see the states as they were before. Doses of the same time are added afterwards.

    >>> gn.Event(24.0, {"x": lambda t, x, p: 0.1 * x.x})
    Event(x at 24)
    """

    time: float
    changes: Mapping[str, Callable[..., Any] | float]

    def __post_init__(self) -> None:
        if not _is_finite(self.time):
            raise DataError(f"the time of an event must be a finite number; got {self.time!r:.80}.")
        if not isinstance(self.changes, Mapping) or not self.changes:
            raise DataError("an event changes at least one state: Event(24.0, {'x': 0.0}).")
        for state, change in self.changes.items():
            if not callable(change) and not _is_finite(change):
                raise DataError(
                    f"what an event makes of {state!r} must be a finite number or a function; got {change!r:.80}."
                )

    def __repr__(self) -> str:
        return f"Event({', '.join(self.changes)} at {self.time:g})"


@dataclass(frozen=True)
class Trigger:
    """States change when a function of t, x and p turns from negative to positive, the first ``count`` times.

    ``changes`` are as those of an :class:`Event`. After it, the function must turn negative before it can happen again.

    >>> gn.Trigger(lambda t, x, p: x.x - 5.0, {"x": lambda t, x, p: 0.2 * x.x}, count=3)
    Trigger(x, up to 3 times)
    """

    when: Callable[..., Any]
    changes: Mapping[str, Callable[..., Any] | float]
    count: int = 1

    def __post_init__(self) -> None:
        if not callable(self.when):
            raise DataError(f"when something is triggered is a function of t, x and p; got {self.when!r:.80}.")
        Event(0.0, self.changes)  # refuses what makes no sense
        if not isinstance(self.count, int | np.integer) or not 1 <= self.count <= MOST_TRIGGERED:
            raise DataError(f"an event is triggered 1 to {MOST_TRIGGERED} times; got count={self.count!r:.80}.")

    def __repr__(self) -> str:
        return f"Trigger({', '.join(self.changes)}{f', up to {self.count} times' if self.count > 1 else ''})"


@dataclass(frozen=True)
class Experiment:
    """What is done in one run of the system.

    Parameters
    ----------
    inputs
        For each parameter that equations are :class:`Given`, a number (a condition of the whole run), a function of
        parameters ``p -> value`` that all experiments share, or how it changes over time: :class:`Steps`,
        :class:`Lines` or :class:`Smooth`.
    doses
        What is added to states.
    events
        What becomes of states at known times.
    triggers
        What becomes of states when a function of them turns positive.
    before
        Inputs of the time before, if the experiment begins at rest; by default those at the start.
    at_rest
        True if it begins at rest, whatever the model says: at the steady state that the system, left alone, goes to
        from its initial values.
    measured_after
        True if what is measured at the very time of a dose or an event is measured just after it, not before.

    Examples
    --------
    >>> given = gn.Experiment(inputs={"temperature": 37.0}, doses=[gn.Dose("gut", 320.0)])
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    doses: Sequence[Dose] = ()
    events: Sequence[Event] = ()
    triggers: Sequence[Trigger] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    at_rest: bool = False
    measured_after: bool = False

    def __post_init__(self) -> None:
        for name, number in self.before.items():
            if not callable(number) and not _is_finite(number):
                raise DataError(f"{name!r} before the start must be a finite number; got {number!r:.80}.")
        for name, value in self.inputs.items():
            if isinstance(value, Input) or callable(value):
                continue
            if not _is_finite(value):
                raise DataError(
                    f"the input {name!r} must be a finite number, or such as Steps(times, values); got {value!r:.80}."
                )
        for what, kind, example in (
            ("doses", Dose, "Dose('gut', 320.0)"),
            ("events", Event, "Event(1.0, {'x': 0.0})"),
            ("triggers", Trigger, "Trigger(lambda t, x, p: x.x - 1.0, {'x': 0.0})"),
        ):
            listed = getattr(self, what)
            if isinstance(listed, kind) or not isinstance(listed, Sequence):
                raise DataError(f"{what} must be a list, such as [{example}].")
            for one in listed:
                if not isinstance(one, kind):
                    raise DataError(f"{what} must be a list of such as {example}; got {one!r:.80}.")
            object.__setattr__(self, what, tuple(listed))
        if sum(dose.count for dose in self.doses) > MOST_DOSES:
            raise DataError(f"an experiment has at most {MOST_DOSES} doses, repeats included.")

    def jump_times(self) -> np.ndarray:
        """When states jump, in order."""
        given = [dose.times for dose in self.doses if not dose.duration and dose.delay is None]
        return np.unique(np.concatenate([np.zeros(0), *given, np.array([event.time for event in self.events])]))

    def break_times(self) -> np.ndarray:
        """When anything begins, ends, changes or jumps, in order."""
        lasting = [dose.times + shift for dose in self.doses if dose.duration for shift in (0.0, dose.duration)]
        changing = [value.times for value in self.inputs.values() if isinstance(value, Input)]
        return np.unique(np.concatenate([self.jump_times(), *lasting, *changing]))

    def __str__(self) -> str:
        doses: dict[str, int] = {}
        for dose in self.doses:
            doses[dose.state] = doses.get(dose.state, 0) + dose.count
        parts = [f"{count} dose{'s' if count > 1 else ''} of {state}" for state, count in doses.items()]
        parts += [f"{event!r}" for event in (*self.events, *self.triggers)]
        parts += [f"{n} = {v:g}" if isinstance(v, Real) else f"{n}: {_shown(v)}" for n, v in self.inputs.items()]
        return ", ".join(parts) or "nothing done"

    def words(self) -> Iterator[str]:
        """All that defines it, for a digest; functions of events apart."""
        for name in sorted(self.inputs):
            value = self.inputs[name]
            if isinstance(value, Input):
                yield f"{name} {type(value).__name__} {value.times.tolist()} {value.values.tolist()}"
            elif not callable(value):
                yield f"{name} {float(value)!r}"
        for name in sorted(self.before):
            number = self.before[name]
            yield f"before {name}" if callable(number) else f"before {name} {float(number)!r}"
        if self.at_rest or self.measured_after:
            yield f"at rest {self.at_rest}, measured after {self.measured_after}"
        for dose in self.doses:
            numbers = [float(dose.amount), float(dose.duration), *dose.times.tolist()]
            yield f"{dose.state} {numbers!r} {dose.delay or ''}"
        for trigger in self.triggers:
            yield f"{sorted(trigger.changes)} {trigger.count}"
        for event in self.events:
            fixed = {s: float(c) for s, c in event.changes.items() if not callable(c)}
            yield f"{float(event.time)!r} {sorted(event.changes)} {sorted(fixed.items())!r}"


def _shown(value: Any) -> str:
    """An input that is no number."""
    return repr(value) if isinstance(value, Input) else "a formula"
