"""The paper's predator–prey problem: two species on different grids, a gap, one unknown start."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from ..data import Observations
from ..dynamics import Dictionary, KnownForm, Named, polynomial
from ..model import Model
from ..priors import Normal, Uniform

TRUTH = {"alpha": 1.0, "beta": -0.1, "gamma": -1.5, "delta": 0.75}
START = (5.0, 5.0)
END = 16.5


def true_path(times: np.ndarray) -> np.ndarray:
    """The noise-free solution (times, 2)."""

    def field(t: float, x: np.ndarray) -> list[float]:
        return list(slopes(t, Named({"x1": x[0], "x2": x[1]}), Named(TRUTH)).values())

    grid = np.asarray(times, dtype=float)
    found = solve_ivp(field, (0.0, max(grid.max(), END)), START, t_eval=grid, rtol=1e-10, atol=1e-10)
    return found.y.T


def slopes(t: Any, x: Named, p: Named) -> dict[str, Any]:
    """Lotka and Volterra's equations; x1 is the prey, x2 the predator."""
    return {
        "x1": p.alpha * x.x1 + p.beta * x.x1 * x.x2,
        "x2": p.delta * x.x1 * x.x2 + p.gamma * x.x2,
    }


def known_form() -> Model:
    """The right equations with unknown rates; x1(0) is known to lie between 4 and 6, as in the paper."""
    priors = {name: Normal(0.0, 2.0) for name in TRUTH}
    return Model(KnownForm(("x1", "x2"), slopes, priors), initial={"x1": Uniform(4.0, 6.0), "x2": START[1]})


def dictionary() -> Model:
    """The paper's 14-term dictionary: pure powers to the third and the product of both species."""
    library = polynomial(3, cross=2, constant=False)
    return Model(Dictionary(("x1", "x2"), library), initial={"x1": Uniform(4.0, 6.0), "x2": START[1]})


def true_coefficients() -> np.ndarray:
    """The dictionary's true coefficients (equation, term)."""
    found = np.zeros((2, 7))
    found[0, [0, 2]] = TRUTH["alpha"], TRUTH["beta"]
    found[1, [1, 2]] = TRUTH["gamma"], TRUTH["delta"]
    return found


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
