"""Tables of the studies and the benchmark, from the files in ``docs/results``.

``python docs/hooks/results.py DIR...`` copies ``results.json`` out of directories that ``gpnode study`` wrote, and
``benchmarks/results.json`` if it is there, to where the build reads them. Without files the page says how to make them.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / "docs" / "results"
_STUDIES, _BENCHMARK = "<!-- studies -->", "<!-- benchmark -->"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the marked places of the page of results."""
    if _STUDIES not in markdown:
        return markdown
    read = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(_KEPT.glob("*.json"))}
    studies = {name: found for name, found in read.items() if "study" in found}
    benchmark = read.get("benchmark")
    return markdown.replace(_STUDIES, _study_tables(studies)).replace(_BENCHMARK, _benchmark_table(benchmark))


def _missing(what: str, command: str) -> str:
    return f'!!! note "No {what} here yet"\n\n    They are made by `{command}`, then `make docs-results`.\n'


def _study_tables(studies: dict[str, Any]) -> str:
    if not studies:
        return _missing("figures of studies", "gpnode study predator-prey -o predator-prey-output")
    runs = [row for found in studies.values() for row in _runs(found)]
    head = ["study", "verdict", "worst R-hat", "least ESS (bulk)", "least ESS (tails)", "divergences", "seconds"]
    parts = ["### Convergence\n", _table(head, (_convergence(name, run) for name, run in runs))]
    parts += [
        "### True values inside their 95 % intervals\n",
        _table(["study", "inside", "of", "not inside"], _inside(runs)),
    ]
    for name, run in runs:
        numbers = [
            (k, v) for k, v in _flat(run, "") if not k.startswith(("convergence", "true_values", "active", "seed"))
        ]
        if numbers:
            parts += [f"### {name}\n", _table(["figure", "value"], numbers)]
    return "\n".join(parts)


def _runs(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each fit of a study with a name: by data set, by case, by mode."""
    title = found["study"] + (f", case {found['case']}" if "case" in found else "")
    if "runs" in found:
        rows = [
            (f"{title}, data {run['seed']}", {k: v for k, v in run.items() if k != "sindy"}) for run in found["runs"]
        ]
        return [*rows, (f"{title}, over data sets", found.get("summary", {}))]
    return [(title, {k: v for k, v in found.items() if k not in ("study", "case")})]


def _convergence(name: str, run: dict[str, Any]) -> list[str]:
    found = run.get("convergence")
    if not found:
        return []
    verdict = "converged" if found["converged"] else "not converged"
    keys = ("worst_rhat", "least_bulk_ess", "least_tail_ess", "divergences", "seconds")
    return [name, verdict, *(_number(found.get(k), 4) for k in keys)]


def _inside(runs: Iterable[tuple[str, dict[str, Any]]]) -> list[list[str]]:
    rows = []
    for name, run in runs:
        if found := run.get("true_values_inside_95"):
            rows.append(
                [name, str(sum(found.values())), str(len(found)), ", ".join(k for k, v in found.items() if not v)]
            )
    return rows


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    """Nested figures as lines; lists of numbers stay together."""
    if isinstance(value, dict):
        return [line for k, v in value.items() for line in _flat(v, f"{name} · {k}" if name else str(k))]
    if isinstance(value, list) and any(isinstance(v, dict) for v in value):
        return [line for i, v in enumerate(value) for line in _flat(v, f"{name} {i + 1}")]
    if isinstance(value, list):
        return [(name.replace("_", " "), ", ".join(_number(v) for v in value))]
    return [(name.replace("_", " "), _number(value))]


def _number(value: Any, digits: int = 3) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.{digits}g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _benchmark_table(benchmark: dict[str, Any] | None) -> str:
    if benchmark is None:
        return _missing("speeds", "make bench")
    rows = [
        [problem, way, _number(found.get("us")), f"{_number(found.get('times_faster'))} ×"]
        for problem, ways in benchmark.items()
        for way, found in ways.items()
        if isinstance(found, dict) and "us" in found
    ]
    head = ["problem", "way of computing", "microseconds", "against the paper's formulation"]
    return _table(head, rows)


def _table(head: list[str], rows: Iterable[Any]) -> str:
    lines = [head, ["---"] * len(head), *(row for row in rows if row)]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main(folders: list[str]) -> None:
    """Copy results to where the build reads them."""
    _KEPT.mkdir(exist_ok=True)
    for folder in map(Path, folders):
        found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        name = "-".join(str(found[k]) for k in ("study", "case") if k in found)
        shutil.copyfile(folder / "results.json", _KEPT / f"{name}.json")
        print(f"kept: docs/results/{name}.json")
    benchmark = _ROOT / "benchmarks" / "results.json"
    if benchmark.exists():
        shutil.copyfile(benchmark, _KEPT / "benchmark.json")
        print("kept: docs/results/benchmark.json")


if __name__ == "__main__":
    main(sys.argv[1:])
