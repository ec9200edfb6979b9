"""The command line: ``gpnode COMMAND``. Thin functions over all other packages, which it may import; exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpnode import __version__
from gpnode.cli import beginning, calibrating, checking, examples, fitting, runs, studies
from gpnode.cli.exits import BAD_INPUT, EXIT_CODES, INTERRUPTED, TERMINATED, Parser, Terminated, ending_gently
from gpnode.errors import GpnodeError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``gpnode`` with these arguments and those of the process; ends the process with an exit code."""
    raise SystemExit(run([*(arguments or ()), *sys.argv[1:]]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; bad input is one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        with ending_gently():
            return int(options.execute(options))
    except GpnodeError as error:
        print(f"gpnode: {error}", file=sys.stderr)
    except OSError as error:
        print(f"gpnode: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
    except Terminated:
        print("gpnode: terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("gpnode: interrupted", file=sys.stderr)
        return INTERRUPTED
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="gpnode",
        description="Equations of motion from scarce, noisy and partial measurements, with uncertainty.",
        epilog=f"start with: gpnode example lynx-hare\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpnode {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (examples, beginning, checking, fitting, runs, calibrating, studies):
        module.add_commands(commands)
    return parser
