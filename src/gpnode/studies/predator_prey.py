"""The paper's predator–prey problem: two species on different grids, a gap, one unknown start.

``gpnode study predator-prey -o DIR`` runs the study.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.studies import results

TRUTH = {"alpha": 1.0, "beta": -0.1, "gamma": -1.5, "delta": 0.75}
START = (5.0, 5.0)
END = 16.5
TIMES = np.linspace(0.0, 30.0, 301)
"""Where forecasts are made and errors measured."""
SHOWN = ("coef[x1, x1]", "coef[x1, x1*x2]", "coef[x2, x2]", "coef[x2, x1*x2]", "x1.initial")
"""The numbers whose chains the paper shows."""


def true_path(times: np.ndarray) -> np.ndarray:
    """The noise-free solution (times, 2)."""

    def field(t: float, x: np.ndarray) -> list[float]:
        return list(slopes(t, SimpleNamespace(x1=x[0], x2=x[1]), SimpleNamespace(**TRUTH)).values())

    grid = np.asarray(times, dtype=float)
    return solve_ivp(field, (0.0, max(grid.max(), END)), START, t_eval=grid, rtol=1e-10, atol=1e-10).y.T


def slopes(t: Any, x: Any, p: Any) -> dict[str, Any]:
    """Lotka and Volterra's equations; x1 is the prey, x2 the predator."""
    return {
        "x1": p.alpha * x.x1 + p.beta * x.x1 * x.x2,
        "x2": p.delta * x.x1 * x.x2 + p.gamma * x.x2,
    }


def known_form(paper: bool = True) -> gn.Model:
    """The right equations with unknown rates; x1(0) is known to lie between 4 and 6, as in the paper.

    Noise and Gaussian process have the ``paper``'s priors, or the defaults.
    """
    priors = {name: gn.Normal(0.0, 2.0) for name in TRUTH}
    known = gn.KnownForm(("x1", "x2"), slopes, priors)
    model = gn.Model(known, initial={"x1": gn.Uniform(4.0, 6.0), "x2": START[1]})
    return gn.paper_priors(model) if paper else model


def dictionary(paper: bool = True) -> gn.Model:
    """The paper's 14-term dictionary: pure powers to the third and the product of both species.

    With the ``paper``'s priors, or with the defaults.
    """
    library = gn.polynomial(3, cross=2, constant=False)
    sought = gn.Dictionary(("x1", "x2"), library)
    model = gn.Model(sought, initial={"x1": gn.Uniform(4.0, 6.0), "x2": START[1]})
    return gn.paper_priors(model) if paper else model


def true_coefficients() -> np.ndarray:
    """The dictionary's true coefficients (equation, term)."""
    coef = np.zeros((2, 7))
    coef[0, [0, 2]] = TRUTH["alpha"], TRUTH["beta"]
    coef[1, [1, 2]] = TRUTH["gamma"], TRUTH["delta"]
    return coef


def noise_std() -> np.ndarray:
    """10 % of each species' standard deviation over a fine grid."""
    return 0.1 * true_path(np.linspace(0.0, END, 2000)).std(axis=0)


def simulate(seed: int = 0) -> gn.Observations:
    """51 measurements of x1 from t = 1.5 on, 52 of x2 with a gap after the first."""
    rng = np.random.default_rng(seed)
    t1 = np.linspace(1.5, 16.5, 51)
    t2 = np.concatenate([[0.0], np.linspace(1.65, 16.35, 50), [16.5]])
    std = noise_std()
    return gn.Observations(
        {
            "x1": (t1, true_path(t1)[:, 0] + std[0] * rng.normal(size=t1.size)),
            "x2": (t2, true_path(t2)[:, 1] + std[1] * rng.normal(size=t2.size)),
        }
    )


def run(output: Path, seed: int = 0, seeds: int = 1, progress: bool = True) -> dict[str, Any]:
    """Fit ``seeds`` data sets from cold, forecast to t = 30, compare with SINDy; everything goes into ``output``."""
    runs = []
    for data_seed, folder in results.data_sets(output, seed, seeds):
        checkpoint = results.unfinished(folder)
        posterior = gn.fit(dictionary(), simulate(data_seed), seed=data_seed, progress=progress, checkpoint=checkpoint)
        ahead = gn.forecast(posterior, TIMES)
        runs.append({"seed": data_seed, **_evaluate(posterior, ahead, folder), "sindy": _sindy(data_seed)})
        _draw(posterior, ahead, folder)
    figures = {"study": "predator-prey", "runs": runs, "summary": _summary(runs)}
    results.write_results(output, figures, _table(figures))
    return figures


