"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .errors import GpnodeError

OK, BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 130
_EXIT_CODES = "exit codes: 0 fine, 1 bad input, 2 the chains did not converge, 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``gpnode`` with these arguments, or those of the process; ends the process with an exit code."""
    given = list(sys.argv[1:]) if arguments is None else [*arguments, *sys.argv[1:]]
    options = _parser().parse_args(given)
    try:
        code = options.run(options)
    except GpnodeError as error:
        print(f"gpnode: {error}", file=sys.stderr)
        code = BAD_INPUT
    except OSError as error:
        print(f"gpnode: {error.strerror}: {error.filename}", file=sys.stderr)
        code = BAD_INPUT
    except KeyboardInterrupt:
        print("gpnode: interrupted", file=sys.stderr)
        code = INTERRUPTED
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpnode", description="Equations of motion from measurements, with uncertainty.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"gpnode {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_study(commands)
    return parser


def _add_study(commands: Any) -> None:
    study = commands.add_parser(
        "study",
        help="run one of the paper's studies from cold",
        description="Run one of the paper's studies from cold and write posterior, tables and figures.",
        epilog="example: gpnode study glycolysis -o glycolysis-output",
    )
    names = study.add_subparsers(title="studies", required=True, metavar="NAME")

    def add(name: str, what: str) -> argparse.ArgumentParser:
        found = names.add_parser(name, help=what, description=what)
        found.add_argument("-o", "--output", type=Path, default=Path(f"{name}-output"), help="directory for results")
        found.add_argument("--seed", type=int, default=0, help="seed of data and chains")
        found.add_argument("-q", "--quiet", action="store_true", help="no progress")
        found.set_defaults(run=lambda options: _run_study(name, options))
        return found

    prey = add("predator-prey", "two species, a 14-term dictionary, and the comparison with SINDy")
    prey.add_argument("--seeds", type=int, default=1, help="number of data sets, from --seed on")
    add("glycolysis", "seven states, three observed, fifteen unknowns")
    motion = add("human-motion", "a walk in 50 joint angles with a gap in the middle")
    motion.add_argument("--amc", type=Path, required=True, help="CMU motion capture file 07_02.amc")
    motion.add_argument("--case", choices=("A", "B"), default="A", help="dictionary: A products, B squares too")
    motion.add_argument("--leak-free", action="store_true", help="principal components from seen frames only")


def _run_study(name: str, options: argparse.Namespace) -> int:
    import matplotlib.pyplot as plt

    from .studies import glycolysis, human_motion, predator_prey

    plt.switch_backend("Agg")
    common = {"seed": options.seed, "progress": not options.quiet}
    if name == "predator-prey":
        found = predator_prey.run(options.output, seeds=options.seeds, **common)
        converged = found["summary"]["all_converged"]
        print((options.output / "table.txt").read_text())
    elif name == "glycolysis":
        found = glycolysis.run(options.output, **common)
        converged = found["convergence"]["converged"]
    else:
        found = human_motion.run(options.output, options.amc, options.case, leak_free=options.leak_free, **common)
        converged = found["convergence"]["converged"]
    for path in sorted(options.output.rglob("verdict.txt")):
        print(path.read_text())
    print(f"written to {options.output}/")
    return OK if converged else NOT_CONVERGED
