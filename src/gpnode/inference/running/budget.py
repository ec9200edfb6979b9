"""Time that a run may take: the best answer by then is wanted, whatever it is."""

from __future__ import annotations

import math
import re
import time

_UNITS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_FORM = re.compile(r"\s*([0-9.]+)\s*([a-z]*)\s*", re.IGNORECASE)


class OutOfTime(Exception):
    """The time was up before chains had any draws."""


class Budget:
    """``seconds`` from now, or without end."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def is_spent(self) -> bool:
        return time.monotonic() > self._end


def read_budget(value: float | str | None) -> float | None:
    """Seconds, from a number of them or a text such as ``"90 s"``, ``"5 min"`` or ``"2h"``."""
    if value is None:
        return None
    seconds = _seconds_of(value) if isinstance(value, str) else float(value)
    if not 0 < seconds < math.inf:
        raise ValueError(f'a budget is a time such as "90 s", "5 min" or "2 h"; got {value!r}.')
    return seconds


def time_in_words(seconds: float) -> str:
    """Such as "40 s", "3 min" or "1.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _seconds_of(text: str) -> float:
    """NaN if it is no time."""
    found = _FORM.fullmatch(text)
    unit = None if found is None else _UNITS.get(found[2].lower() or "s")
    try:
        return math.nan if found is None or unit is None else float(found[1]) * unit
    except ValueError:
        return math.nan
