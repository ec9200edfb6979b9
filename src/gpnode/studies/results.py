"""What every study writes: figures, tables, and one file with all its numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import gpnode as gn


def save_figure(folder: Path, name: str, axes: Axes | Sequence[Axes]) -> None:
    """Write the figure the axes belong to as ``name.png``, and close it."""
    figure = (axes if isinstance(axes, Axes) else axes[0]).get_figure(root=True)
    assert figure is not None
    figure.savefig(folder / f"{name}.png", dpi=130)
    plt.close(figure)


def data_sets(output: Path, seed: int, seeds: int) -> Iterator[tuple[int, Path]]:
    """The seeds of ``seeds`` data sets, and for each the folder of its results, which is made."""
    for data_seed in range(seed, seed + seeds):
        folder = output if seeds == 1 else output / f"seed-{data_seed}"
        folder.mkdir(parents=True, exist_ok=True)
        yield data_seed, folder


def unfinished(folder: Path) -> Path:
    """Checkpoint of a fit whose results go into ``folder``, until the study is done: the same command goes on there."""
    return folder / "unfinished"


def write_results(folder: Path, results: dict[str, Any], table: str) -> None:
    """End a study: write ``results.json``, and ``table.txt`` with what matters most, to be read."""
    (folder / "results.json").write_text(json.dumps(results, indent=1, default=_plain) + "\n", encoding="utf-8")
    (folder / "table.txt").write_text(f"{table}\n", encoding="utf-8")
    for each in (folder, *folder.glob("seed-*")):
        shutil.rmtree(unfinished(each), ignore_errors=True)


def columns(rows: Sequence[dict[str, str]]) -> str:
    """Rows as lines of text in columns; the first column on the left."""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))

    def line(name: str, *cells: str) -> str:
        return "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])

    return "\n".join(line(*cells) for cells in lines)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def convergence(posterior: gn.Posterior) -> dict[str, Any]:
    """The figures a verdict stands on, over all inferred numbers."""
    verdict = posterior.diagnose()
    return {
        "converged": verdict.converged,
        "headline": verdict.headline,
        "verdict": str(verdict).splitlines(),
        **agreement(posterior),
        "seconds": posterior.record.seconds,
        "failed_solves": posterior.record.solver_failures,
    }


def agreement(posterior: gn.Posterior) -> dict[str, Any]:
    """How far chains agree, and how many draws there are, over all inferred numbers."""
    table = posterior.summary()
    return {
        "worst_rhat": max(table["r_hat"]),
        "least_bulk_ess": min(table["ess_bulk"]),
        "least_tail_ess": min(table["ess_tail"]),
        "divergences": int(posterior.stats["diverging"].sum()),
        "draws": posterior.num_draws,
    }


def rmse(path: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean square error of each state over times (times, states)."""
    return np.sqrt(np.mean((path - truth) ** 2, axis=0))


def coverage(forecast: gn.Forecast, truth: np.ndarray) -> dict[str, dict[str, float]]:
    """For each state, the part of the times at which 95 % bands hold the truth (times, states).

    ``pointwise`` is that of the central intervals, ``whole_path`` that of the band that holds whole paths.
    ``chance_below_90`` says how often the central intervals hold less than 90 % of a path that is certainly right: of
    the posterior's own draws.
    """
    states = [str(s) for s in forecast.states["state"].to_numpy()]

    def held(band: tuple[xr.DataArray, xr.DataArray], paths: np.ndarray) -> np.ndarray:
        low, high = (end.transpose("time", "state").to_numpy() for end in band)
        rounding = 1e-9 * np.abs(paths).max(axis=-2, keepdims=True)  # at a known start the band has no width
        return np.mean((paths >= low - rounding) & (paths <= high + rounding), axis=-2)

    of_draws = held(forecast.interval(), forecast.states.to_numpy())
    parts = {
        "pointwise": held(forecast.interval(), truth),
        "whole_path": held(forecast.envelope(), truth),
        "chance_below_90": np.mean(of_draws < 0.9, axis=0),
    }
    return {name: dict(zip(states, map(float, each), strict=True)) for name, each in parts.items()}


BANDS = "Part of the true path inside 95 % bands: those of each time by itself, and those of whole paths."
"""Heading of a table of :func:`bands`."""


def bands(held: dict[str, dict[str, float]], of: str) -> list[dict[str, str]]:
    """A :func:`coverage` as rows of a table, a state each."""
    return [
        {"": f"{of}, {state}", "each time": f"{part:.0%}", "whole paths": f"{held['whole_path'][state]:.0%}"}
        for state, part in held["pointwise"].items()
    ]


def over_data_sets(coverages: Sequence[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Of several :func:`coverage`: mean and least of each state, and in how many cases fewer than 90 % were held."""
    states = list(coverages[0]["pointwise"])
    by_state: dict[str, Any] = {
        f"{how}_{kind}": {s: float(one([c[kind][s] for c in coverages])) for s in states}
        for kind in ("pointwise", "whole_path")
        for how, one in (("mean", np.mean), ("least", np.min))
    }
    below = [c["pointwise"][s] < 0.9 for c in coverages for s in states]
    expected = [c["chance_below_90"][s] for c in coverages for s in states]
    return by_state | {"cases": len(below), "cases_below_90": sum(below), "expected_below_90": float(np.sum(expected))}


def inside(posterior: gn.Posterior, truth: dict[str, float], probability: float = 0.95) -> dict[str, bool]:
    """Whether each true value lies in the central interval of its number."""
    tail = 0.5 * (1.0 - probability)
    draws = dict(posterior.scalars())
    holds = {}
    for name, value in truth.items():
        low, high = np.quantile(draws[name], [tail, 1.0 - tail])
        holds[name] = bool(low <= value <= high)
    return holds


def save_table(folder: Path, posterior: gn.Posterior) -> None:
    """Write ``parameters.csv``, ``equations.txt`` and ``verdict.txt``."""
    posterior.summary().to_csv(folder / "parameters.csv", float_format="%.6g")
    (folder / "equations.txt").write_text(f"{posterior.equations()}\n", encoding="utf-8")
    (folder / "verdict.txt").write_text(f"{posterior.diagnose()}\n", encoding="utf-8")


def save_chain_figures(folder: Path, posterior: gn.Posterior, names: Sequence[str]) -> None:
    """Geweke, autocorrelation, traces with ranks."""
    save_figure(folder, "geweke", gn.plots.geweke(posterior, names))
    save_figure(folder, "autocorrelation", gn.plots.autocorrelation(posterior, names))
    save_figure(folder, "traces", gn.plots.traces(posterior, names))
