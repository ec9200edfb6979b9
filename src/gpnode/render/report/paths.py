"""What the page's chart draws: measurements, mean paths and intervals of every experiment, as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from gpnode.errors import GpnodeError
from gpnode.results.forecasts import forecast
from gpnode.results.posterior import Posterior

_PROBABILITIES = (0.5, 0.8, 0.9, 0.95)
_TIMES = 241
_MOST_DRAWS = 500


@dataclass(frozen=True)
class ReportPaths:
    """What the chart and its controls need; ``obstacle`` says why there are no paths, where there are none.

    ``content`` is what ``page.js`` reads. ``failures`` counts, by experiment, the draws whose path could not be solved.
    ``has_corrections`` tells whether a Gaussian process moves the paths away from those of the equations alone.
    """

    obstacle: str = ""
    states: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    has_corrections: bool = False
    content: Mapping[str, Any] = field(default_factory=dict)
    probabilities: tuple[float, ...] = _PROBABILITIES


def gather_paths(posterior: Posterior, beyond: float) -> ReportPaths:
    """Paths of all experiments. They run ``beyond`` times the measured time past its end."""
    try:
        experiments = {name: _describe_experiment(posterior, name, beyond) for name in posterior.data.experiments}
    except GpnodeError as error:
        return ReportPaths(obstacle=str(error))
    return ReportPaths(
        states=tuple(map(str, posterior.problem.states)) if posterior.problem else (),
        experiments=tuple(experiments),
        failures={name: e["failures"] for name, e in experiments.items() if e["failures"]},
        has_corrections=any("ode" in state for e in experiments.values() for state in e["states"].values()),
        content=_to_json_types({"experiments": experiments, "unit": posterior.data.time_unit or ""}),
    )


def _describe_experiment(posterior: Posterior, name: str, beyond: float) -> dict[str, Any]:
    data = posterior.data
    series = [s for s in data.series if s.experiment == name]
    start, end = data.start[name], max(s.times[-1] for s in series)
    times = np.linspace(start, end + beyond * (end - start), _TIMES)
    paths = forecast(posterior, times, experiment=name, max_draws=_MOST_DRAWS)
    measured = {s.variable: {"t": s.times, "y": s.values} for s in series}
    bands = {"full": _describe_bands(paths.states)}
    if not np.allclose(paths.ode, paths.states, rtol=1e-9):
        bands["ode"] = _describe_bands(paths.ode)
    states = {
        state: {"data": measured.get(state), **{kind: by_state[state] for kind, by_state in bands.items()}}
        for state in map(str, paths.states["state"].to_numpy())
    }
    return {"t": times, "end": end, "failures": paths.failures, "states": states}


def _describe_bands(draws: xr.DataArray) -> dict[str, dict[str, Any]]:
    """Mean (times,) and intervals of paths (draw, time, state), by state."""
    mean = draws.mean("draw")
    ends = {p: draws.quantile([0.5 - 0.5 * p, 0.5 + 0.5 * p], "draw") for p in _PROBABILITIES}
    return {
        str(state): {
            "mean": mean.sel(state=state).to_numpy(),
            "bands": {str(p): e.sel(state=state).to_numpy() for p, e in ends.items()},
        }
        for state in draws["state"].to_numpy()
    }


def _to_json_types(value: Any) -> Any:
    """Lists and plain numbers of six digits; JSON has no NaN or infinity, which become null."""
    if isinstance(value, Mapping):
        return {str(k): _to_json_types(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_to_json_types(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
