"""What a problem says of given parameters: likelihood, prior, simulations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from gpnode._config import compiled_for_few_calls
from gpnode.errors import FileFormatError
from gpnode.formats.petab.building import Built
from gpnode.formats.petab.priors import log_prior
from gpnode.formats.petab.statement import Statement
from gpnode.model.observation.formula_noise import BoundFormula
from gpnode.problem.binding import bind
from gpnode.problem.density import Problem
from gpnode.solvers import NativeStiff, Status

_SOLVER = NativeStiff(rtol=1e-10, atol=1e-13, max_steps=200_000)


@dataclass(frozen=True)
class Evaluated:
    """Of given parameters: log likelihood, chi2 (sum of squared residuals in units of their noise), log prior of each
    estimated parameter, and the table of measurements with simulations in the place of values."""

    log_likelihood: float
    chi2: float
    log_priors: Mapping[str, float]
    simulations: pd.DataFrame

    @property
    def log_prior(self) -> float:
        """Of all parameters together."""
        return math.fsum(self.log_priors.values())

    @property
    def log_posterior(self) -> float:
        """Up to a constant."""
        return self.log_likelihood + self.log_prior


def evaluate_problem(statement: Statement, built: Built, values: Mapping[str, float] | None = None) -> Evaluated:
    """Likelihood, priors and simulations at ``values``, by name; at nominal values of what they do not name."""
    at = parameter_values(statement, values or {})
    problem = bind(built.model, built.data).with_solver(_SOLVER)
    free = {name: jnp.asarray(at[name]) for name, one in statement.parameters.items() if one.is_estimated}
    predictions, densities, stds, status = _evaluate(problem, free)
    if int(status) != Status.OK:
        raise FileFormatError(f"the equations cannot be solved at these parameters: {Status(int(status)).name}.")
    total, chi2 = 0.0, 0.0
    simulated = np.full(len(statement.rows), np.nan)
    for block, predicted, density, std in zip(problem.measured, predictions, densities, stds, strict=True):
        observable = problem.observables[block.observable]
        assert isinstance(observable.noise, BoundFormula)
        scale = float(problem.output_scale[problem.outputs.index(observable.variable)])
        rows = built.rows[problem.experiments[block.experiment], observable.variable]
        simulated[rows] = np.asarray(predicted) * scale
        measured = np.array([statement.rows[i].value for i in rows])
        keeps = observable.transform.keeps_units
        total += float(density) - (rows.size * math.log(scale) if keeps else float(np.log(measured).sum()))
        residual = (measured / scale - np.asarray(predicted)) if keeps else np.log(measured / simulated[rows])
        width = np.asarray(std) / (1.0 if observable.noise.is_normal else math.sqrt(2.0))
        chi2 += float(((residual / width) ** 2).sum())
    priors = {n: log_prior(one, at[n]) for n, one in statement.parameters.items() if one.is_estimated}
    return Evaluated(total, chi2, priors, _table(statement, simulated))


def parameter_values(statement: Statement, values: Mapping[str, float]) -> dict[str, float]:
    """A value for each parameter, on a linear scale."""
    for name in values:
        if name not in statement.parameters:
            raise FileFormatError(f"there is no parameter {name!r:.60}; there are {', '.join(statement.parameters)}.")
    at = {}
    for name, one in statement.parameters.items():
        if name not in values and one.nominal is None:
            raise FileFormatError(f"the parameter {name!r:.60} has no nominal value. Give one.")
        at[name] = float(values.get(name, one.nominal or 0.0))
    return at


@compiled_for_few_calls
def _evaluate(problem: Problem, free: dict[str, Any]) -> Any:
    values = problem.completed(free)
    paths = problem.solve(values)
    residuals, status = problem.residuals(paths, values)
    stds = problem.noise_stds(values, paths)
    densities = problem.block_densities(values, residuals, stds)
    return problem.predictions(paths, values), densities, stds, status


def _table(statement: Statement, simulated: np.ndarray) -> pd.DataFrame:
    rows = statement.rows
    return pd.DataFrame(
        {
            "observableId": [row.observable for row in rows],
            "experiment": [row.experiment for row in rows],
            "time": [row.time for row in rows],
            "measurement": [row.value for row in rows],
            "simulation": simulated,
        }
    )
