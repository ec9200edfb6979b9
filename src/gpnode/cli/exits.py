"""Exit codes and the parts of the parser that commands share."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

OK, BAD_INPUT, NOT_CONVERGED, NOT_EXPLAINED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 64, 130, 143
EXIT_CODES = (
    "exit codes: 0 fine, 1 bad input or no room, 2 not converged, 3 converged but the equations do not explain the "
    "data,\n64 a command that cannot be understood, 130 interrupted, 143 terminated"
)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command, with an exit code of its own; the parsers of its commands are such, too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM); handled like Ctrl-C, but for the exit code."""


@contextmanager
def ending_gently() -> Iterator[None]:
    """Turn SIGTERM into :class:`Terminated` while the context lasts."""

    def end(signum: int, interrupted: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only the main thread is told of signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def add_command(
    commands: Any, name: str, what: str, example: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A subcommand with one line of help, an example, and the function that runs it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example: {example}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(execute=run)
    return parser
