"""``gpnode calibrate``: fits of simulated data against the truth behind them."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from typing import Any

from gpnode._files import make_folder, write_text
from gpnode.cli.exits import NOT_CONVERGED, OK, add_command
from gpnode.cli.fitting import add_problem_arguments, problem_of


def add_commands(commands: Any) -> None:
    """Add ``calibrate``."""
    parser = add_command(
        commands,
        "calibrate",
        "check a problem by fitting data simulated from it",
        "gpnode calibrate lynx-hare/problem.toml -o lynx-hare/calibration --fits 24",
        _calibrate,
    )
    add_problem_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for results; run again to go on")
    parser.add_argument("--fits", type=int, default=200, help="number of simulated data sets")
    parser.add_argument("--seed", type=int, default=0, help="seed of simulations and chains")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _calibrate(options: argparse.Namespace) -> int:
    problem = problem_of(options)
    import matplotlib.pyplot as plt

    from gpnode.design.calibration import calibrate
    from gpnode.render import plots

    plt.switch_backend("Agg")
    folder: Path = options.output
    make_folder(folder)
    calibration = calibrate(
        problem.model,
        problem.data,
        fits=options.fits,
        method=problem.method,
        seed=options.seed,
        checkpoint=folder / "fits",
        progress=not options.quiet,
    )
    result = {
        "calibrated": calibration.calibrated,
        "fits": calibration.fits,
        "failed": len(calibration.errors),
        "dropped": calibration.dropped,
        "bands": calibration.band_coverage(),
        "numbers": calibration.table(),
    }
    write_text(folder / "calibration.json", json.dumps(result, indent=1))
    write_text(folder / "calibration.txt", f"{calibration}\n")
    ranks = io.StringIO()
    writer = csv.writer(ranks)
    writer.writerow(calibration.ranks)
    writer.writerows(zip(*calibration.ranks.values(), strict=True))
    write_text(folder / "ranks.csv", ranks.getvalue())
    figure = plots.calibration(calibration)[0].get_figure(root=True)
    assert figure is not None
    figure.savefig(folder / "calibration.png", dpi=130)
    print(json.dumps(result) if options.json else calibration)
    if not options.json:
        print(f"\nwritten: {folder}/calibration.png, calibration.txt, calibration.json and ranks.csv")
    return OK if calibration.calibrated else NOT_CONVERGED
