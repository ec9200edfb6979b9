"""The PEtab test suite: log likelihood, chi2, simulations and priors of every case, beside its solution.

    python benchmarks/petab_suite.py SUITE [--case v2.0.0/0024]

SUITE has a folder for each version, with a folder for each case. A case is one of: right (everything within its own
tolerances), refused (an error of gpnode says why), WRONG (anything else).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

import gpnode as gn

PRIOR_TOLERANCE = 1e-13  # of numbers of the order of two that are written with fourteen digits


def compare(folder: Path) -> dict[str, float]:
    """What is compared of one case, in units of its tolerances."""
    solution = yaml.safe_load((folder / f"_{folder.name}_solution.yaml").read_text())
    found = gn.PetabProblem.read(folder / f"_{folder.name}.yaml").evaluate()
    expected = pd.concat([pd.read_csv(folder / name, sep="\t") for name in solution["simulation_files"]])
    away = np.abs(found.simulations.simulation.to_numpy() - expected.simulation.to_numpy()).max()
    apart = {
        "llh": abs(found.log_likelihood - solution["llh"]) / solution["tol_llh"],
        "chi2": abs(found.chi2 - solution["chi2"]) / solution["tol_chi2"],
        "simulations": float(away) / solution["tol_simulations"],
    }
    for name, value in solution.get("log_prior", {}).items():
        apart[f"prior of {name}"] = abs(found.log_priors[name] - value) / PRIOR_TOLERANCE
    return apart


def main() -> int:
    """Run the cases, print a line for each, and a sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--case", action="append", help="such as v1.0.0/0001; all by default")
    options = parser.parse_args()
    folders = sorted(f for version in sorted(options.suite.glob("v*")) for f in version.iterdir() if f.is_dir())
    counts: dict[str, int] = {}
    for folder in folders:
        case = f"{folder.parent.name}/{folder.name}"
        if options.case and case not in options.case:
            continue
        begun = time.perf_counter()
        try:
            apart = compare(folder)
            worst = max(apart, key=lambda name: apart[name])
            kind = "right" if apart[worst] < 1.0 else "WRONG"
            what = f"worst: {worst}, {apart[worst]:.1e} of its tolerance"
        except gn.GpnodeError as error:
            kind, what = "refused", str(error)
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{case}  {kind:8s} {time.perf_counter() - begun:5.1f} s  {what}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 1 if counts.get("WRONG") else 0


if __name__ == "__main__":
    sys.exit(main())
