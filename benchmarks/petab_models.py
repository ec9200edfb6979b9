"""Published calibration problems: log likelihood and simulations at nominal parameters, beside reference values.

    python benchmarks/petab_models.py MODELS [--only Boehm] [-o table.md]

MODELS has a folder for each problem, with a YAML file and, perhaps, a table of simulations (simulatedData*.tsv or
simulations.tsv). Reference log likelihoods are those of AMICI's tests. Simulations are compared measurement by
measurement, relative to the range of their observable.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import gpnode as gn

REFERENCES = {
    "Bachmann": 418.40573,
    "Boehm": -138.22200,
    "Borghans": 83.32372,
    "Brannmark": -141.88911,
    "Bruno": 46.68818,
    "Crauste": -190.96522,
    "Fiedler": 58.58390,
    "Fujita": 53.08378,
    "Isensee": -3949.37597,
    "Lucarelli": -1681.60599,
    "Schwen": -943.99930,
    "Zheng": 278.33353,
}
_SAME = ("observableId", "preequilibrationConditionId", "simulationConditionId", "observableParameters")
_CONSTANT = 1e-6  # a range that small is none: predictions are compared with their size then


def simulations_apart(folder: Path, found: pd.DataFrame) -> float:
    """The largest difference to the table of simulations, relative to the range of its observable.

    Rows of both tables are told by observable, conditions, time and, if tables agree on them, parameters; else they
    are taken one by one, if their times are the same. NaN without a table, or with another one.
    """
    tables = [*folder.glob("simulatedData*.tsv"), *folder.glob("simulations*.tsv")]
    if not tables:
        return float("nan")
    measured = pd.concat([pd.read_csv(file, sep="\t") for file in folder.glob("meas*.tsv")], ignore_index=True)
    simulated = pd.concat([pd.read_csv(file, sep="\t") for file in tables], ignore_index=True)
    shared = [name for name in _SAME if name in measured and name in simulated]
    column = "simulation" if "simulation" in simulated else "measurement"
    for names in (shared, [name for name in shared if name != "observableParameters"]):
        known = dict(zip(_keys(simulated, names), simulated[column], strict=True))
        keys = _keys(measured, names)
        if all(key in known for key in keys):
            values = np.array([known[key] for key in keys], dtype=float)
            break
    else:
        if len(simulated) != len(measured) or not np.allclose(
            simulated.time.astype(float), measured.time.astype(float)
        ):
            return float("nan")
        values = simulated[column].to_numpy(dtype=float)
    away = np.abs(found.simulation.to_numpy() - values)
    worst = 0.0
    for name in found.observableId.unique():
        chosen = (found.observableId == name).to_numpy()
        span, size = np.ptp(values[chosen]), np.abs(values[chosen]).max()
        span = span if span > _CONSTANT * size else size or 1.0
        worst = max(worst, float(away[chosen].max() / span))
    return worst


def _keys(table: pd.DataFrame, names: list[str]) -> list[tuple[str, ...]]:
    """What tells rows; numbers as numbers, and observables without what some tools append to them."""
    words = [[_plain(cell) for cell in table[name]] for name in names]
    times = [f"{float(time):.6g}" for time in table.time]
    return list(zip(*words, times, strict=True))


def _plain(cell: object) -> str:
    parts = [] if pd.isna(cell) else str(cell).partition("__")[0].split(";")
    return ";".join(f"{float(part):.9g}" if part.replace(".", "", 1).isdigit() else part for part in parts)


def main() -> int:
    """Evaluate every problem, and print a row of the table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", action="append", help="the first part of a name; all by default")
    parser.add_argument("-o", "--output", type=Path, help="where to write the table")
    options = parser.parse_args()
    lines = [
        "| problem | states | estimated | log likelihood | minus reference | simulations apart | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for folder in sorted(f for f in options.models.iterdir() if f.is_dir()):
        name = folder.name.partition("_")[0]
        if options.only and name not in options.only:
            continue
        begun = time.perf_counter()
        (file,) = list(folder.glob("*.yaml"))[:1] or [folder / "problem.yaml"]
        try:
            problem = gn.PetabProblem.read(file)
            found = problem.evaluate()
        except gn.GpnodeError as error:
            line = f"| {name} | refused: {error} | | | | | |"
        else:
            estimated = sum(one.is_estimated for one in problem.statement.parameters.values())
            away = f"{found.log_likelihood - REFERENCES[name]:.1e}" if name in REFERENCES else ""
            apart = f"{simulations_apart(folder, found.simulations):.1e}".replace("nan", "no table")
            line = (
                f"| {name} | {len(problem.model.states)} | {estimated} | {found.log_likelihood:.5f} | {away} | {apart} "
                f"| {time.perf_counter() - begun:.0f} |"
            )
        lines.append(line)
        print(line, flush=True)
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
