"""The semantic test suite of SBML: how many cases come out right, which are refused, and whether any is wrong.

    python benchmarks/sbml_suite.py CASES [-o docs/results-sbml.md] [--every 20] [--case 00001]

CASES has a folder for each case, with model.xml, settings.txt and results.csv. Tags are read from cases.tsv beside
them, if it is there. Each case is one of: right (all values within its own tolerances), refused (an error of gpnode
says why), wrong (anything else).
"""

from __future__ import annotations

import argparse
import collections
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gpnode as gn
from gpnode.formats.sbml.reading import read_system
from gpnode.formats.sbml.simulation import Simulation


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: str
    kind: str  # right, refused or WRONG
    reason: str = ""
    seconds: float = 0.0


def settings_of(folder: Path) -> dict[str, str]:
    """What a case asks for."""
    lines = (folder / "settings.txt").read_text().splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip()}


def names_in(text: str) -> list[str]:
    """What a list with commas names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def expected_of(folder: Path) -> tuple[list[str], np.ndarray]:
    """Names of columns, the first being time, and values (times, columns)."""
    with (folder / "results.csv").open() as file:
        rows = [row for row in csv.reader(file) if row]
    return [name.strip() for name in rows[0]], np.array([[float(value) for value in row] for row in rows[1:]])


def run_case(folder: Path) -> Outcome:
    """Simulate one case, and compare."""
    began = time.perf_counter()
    try:
        kind, reason = judge(folder)
    except gn.GpnodeError as error:
        kind, reason = "refused", str(error)
    except Exception as error:  # what nobody foresaw is wrong, too
        kind, reason = "WRONG", f"{type(error).__name__}: {error}"
    return Outcome(folder.name, kind, reason, time.perf_counter() - began)


def judge(folder: Path) -> tuple[str, str]:
    """Whether a case comes out right, and if not, the first value that does not."""
    settings = settings_of(folder)
    columns, expected = expected_of(folder)
    system = read_system(folder / "model.xml")
    simulated = Simulation().run(system, expected[:, 0])
    amounts, concentrations = names_in(settings.get("amount", "")), names_in(settings.get("concentration", ""))
    for i, name in enumerate(columns[1:], start=1):
        if name not in simulated:
            return "WRONG", f"there is no {name}"
        values = simulated[name]
        species = (system.species or {}).get(name)
        if species is not None:
            size = simulated[species.compartment]
            if name in amounts and not species.is_amount:
                values = values * size
            if name in concentrations and species.is_amount:
                values = values / size
        want = expected[:, i]
        allowed = float(settings["absolute"]) + float(settings["relative"]) * np.abs(want)
        with np.errstate(invalid="ignore"):
            close = (np.abs(values - want) <= allowed) | (values == want) | (np.isnan(values) & np.isnan(want))
        if not close.all():
            row = int(np.argmin(close))
            return "WRONG", f"{name} at {expected[row, 0]:g} is {values[row]:.8g}, not {want[row]:.8g}"
    return "right", ""


def time_courses(cases: Path) -> list[Path]:
    """Folders of all cases that are time courses."""
    tags = tags_of(cases)
    folders = sorted(f for f in cases.iterdir() if (f / "settings.txt").is_file() and (f / "results.csv").is_file())
    return [f for f in folders if "FluxBalanceSteadyState" not in tags.get(f.name, [])]


def tags_of(cases: Path) -> dict[str, list[str]]:
    """Components and tags of each case, and its level."""
    if not (cases / "cases.tsv").is_file():
        return {}
    with (cases / "cases.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {
        row["case"]: [row["type"], row["level"], *names_in(row["components"]), *names_in(row["tags"])] for row in rows
    }


def table(outcomes: list[Outcome], tags: dict[str, list[str]]) -> Iterator[str]:
    """Rows by tag, in Markdown."""
    yield "| tag | cases | right | refused | wrong |"
    yield "|---|---|---|---|---|"
    by_tag: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        for tag in {"all", *tags.get(outcome.case, [])} - {"TimeCourse"}:
            by_tag[tag][outcome.kind] += 1
    for tag, counts in sorted(by_tag.items(), key=lambda item: (item[0] != "all", item[0].lower())):
        yield f"| {tag} | {counts.total()} | {counts['right']} | {counts['refused']} | {counts['WRONG']} |"


def main() -> int:
    """Run all cases of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="write the table by tag there, after the line <!-- table -->")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--case", action="append")
    options = parser.parse_args()
    folders = time_courses(options.cases)[:: options.every]
    if options.case:
        folders = [folder for folder in folders if folder.name in options.case]
    outcomes = [run_case(folder) for folder in folders]
    for outcome in outcomes:
        if outcome.kind != "right" or options.case:
            print(f"{outcome.case} {outcome.kind}: {outcome.reason} ({outcome.seconds:.2f} s)")
    slowest = sorted(outcomes, key=lambda o: -o.seconds)[:5]
    print("slowest:", ", ".join(f"{o.case} {o.seconds:.1f} s" for o in slowest))
    counts = collections.Counter(outcome.kind for outcome in outcomes)
    share = counts["right"] / max(len(outcomes), 1)
    print(
        f"{len(outcomes)} cases: {counts['right']} right ({share:.1%}), {counts['refused']} refused, "
        f"{counts['WRONG']} wrong; {sum(o.seconds for o in outcomes):.0f} s"
    )
    if options.output:
        kept = options.output.read_text().split("<!-- table -->")[0]
        options.output.write_text(
            kept + "<!-- table -->\n\n" + "\n".join(table(outcomes, tags_of(options.cases))) + "\n"
        )
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
