"""Problems on which samplers are compared: the paper's two, a public one, and two textbook systems."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.cli.example_problems import EXAMPLES
from gpnode.formats.problem_toml import ProblemToml, write_problem
from gpnode.studies import glycolysis, predator_prey


class Contest(NamedTuple):
    """A problem, as a function that makes its model and data, and how many times as many effective draws are wanted."""

    name: str
    make: Callable[[], tuple[gn.Model, gn.Observations]]
    wanted: float


def _predator_prey() -> tuple[gn.Model, gn.Observations]:
    return predator_prey.dictionary(), predator_prey.simulate(0)


def _glycolysis() -> tuple[gn.Model, gn.Observations]:
    return glycolysis.model(), glycolysis.simulate(0)


def _lynx_hare() -> tuple[gn.Model, gn.Observations]:
    example = EXAMPLES["lynx-hare"]()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in example.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        write_problem(example.content, Path(folder) / "problem.toml")
        problem = ProblemToml().read(Path(folder) / "problem.toml")
    return problem.model, problem.data


def _sir() -> tuple[gn.Model, gn.Observations]:
    """Susceptible and infected; half of 150 points, 5 % multiplicative noise."""
    rng = np.random.default_rng(0)
    times = np.linspace(0.0, 10.0, 150)
    path = _solved(lambda t, x: [-0.4 * x[0] * x[1], 0.4 * x[0] * x[1] - 0.314 * x[1]], (7.2, 0.98), times)
    kept = np.sort(np.concatenate([[0], 1 + rng.permutation(149)[:74]]))
    values = (path * (1.0 + 0.05 * rng.normal(size=path.shape)))[kept]
    return _cubic(("S", "I"), times[kept], values)


def _lorenz() -> tuple[gn.Model, gn.Observations]:
    """Lorenz' system: 300 points on [0, 3], 5 % noise, 60 coefficients."""
    rng = np.random.default_rng(0)
    times = np.linspace(0.0, 3.0, 300)

    def field(t: float, x: np.ndarray) -> list[float]:
        return [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]]

    path = _solved(field, (2.3, 8.1, 12.4), times)
    values = path + 0.05 * path.std(axis=0) * rng.normal(size=path.shape)
    return _cubic(("x", "y", "z"), times, values)


def _solved(field: Callable[..., list[float]], start: tuple[float, ...], times: np.ndarray) -> np.ndarray:
    return solve_ivp(field, (0.0, times[-1]), start, "LSODA", times, rtol=1e-9, atol=1e-9).y.T


def _cubic(states: tuple[str, ...], times: np.ndarray, values: np.ndarray) -> tuple[gn.Model, gn.Observations]:
    model = gn.Model(gn.Dictionary(states, gn.polynomial(3, cross=3, constant=True)))
    return model, gn.Observations({s: (times, values[:, i]) for i, s in enumerate(states)})


CONTESTS = (
    Contest("predator-prey", _predator_prey, 100.0),
    Contest("glycolysis", _glycolysis, 20.0),
    Contest("lynx-hare", _lynx_hare, 1.0),
    Contest("SIR", _sir, 10.0),
    Contest("Lorenz", _lorenz, 20.0),
)
