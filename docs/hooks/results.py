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
    compared = [row for found in studies.values() for row in _compared(found)]
    head = ["study", "verdict", "worst R-hat", "least ESS (bulk)", "least ESS (tails)", "divergences", "seconds"]
    parts = [
        "### Beside the paper and other tools\n",
        _table(["study", "who", "converged?", "errors"], compared),
        "### Convergence\n",
        _table(head, (row for name, run in runs for row in _convergence(name, run))),
    ]
    parts += [
        "### True values inside their 95 % intervals\n",
        _table(["study", "inside", "of", "not inside"], _inside(runs)),
    ]
    held = [row for found in studies.values() for row in _held(found)]
    head = ["study", "state", "each time, on average", "each time, least", "whole paths, least"]
    parts += ["### Part of the true path inside 95 % bands\n", _BANDS, _table(head, held)]
    for name, run in runs:
        numbers = [
            (k, v) for k, v in _flat(run, "") if not k.startswith(("convergence", "true values", "active", "seed"))
        ]
        if numbers:
            parts += [f"### {name}\n", _table(["figure", "value"], numbers)]
    return "\n".join(parts)


_BANDS = """Bands of each time hold 95 % of a path *on average over data sets*: all of most paths, and less of some.
Bands of whole paths hold all of a path with a probability of 95 %. On average and least: over data sets.
"""


def _held(found: dict[str, Any]) -> list[list[str]]:
    """What bands held, by state; of human motion the missing frames, all components together, noise included."""
    title = found["study"] + (f", case {found['case']}" if "case" in found else "") + _variant(found)
    if missing := found.get("all", {}).get("missing"):
        each, whole = (missing.get(f"coverage_95_{kind}with_noise") for kind in ("", "whole_path_"))
        return [[title, "all, missing frames", _percent(each), _percent(each), _percent(whole)]]
    by_start = found.get("summary", {}).get("coverage_95", {})
    kinds = ("mean_pointwise", "least_pointwise", "least_whole_path")
    return [
        [title + (f", {start}" if start else ""), state, *(_percent(held[kind][state]) for kind in kinds)]
        for start, held in ({"": by_start} if "cases" in by_start else by_start).items()
        for state in held["mean_pointwise"]
    ]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


_ANY_CASE = [
    ["npODE", "", "seen 3.81, missing 3.94"],
    ["Gaussian process without equations", "", "seen 3.12, missing 4.88"],
    ["cubic spline", "", "missing 5.67"],
]
# Measurements by us on the authors' published chains (two of 8000 draws each) and with the peers' own programs.
_OTHERS: dict[str, list[list[str]]] = {
    "predator-prey": [
        ["the paper's authors, two chains", "no: R-hat 1.47, ESS 4", "(0.22, 0.37) and (0.37, 1.78)"],
        ["Stan, same model", "no: R-hat 2.5 after 664 s", ""],
    ],
    "glycolysis": [
        ["the paper's authors, two chains", "no: R-hat 1.41, ESS 4", ""],
        ["Stan, same model", "no: R-hat 1.41 after 866 s", ""],
    ],
    "human-motion A": [
        ["the paper's authors, two chains", "R-hat 1.007, ESS 255", "seen 3.14, missing 3.87"],
        ["SINDy, Kalman derivative", "", "seen 4.11, missing 4.29"],
        *_ANY_CASE,
    ],
    "human-motion B": [
        ["the paper's authors, two chains", "no: R-hat 1.84, ESS 3", "seen 3.14, missing 3.76 and 4.04"],
        ["SINDy, Kalman derivative", "", "seen 4.76, missing 3.96"],
        *_ANY_CASE,
    ],
}


def _compared(found: dict[str, Any]) -> list[list[str]]:
    """One study as rows: ours first, then others. Errors are root mean squares of the mean path."""
    name = found["study"] + (f" {found['case']}" if "case" in found else "")
    runs = found.get("runs", [found])
    variant = _variant(found)
    ours = [f"gpnode{variant}", _overall([run["convergence"] for run in runs]), _errors(found)]
    if variant:
        return [[name, *ours]]
    sindy = found.get("summary", {}).get("sindy_case_1_median_rmse", {})
    variants = [[f"SINDy, {variant}", "", _pair(rmse)] for variant, rmse in sindy.items()]
    return [[name, *row] for row in [ours, *variants, *_OTHERS.get(name, [])]]


def _variant(found: dict[str, Any]) -> str:
    """What a run does otherwise than the paper."""
    process = found.get("process", "paper")
    said = [f"process {process}"] if process != "paper" else []
    said += ["components from seen frames"] if found.get("leak_free") else []
    return f" ({', '.join(said)})" if said else ""


def _overall(runs: list[dict[str, Any]]) -> str:
    worst, least = max(r["worst_rhat"] for r in runs), min(r["least_bulk_ess"] for r in runs)
    converged = "yes" if all(r["converged"] for r in runs) else _word(runs[0])
    return f"{converged}: R-hat {worst:.3f}, ESS {least:.0f}" + (
        f" over {len(runs)} data sets" if len(runs) > 1 else ""
    )


def _word(run: dict[str, Any]) -> str:
    """How a run that did not converge as a whole was judged."""
    return "several modes" if run.get("headline", "").startswith("SEVERAL MODES") else "no"