def _evaluate(posterior: gn.Posterior, ahead: gn.Forecast, folder: Path) -> dict[str, Any]:
    truth = true_path(TIMES)
    posterior.save(folder / "posterior.nc")
    results.save_table(folder, posterior)
    values = dict(zip(SHOWN, (*TRUTH.values(), START[0]), strict=True))
    return {
        "convergence": results.convergence(posterior),
        "true_values_inside_95": results.inside(posterior, values),
        "active": {f"d{e.state}/dt": {t.term: t.probability for t in e.terms} for e in posterior.equations().equations},
        "rmse_mean_path_0_30": results.rmse(ahead.mean().to_numpy(), truth),
        "rmse_map_path_0_30": results.rmse(ahead.map_path.to_numpy(), truth),
        "coverage_95_0_30": results.coverage(ahead, truth),
        "failed_draws": ahead.failures,
    }


def _sindy(seed: int) -> list[dict[str, Any]] | str:
    try:
        from gpnode.studies import sindy

        return sindy.run(seed, TIMES)
    except ImportError:
        return "pysindy is not installed; pip install pysindy"


def _draw(posterior: gn.Posterior, ahead: gn.Forecast, folder: Path) -> None:
    truth = dict(zip(("x1", "x2"), true_path(TIMES).T, strict=True))
    results.save_figure(folder, "experiments", gn.plots.paths(ahead, posterior.data, truth=truth, whole_paths=True))
    results.save_figure(folder, "coefficients", gn.plots.coefficients(posterior, truth=true_coefficients()))
    results.save_figure(folder, "inclusion", gn.plots.inclusion(posterior))
    results.save_figure(folder, "phase-portrait", gn.plots.phase_portrait(posterior, "x1", "x2"))
    results.save_figure(folder, "residuals", gn.plots.residuals(posterior))
    results.save_chain_figures(folder, posterior, SHOWN)


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over data sets, for us and for every variant of SINDy in case 1."""
    summary = {
        "median_rmse_mean_path": np.median([r["rmse_mean_path_0_30"] for r in runs], axis=0),
        "coverage_95": results.over_data_sets([r["coverage_95_0_30"] for r in runs]),
        "all_converged": all(r["convergence"]["converged"] for r in runs),
        "sindy_case_1_median_rmse": {},
    }
    for row in runs[0]["sindy"] if isinstance(runs[0]["sindy"], list) else ():
        if row["case"].startswith("case 1"):
            errors = [
                o["rmse"]
                for r in runs
                for o in r["sindy"]
                if (o["case"], o["variant"]) == (row["case"], row["variant"])
            ]
            summary["sindy_case_1_median_rmse"][row["variant"]] = np.median(errors, axis=0)
    return summary


def _table(figures: dict[str, Any]) -> str:
    """The comparison side by side, and what bands held, as text."""
    errors = "RMSE over t = 0 to 30 against the true path; inf where the path runs away."
    runs, median = figures["runs"], figures["summary"]["median_rmse_mean_path"]
    parts = [errors, *(results.columns(_errors(f"data {r['seed']}", r["rmse_mean_path_0_30"], _rows(r))) for r in runs)]
    parts += sorted({r["sindy"] for r in runs if isinstance(r["sindy"], str)})  # why it is not there
    if len(runs) > 1:
        sindy = figures["summary"]["sindy_case_1_median_rmse"]
        others = [(f"case 1, {variant}", rmse) for variant, rmse in sindy.items()]
        parts.append(results.columns(_errors("median over data sets", median, others)))
    bands = [row for run in runs for row in results.bands(run["coverage_95_0_30"], f"data {run['seed']}")]
    return "\n\n".join([*parts, results.BANDS, results.columns(bands)])


def _rows(run: dict[str, Any]) -> list[tuple[str, Any]]:
    """SINDy's cases and variants with their errors; none where it is not installed."""
    rows = run["sindy"] if isinstance(run["sindy"], list) else []
    return [(f"{row['case']}, {row['variant']}", row["rmse"]) for row in rows]


def _errors(what: str, ours: Any, sindy: list[tuple[str, Any]]) -> list[dict[str, str]]:
    """Errors of both species as rows of a table: ours first, then SINDy's."""
    rows = [("gpnode, mean path", ours), *((f"SINDy, {variant}", rmse) for variant, rmse in sindy)]
    return [{what: who, "x1": f"{a:.3f}", "x2": f"{b:.3f}"} for who, (a, b) in rows]
