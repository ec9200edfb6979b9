"""Cholera in a town: susceptible, infected and recovered people, and bacteria in the water, without the package.

``python tests/support/cholera.py`` simulates new infections and concentrations of bacteria, draws from the posterior by
an ensemble of walkers and a Runge-Kutta solver of its own, and writes both to ``cholera.json`` beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import gammaln

FILE = Path(__file__).with_suffix(".json")
NAMES = ("beta", "gamma", "xi", "delta")
TRUTH = {"beta": 3.0, "gamma": 0.25, "xi": 60.0, "delta": 0.3}
PRIOR_SCALES = np.array([2.5, 1.0, 25.0, 1.0])  # of half-Cauchy distributions
KAPPA, PEOPLE, LOG_STD = 1e6, 1000.0, 0.15
START = np.array([990.0, 10.0, 0.0, 0.0])
TIMES = 3.5 * np.arange(1, 21)
_STEPS = 8  # between two times
_WALKERS, _ROUNDS, _DROPPED = 400, 1100, 150


def slopes(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Of states (4, ...) with parameters (4, ...)."""
    beta, gamma, xi, delta = theta
    infected = beta * x[3] / (KAPPA + x[3]) * x[0]
    recovered = gamma * x[1]
    return np.stack([-infected, infected - recovered, recovered, xi * x[1] - delta * x[3]])


def paths(theta: np.ndarray) -> np.ndarray:
    """States (times, 4, n) for parameters (4, n), by classical Runge-Kutta steps."""
    x = np.repeat(START[:, None], theta.shape[1], axis=1)
    found = []
    for gap in np.diff(TIMES, prepend=0.0):
        h = gap / _STEPS
        for _ in range(_STEPS):
            a = slopes(x, theta)
            b = slopes(x + 0.5 * h * a, theta)
            c = slopes(x + 0.5 * h * b, theta)
            d = slopes(x + h * c, theta)
            x = x + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        found.append(x)
    return np.stack(found)


def log_density(logs: np.ndarray, cases: np.ndarray, bacteria: np.ndarray) -> np.ndarray:
    """Of logarithms of parameters (n, 4), with the Jacobian of the logarithm."""
    theta = np.exp(logs.T)
    with np.errstate(all="ignore"):
        along = paths(theta)
        left = np.concatenate([np.full((1, theta.shape[1]), START[0]), along[:, 0]])
        expected = np.maximum(-np.diff(left, axis=0), 1e-16)
        counts = cases[:, None] * np.log(expected) - expected - gammaln(cases[:, None] + 1.0)
        away = (np.log(bacteria[:, None]) - np.log(along[:, 3])) / LOG_STD
        prior = logs.T - np.log1p((theta / PRIOR_SCALES[:, None]) ** 2)
        total = counts.sum(axis=0) - 0.5 * (away**2).sum(axis=0) + prior.sum(axis=0)
    return np.where(np.isfinite(total), total, -np.inf)


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """New infections since the last time, and bacteria, at ``TIMES``; the path is scipy's."""
    rng = np.random.default_rng(seed)
    theta = np.array(list(TRUTH.values()))
    options = {"t_eval": TIMES, "rtol": 1e-10, "atol": 1e-10}
    path = solve_ivp(lambda t, x: slopes(x, theta), (0.0, TIMES[-1]), START, **options).y
    new = -np.diff(np.concatenate([[START[0]], path[0]]))
    return rng.poisson(new).astype(float), path[3] * np.exp(LOG_STD * rng.normal(size=TIMES.size))


def draw(cases: np.ndarray, bacteria: np.ndarray, seed: int) -> np.ndarray:
    """Parameters (rounds, walkers, 4) by an ensemble that moves along lines through pairs of its walkers."""
    rng = np.random.default_rng(seed)
    centre = np.log(list(TRUTH.values()))
    logs = centre + 0.05 * rng.normal(size=(_WALKERS, 4))
    heights = log_density(logs, cases, bacteria)
    halves = np.arange(_WALKERS) % 2
    kept = []
    for i in range(_ROUNDS):
        for half in (0, 1):
            mine, others = np.flatnonzero(halves == half), np.flatnonzero(halves != half)
            partners = logs[rng.choice(others, mine.size)]
            stretch = (1.0 + rng.random(mine.size)) ** 2 / 2.0  # between a half and two
            proposed = partners + stretch[:, None] * (logs[mine] - partners)
            height = log_density(proposed, cases, bacteria)
            chance = 3.0 * np.log(stretch) + height - heights[mine]
            accepted = mine[np.log(rng.random(mine.size)) < chance]
            chosen = np.isin(mine, accepted)
            logs[accepted], heights[accepted] = proposed[chosen], height[chosen]
        if i >= _DROPPED:
            kept.append(np.exp(logs))
    return np.stack(kept)


def summarise(draws: np.ndarray) -> dict[str, Any]:
    """Mean, standard deviation and the Monte Carlo error of the mean, from means of fifty stretches of the run."""
    batches = np.array_split(draws, 50)
    means = np.stack([batch.mean(axis=(0, 1)) for batch in batches])
    return {
        name: {
            "mean": float(draws[..., i].mean()),
            "sd": float(draws[..., i].std()),
            "mcse_mean": float(means[:, i].std(ddof=1) / np.sqrt(len(batches))),
        }
        for i, name in enumerate(NAMES)
    }


def main() -> None:
    """Simulate, draw, and write."""
    cases, bacteria = simulate(seed=1)
    bacteria = np.array([float(f"{b:.6g}") for b in bacteria])
    content = {
        "cases": cases.tolist(),
        "bacteria": bacteria.tolist(),
        "summary": summarise(draw(cases, bacteria, seed=2)),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
