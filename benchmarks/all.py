"""Every benchmark one after the other; prints tables and writes ``benchmarks/results.json``. Run by ``make bench``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import answering
import doses
import gradient
import sampling
import scaling


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amc", type=Path, help="motion capture file 07_02.amc, for human motion")
    arguments = parser.parse_args()
    print("Log density with gradient")
    results: dict[str, object] = {"gradient": gradient.run(arguments.amc)}
    print("\nWhat doses cost (log density with gradient)")
    results["doses"] = doses.run()
    print("\nHow soon the command line answers, beside importing numpy")
    results["answering"] = answering.run()
    print("\nCost as problems grow (log density with gradient)")
    results["scaling"] = scaling.run()
    print("\nEffective draws per second")
    results["sampling"] = sampling.run()
    path = Path(__file__).parent / "results.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {path.parent.name}/{path.name}")


if __name__ == "__main__":
    main()
