"""The paper's predator–prey problem: two species on different grids, a gap, one unknown start."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from ..data import Observations

TRUTH = {"alpha": 1.0, "beta": -0.1, "gamma": -1.5, "delta": 0.75}
START = (5.0, 5.0)
END = 16.5


def true_path(times: np.ndarray) -> np.ndarray:
    """The noise-free solution (times, 2)."""

    def slopes(t: float, x: np.ndarray) -> list[float]:
        x1, x2 = x
        return [
            TRUTH["alpha"] * x1 + TRUTH["beta"] * x1 * x2,
            TRUTH["delta"] * x1 * x2 + TRUTH["gamma"] * x2,
        ]

    grid = np.asarray(times, dtype=float)
    found = solve_ivp(slopes, (0.0, max(grid.max(), END)), START, t_eval=grid, rtol=1e-10, atol=1e-10)
    return found.y.T


def noise_std() -> np.ndarray:
    """10 % of each species' standard deviation over a fine grid."""
    return 0.1 * true_path(np.linspace(0.0, END, 2000)).std(axis=0)


def simulate(seed: int = 0) -> Observations:
    """51 measurements of x1 from t = 1.5 on, 52 of x2 with a gap after the first."""
    rng = np.random.default_rng(seed)
    t1 = np.linspace(1.5, 16.5, 51)
    t2 = np.concatenate([[0.0], np.linspace(1.65, 16.35, 50), [16.5]])
    std = noise_std()
    return Observations(
        {
            "x1": (t1, true_path(t1)[:, 0] + std[0] * rng.normal(size=t1.size)),
            "x2": (t2, true_path(t2)[:, 1] + std[1] * rng.normal(size=t2.size)),
        }
    )