def _errors(found: dict[str, Any]) -> str:
    if rmse := found.get("summary", {}).get("median_rmse_mean_path"):
        return f"{_pair(rmse)}, median over data sets"
    if "all" in found:
        seen, missing = (found["all"][part]["rmse_mean_path"] for part in ("seen", "missing"))
        return f"seen {seen:.2f}, missing {missing:.2f}"
    return ""


def _pair(numbers: Iterable[float]) -> str:
    return "(" + ", ".join(f"{n:.2f}" if math.isfinite(n) else "runs away" for n in numbers) + ")"


def _runs(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each fit of a study with a name: by data set, by case, by mode."""
    title = found["study"] + (f", case {found['case']}" if "case" in found else "") + _variant(found)
    if "runs" in found:
        rows = [
            (f"{title}, data {run['seed']}", {k: v for k, v in run.items() if k != "sindy"}) for run in found["runs"]
        ]
        return [*rows, (f"{title}, over data sets", found.get("summary", {}))]
    return [(title, {k: v for k, v in found.items() if k not in ("study", "case")})]


def _convergence(name: str, run: dict[str, Any]) -> list[list[str]]:
    """A row for the run, and one for each mode."""
    found = run.get("convergence")
    if not found:
        return []
    verdict = "converged" if found["converged"] else _word(found).replace("no", "not converged")
    keys = ("worst_rhat", "least_bulk_ess", "least_tail_ess", "divergences", "seconds")
    modes = [
        [f"{name}, mode {i + 1}", f"{mode['weight']:.0%} of the draws{_plus_minus(mode['standard_error'])}"]
        + [_number(mode[k], 4) if k in mode else "" for k in keys]
        for i, mode in enumerate(run.get("modes", []))
    ]
    return [[name, verdict, *(_number(found.get(k), 4) for k in keys)], *modes]


def _plus_minus(error: float) -> str:
    return f", ± {error:.0%}" if math.isfinite(error) else ", weight not settled"


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
        [problem, way, _number(found["us"]), f"{_number(found['times_faster'])} ×"]
        for problem, ways in benchmark["gradient"].items()
        for way, found in ways.items()
    ]
    head = ["problem", "way of computing", "microseconds", "against the paper's formulation"]
    parts = [_table(head, rows)]
    if contests := benchmark.get("sampling"):
        head = ["problem", "who", "seconds", "draws", "least ESS", "R-hat", "least ESS a second"]
        parts += [
            "### Effective draws per second\n",
            _CONTESTS,
            _table(head, (row for name, found in contests.items() for row in _contest(name, found))),
        ]
    if answering := benchmark.get("answering"):
        rows = [[name, f"{_number(v['seconds'])} s", f"{v['ratio']:.0f}"] for name, v in answering.items()]
        head = ["what is asked", "time", "in units of importing numpy"]
        parts += ["### How soon the command line answers\n", _table(head, rows)]
    if scaling := benchmark.get("scaling"):
        head = ["what grows", "how many", "log density with gradient", "to compile", "memory at most"]
        parts += ["### Cost as problems grow\n", _table(head, _scaling(scaling))]
    return "\n".join(parts)


_CONTESTS = """Each from one run: our whole fit from cold, with compiling and the search, and as long for either
opponent, from where our chains ended. NUTS is numpyro's, with its defaults, two chains side by side: on the posterior
as gpnode writes it, and in the paper's way (explicit scales, `odeint`, one dense covariance). What counts is the worst
number that the path depends on.
"""


def _contest(name: str, found: dict[str, Any]) -> Iterable[list[str]]:
    ways = {"gpnode": "gpnode", "NUTS": "NUTS, our posterior", "paper": "NUTS, the paper's way"}
    for who, row in found["rows"].items():
        numbers = [_number(row[key]) for key in ("seconds", "draws", "least_ess", "worst_rhat", "ess_per_second")]
        yield [name, ways.get(who, who), *numbers]


def _scaling(scaling: dict[str, Any]) -> Iterable[list[str]]:
    for kind, sizes in scaling.items():
        for size, row in sizes.items():
            if "failed" in row:
                yield [kind, size, "failed", "", ""]
                continue
            each, compiled = f"{_number(1e3 * row['seconds'])} ms", f"{_number(row['compile_seconds'])} s"
            yield [kind, size, each, compiled, f"{row['peak_mb']:.0f} MB"]


def _table(head: list[str], rows: Iterable[Any]) -> str:
    lines = [head, ["---"] * len(head), *(row for row in rows if row)]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main(folders: list[str]) -> None:
    """Copy results to where the build reads them."""
    _KEPT.mkdir(exist_ok=True)
    for folder in map(Path, folders):
        found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        name = "-".join(str(found[k]) for k in ("study", "case") if k in found)
        name += f"-{found['process']}" if found.get("process", "paper") != "paper" else ""
        name += "-leak-free" if found.get("leak_free") else ""
        shutil.copyfile(folder / "results.json", _KEPT / f"{name}.json")
        print(f"kept: docs/results/{name}.json")
    benchmark = _ROOT / "benchmarks" / "results.json"
    if benchmark.exists():
        shutil.copyfile(benchmark, _KEPT / "benchmark.json")
        print("kept: docs/results/benchmark.json")


if __name__ == "__main__":
    main(sys.argv[1:])
