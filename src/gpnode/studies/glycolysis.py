"""The paper's yeast glycolysis problem: seven states, three of them observed, fifteen unknowns.

``gpnode study glycolysis -o DIR`` runs the study.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.studies import results

STATES = ("S1", "S2", "S3", "S4", "N2", "A3", "S4ex")
START = dict(zip(STATES, (0.5, 1.9, 0.18, 0.15, 0.16, 0.1, 0.064), strict=True))
UNSEEN = dict(zip(STATES, (0.428, 1.378, 0.110, 0.296, 0.252, 0.830, 0.064), strict=True))
"""The paper's start that no measurement was taken from."""
STARTS: dict[str, dict[str, float] | None] = {"measured start": None, "unseen start": UNSEEN}
END = 3.0
HORIZON = 6.0
TRUTH = {
    "J0": 2.5,
    "k1": 100.0,
    "k2": 6.0,
    "k3": 16.0,
    "k4": 100.0,
    "k5": 1.28,
    "k6": 12.0,
    "k": 1.8,
    "kappa": 13.0,
    "q": 4.0,
    "KI": 0.52,
    "phi": 0.1,
    "N": 1.0,
    "A": 4.0,
}
PRIOR_RANGE = {
    "J0": (1.0, 10.0),
    "k1": (80.0, 120.0),
    "k2": (1.0, 10.0),
    "k3": (2.0, 20.0),
    "k4": (80.0, 120.0),
    "k5": (0.1, 2.0),
    "k6": (2.0, 20.0),
    "k": (0.1, 2.0),
    "kappa": (2.0, 20.0),
    "q": (1.0, 10.0),
    "KI": (0.1, 2.0),
    "phi": (0.05, 1.0),
    "N": (0.1, 2.0),
    "A": (1.0, 10.0),
}


def slopes(t: Any, x: Any, p: Any) -> dict[str, Any]:
    """Reaction rates of the seven-species model; concentrations in mM, time in minutes."""
    v1 = p.k1 * x.S1 * x.A3 / (1.0 + (abs(x.A3) / p.KI) ** p.q)
    v2 = p.k2 * x.S2 * (p.N - x.N2)
    v3 = p.k3 * x.S3 * (p.A - x.A3)
    v4 = p.k4 * x.S4 * x.N2
    v5 = p.k5 * x.A3
    v6 = p.k6 * x.S2 * x.N2
    v7 = p.k * x.S4ex
    flux = p.kappa * (x.S4 - x.S4ex)
    return {
        "S1": p.J0 - v1,
        "S2": 2.0 * v1 - v2 - v6,
        "S3": v2 - v3,
        "S4": v3 - v4 - flux,
        "N2": v2 - v4 - v6,
        "A3": -2.0 * v1 + 2.0 * v3 - v5,
        "S4ex": p.phi * flux - v7,
    }


def true_path(times: np.ndarray, start: dict[str, float] | None = None) -> np.ndarray:
    """The noise-free solution (times, 7)."""
    grid = np.asarray(times, dtype=float)

    def field(t: float, x: np.ndarray) -> list[float]:
        return list(slopes(t, SimpleNamespace(**dict(zip(STATES, x, strict=True))), SimpleNamespace(**TRUTH)).values())

    x0 = list((start or START).values())
    return solve_ivp(field, (0.0, max(grid.max(), END)), x0, t_eval=grid, rtol=1e-10, atol=1e-12, method="LSODA").y.T


def noise_std() -> np.ndarray:
    """10 % of each state's standard deviation over a fine grid."""
    return 0.1 * true_path(np.linspace(0.0, END, 2000)).std(axis=0)


def simulate(seed: int = 0) -> gn.Observations:
    """51 values of N2 without its start, 52 of A3 and of S4ex; a gap of half a minute in each."""
    rng = np.random.default_rng(seed)
    late = np.concatenate([np.linspace(0.525, 2.975, 50), [3.0]])
    times = {
        "N2": late,
        "A3": np.concatenate([[0.0], np.linspace(0.5, 3.0, 51)]),
        "S4ex": np.concatenate([[0.0], late]),
    }
    std = noise_std()
    measured = {}
    for name, t in times.items():
        d = STATES.index(name)
        measured[name] = (t, true_path(t)[:, d] + std[d] * rng.normal(size=t.size))
    return gn.Observations(measured, start=0.0, time_unit="minute")


