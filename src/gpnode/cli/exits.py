"""Exit codes and the parts of the parser that commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

OK, BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = "exit codes: 0 fine, 1 bad input, 2 not converged, 130 interrupted"


def add_command(
    commands: Any, name: str, what: str, example: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A subcommand with one line of help, an example, and the function that runs it."""
    found: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example: {example}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.set_defaults(execute=run)
    return found
