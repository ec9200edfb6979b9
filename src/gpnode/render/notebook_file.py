"""A small notebook that opens a finished fit and shows its main figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gpnode.results.posterior import Posterior

_FORMAT = {"nbformat": 4, "nbformat_minor": 5}
_KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
_POINTS = 300


def write_notebook(posterior: Posterior, run: Path) -> str:
    """The text of a notebook for the fit in the directory ``run``."""
    last = max(float(s.times[-1]) for s in posterior.data.series)
    first = min(posterior.data.start.values())
    ahead = last + 0.25 * (last - first)
    cells = [
        (
            "markdown",
            f"# What {run.name} says\n\nThe cells below open the fit and show its verdict, equations and paths.",
        ),
        ("code", f"import gpnode as gn\nimport numpy as np\n\nposterior = gn.load_run({str(run)!r})\nposterior"),
        ("markdown", "## Can it be trusted?"),
        ("code", "posterior.diagnose()"),
        ("markdown", "## Equations"),
        ("code", "posterior.equations()"),
        ("markdown", "## Paths, a quarter beyond the data"),
        (
            "code",
            f"times = np.linspace({first!r}, {float(np.round(ahead, 6))!r}, {_POINTS})\n"
            "ahead = gn.forecast(posterior, times)\ngn.plots.paths(ahead, posterior.data);",
        ),
        ("markdown", "## From another start\n\nChange the numbers, and run the cell again."),
        (
            "code",
            f"other = {_rounded(posterior.first_values())!r}\n"
            "gn.plots.paths(gn.forecast(posterior, times, initial=other));",
        ),
        ("markdown", "## The draws, as a table"),
        ("code", "posterior.summary()"),
    ]
    made = [_cell(i, kind, source) for i, (kind, source) in enumerate(cells)]
    return json.dumps({"cells": made, "metadata": _KERNEL, **_FORMAT}, indent=1, ensure_ascii=False) + "\n"


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def _cell(index: int, kind: str, source: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{index}", "metadata": {}, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
