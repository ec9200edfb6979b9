"""``gpnode study``: the paper's problems."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gpnode.cli.exits import NOT_CONVERGED, OK, add_command


def add_commands(commands: Any) -> None:
    """Add ``study`` with one subcommand for each of the paper's problems."""
    study = commands.add_parser(
        "study",
        help="run one of the paper's studies from cold",
        epilog="example: gpnode study predator-prey -o predator-prey-output",
    )
    names = study.add_subparsers(title="studies", required=True, metavar="NAME")

    def add(name: str, what: str, more: str = "") -> argparse.ArgumentParser:
        parser = add_command(
            names, name, what, f"gpnode study {name} {more}-o {name}-output", lambda options: _run(name, options)
        )
        parser.add_argument("-o", "--output", type=Path, default=Path(f"{name}-output"), help="directory for results")
        parser.add_argument("--seed", type=int, default=0, help="seed of data and chains")
        parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
        return parser

    prey = add("predator-prey", "two species, a 14-term dictionary, and the comparison with SINDy")
    cells = add("glycolysis", "seven states, three observed, fifteen unknowns")
    for simulated in (prey, cells):
        simulated.add_argument("--seeds", type=int, default=1, help="number of data sets, from --seed on")
    motion = add("human-motion", "a walk in 50 joint angles with a gap in the middle", "--amc 07_02.amc ")
    motion.add_argument("--amc", type=Path, required=True, help="CMU motion capture file 07_02.amc")
    motion.add_argument("--case", choices=("A", "B"), default="A", help="dictionary: A products, B squares too")
    motion.add_argument("--leak-free", action="store_true", help="principal components from seen frames only")
    motion.add_argument("--process", default="paper", help="prior of the Gaussian process: paper, short, matern ...")
    motion.add_argument("--gap", type=int, nargs=2, help="frames to predict, the last not included (default: 33 48)")
    motion.add_argument("--draws", type=int, help="draws per chain (default: until the chains agree)")


def _run(name: str, options: argparse.Namespace) -> int:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    try:
        converged = _study(name, options)
    except KeyboardInterrupt:
        print("gpnode: stopped; what was sampled is kept, and the same command goes on with it.", file=sys.stderr)
        raise
    print((options.output / "table.txt").read_text(encoding="utf-8"))
    for path in sorted(options.output.rglob("verdict.txt")):
        print(path.read_text(encoding="utf-8"))
    print(f"written to {options.output}/")
    return OK if converged else NOT_CONVERGED


def _study(name: str, options: argparse.Namespace) -> bool:
    """Run it; whether all its chains converged."""
    from gpnode.studies import glycolysis, human_motion, predator_prey

    common = {"seed": options.seed, "progress": not options.quiet}
    if name == "predator-prey":
        return bool(predator_prey.run(options.output, seeds=options.seeds, **common)["summary"]["all_converged"])
    if name == "glycolysis":
        return bool(glycolysis.run(options.output, seeds=options.seeds, **common)["summary"]["all_converged"])
    chosen = {"leak_free": options.leak_free, "process": options.process, "draws": options.draws}
    gap = tuple(options.gap or human_motion.MISSING)
    figures = human_motion.run(options.output, options.amc, options.case, gap=gap, **chosen, **common)
    return bool(figures["convergence"]["converged"])
