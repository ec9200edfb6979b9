"""Interrupts that arrive where they can be dealt with.

Python raises an interrupt wherever the main thread happens to be. In a finalizer it is lost, and with it, perhaps, the
release of a lock that compiled code needs, so that everything hangs. While a run lasts, an interrupt is therefore
noted, and raised at the next place that asks for it; a second one is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_noted: list[Callable[[], Any]] = []  # at most one
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check() -> None:
    """Raise the interrupt that was noted, if one was. Only the main thread is interrupted."""
    if _noted and threading.current_thread() is threading.main_thread():
        _noted.pop()()


@contextmanager
def noted() -> Iterator[None]:
    """Note interrupts while the context lasts; one that nobody asked for is raised at its end."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is told of signals
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # What is ignored, or ends the process without a word, stays so.
    usual = {number: handler for number, handler in before.items() if callable(handler)}

    def note(number: int, interrupted: FrameType | None) -> None:
        again = bool(_noted)
        _noted[:] = [lambda: usual[signal.Signals(number)](number, interrupted)]
        if again:
            check()

    for number in usual:
        signal.signal(number, note)
    try:
        yield
    except BaseException:
        _noted.clear()  # the run has ended anyway
        raise
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    check()