def model() -> gn.Model:
    """Known form with the paper's uniform priors; only the start of N2 is unknown."""
    dynamics = gn.KnownForm(STATES, slopes, {name: gn.Uniform(*range_) for name, range_ in PRIOR_RANGE.items()})
    known = {state: value for state, value in START.items() if state != "N2"}
    return gn.paper_priors(gn.Model(dynamics, initial={**known, "N2": gn.Uniform(0.0, 1.0)}))


def run(output: Path, seed: int = 0, seeds: int = 1, progress: bool = True) -> dict[str, Any]:
    """Fit ``seeds`` data sets from cold; forecast every state to t = 6, and from the unseen start."""
    runs = []
    for data_seed, folder in results.data_sets(output, seed, seeds):
        checkpoint = results.unfinished(folder)
        posterior = gn.fit(model(), simulate(data_seed), seed=data_seed, progress=progress, checkpoint=checkpoint)
        runs.append({"seed": data_seed, **_evaluate(posterior, folder)})
    figures = {"study": "glycolysis", "runs": runs, "summary": _summary(runs)}
    results.write_results(output, figures, _table(runs))
    return figures


def _evaluate(posterior: gn.Posterior, folder: Path) -> dict[str, Any]:
    """Figures and tables of one data set."""
    posterior.save(folder / "posterior.nc")
    results.save_table(folder, posterior)
    truth = {**TRUTH, "N2.initial": START["N2"]}
    times = np.linspace(0.0, HORIZON, 301)
    figures: dict[str, Any] = {
        "convergence": results.convergence(posterior),
        "true_values_inside_95": results.inside(posterior, truth),
    }
    for name, start in STARTS.items():
        ahead, right = gn.forecast(posterior, times, initial=start), true_path(times, start)
        figures[name] = {
            "rmse_mean_path": dict(zip(STATES, results.rmse(ahead.mean().to_numpy(), right), strict=True)),
            "coverage_95": results.coverage(ahead, right),
            "failed_draws": ahead.failures,
        }
        data = posterior.data if start is None else None
        axes = gn.plots.paths(ahead, data, truth=dict(zip(STATES, right.T, strict=True)), whole_paths=True)
        results.save_figure(folder, f"experiments-{name.replace(' ', '-')}", axes)
    results.save_figure(folder, "parameters", gn.plots.parameters(posterior, list(truth), truth=truth))
    results.save_figure(folder, "residuals", gn.plots.residuals(posterior))
    results.save_chain_figures(folder, posterior, list(truth)[:8])
    return figures


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Over data sets: coverage of the true path by state, and the fewest true values inside."""
    return {
        "all_converged": all(r["convergence"]["converged"] for r in runs),
        "fewest_true_values_inside_95": min(sum(r["true_values_inside_95"].values()) for r in runs),
        "coverage_95": {start: results.over_data_sets([r[start]["coverage_95"] for r in runs]) for start in STARTS},
    }


def _table(runs: list[dict[str, Any]]) -> str:
    """True values inside their intervals, errors and what bands held, as text."""
    inside = [
        {
            "": f"data {run['seed']}",
            "inside": f"{sum(run['true_values_inside_95'].values())} of {len(run['true_values_inside_95'])}",
            "not inside": ", ".join(n for n, held in run["true_values_inside_95"].items() if not held) or "-",
        }
        for run in runs
    ]
    paths = [
        {**row, "RMSE of the mean path": f"{error:.4f}"}
        for run in runs
        for start in STARTS
        for row, error in zip(
            results.bands(run[start]["coverage_95"], f"data {run['seed']}, {start}"),
            run[start]["rmse_mean_path"].values(),
            strict=True,
        )
    ]
    head = "True values inside their 95 % intervals."
    return "\n\n".join([head, results.columns(inside), results.BANDS, results.columns(paths)])
