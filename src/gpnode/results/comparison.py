"""Comparing models by how well each measurement is predicted from all the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array
from scipy.optimize import minimize

from gpnode._config import computing
from gpnode.errors import ModelError
from gpnode.inference.stopping.statistics import mean_ess, smooth_weights
from gpnode.problem.binding import data_fingerprint
from gpnode.problem.density import Problem
from gpnode.results.posterior import Posterior

_MOST_DRAWS = 1000


@computing()
def pointwise_log_density(posterior: Posterior) -> np.ndarray:
    """Log density (chains, draws, measurements) of each measurement given the others and the parameters.

    Measurements of one variable are correlated through the Gaussian process; leaving one out of
    a normal density has a closed form in the inverse covariance.
    """
    if posterior.problem is None:
        raise ModelError("comparing models needs them: load the posterior with Posterior.load(path, model=...).")
    draws = posterior.solved.unconstrained
    step = max(1, draws.shape[0] * draws.shape[1] // _MOST_DRAWS)
    kept = draws[:, ::step]
    flat = _pointwise(posterior.problem, jnp.asarray(kept.reshape(-1, kept.shape[-1])))
    return np.asarray(flat).reshape(*kept.shape[:2], -1)


@eqx.filter_jit
def _pointwise(problem: Problem, draws: Array) -> Array:
    def one(u: Array) -> Array:
        values = problem.constrain(u)
        paths = problem.solve(values)
        residuals, _ = problem.residuals(paths, values)
        by_block = []
        for block, residual, std in zip(problem.measured, residuals, problem.noise_stds(values, paths), strict=True):
            observable = problem.observables[block.observable]
            by_block.append(observable.left_out(values, block, residual, std).log_densities)
        return jnp.concatenate(by_block)

    return jax.lax.map(one, draws)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """How well each measurement is predicted from all the others.

    Attributes
    ----------
    elpd_loo, se
        Expected log density of the measurements left out one at a time, summed, and its standard error.
    p_loo
        Effective number of parameters.
    loo_i, pareto_k
        By measurement: its expected log density, and the shape of the tail of its importance weights.
    good_k
        Shapes above this are too large for this number of draws.
    n_samples
        Draws the weights are of.
    """

    elpd_loo: float
    se: float
    p_loo: float
    loo_i: np.ndarray
    pareto_k: np.ndarray
    good_k: float
    n_samples: int

    @property
    def n_data_points(self) -> int:
        """Measurements."""
        return len(self.loo_i)

    @property
    def warning(self) -> bool:
        """Whether some measurement's weights cannot be trusted."""
        return not bool((self.pareto_k <= self.good_k).all())

    def __str__(self) -> str:
        bad = int((~(self.pareto_k <= self.good_k)).sum())
        trust = f"Pareto k exceeds {self.good_k:.2f} for {bad} of them" if bad else f"all Pareto k <= {self.good_k:.2f}"
        return (
            f"elpd_loo {self.elpd_loo:.2f} (standard error {self.se:.2f}), p_loo {self.p_loo:.2f}; "
            f"{self.n_samples} draws, {self.n_data_points} measurements, {trust}"
        )


def loo(posterior: Posterior) -> LeaveOneOut:
    """Expected log density of a measurement left out, by Pareto-smoothed importance sampling.

    >>> gn.loo(posterior).loo_i.shape
    (12,)
    """
    return leave_one_out(pointwise_log_density(posterior))


def leave_one_out(log_densities: np.ndarray) -> LeaveOneOut:
    """The same from the measurements' log densities (chains, draws, measurements)."""
    chains, draws, _ = log_densities.shape
    size = chains * draws
    # Draws that repeat each other have a longer tail to look at.
    relative_ess = mean_ess(log_densities.sum(axis=2)) / size if chains > 1 else 1.0
    by_measurement = log_densities.reshape(size, -1).T
    smoothed = [smooth_weights(-values, max(relative_ess, 1.0 / size)) for values in by_measurement]
    log_weights = np.array([weights for weights, _ in smoothed])
    elpd = np.logaddexp.reduce(log_weights + by_measurement, axis=1)
    within = np.logaddexp.reduce(by_measurement, axis=1) - np.log(size)
    return LeaveOneOut(
        elpd_loo=float(elpd.sum()),
        se=_standard_error(elpd),
        p_loo=float((within - elpd).sum()),
        loo_i=elpd,
        pareto_k=np.array([k for _, k in smoothed]),
        good_k=float(min(1.0 - 1.0 / np.log10(size), 0.7)),
        n_samples=size,
    )


_ALIKE, _CERTAIN = 4.0, 2.0  # differences of log density below which, and standard errors within which, all is chance


def compare(posteriors: Mapping[str, Posterior]) -> pd.DataFrame:
    """Models fitted to the same data, best first, with differences, their standard errors and stacking weights.

    >>> other = gn.Model(gn.Dictionary(["x"], gn.polynomial(2)))
    >>> others = gn.fit(other, data, method=gn.Laplace(draws=200), progress=False)
    >>> ranking = gn.compare({"decay": posterior, "any": others})
    """
    fingerprints = {data_fingerprint(p.data) for p in posteriors.values()}
    if len(fingerprints) > 1:
        raise ModelError("these posteriors come from different data and cannot be compared.")
    return rank_models({name: loo(posterior) for name, posterior in posteriors.items()})


def rank_models(models: Mapping[str, LeaveOneOut]) -> pd.DataFrame:
    """The table of :func:`compare`; ``elpd_diff`` is how far a model lies behind the best."""
    if len(models) < 2:
        raise ModelError("comparing needs two models or more.")
    names = sorted(models, key=lambda name: -models[name].elpd_loo)
    weights = stacking_weights(np.stack([models[name].loo_i for name in names], axis=1))
    best = models[names[0]].loo_i
    rows = {
        name: {
            "rank": rank,
            "elpd_loo": models[name].elpd_loo,
            "p_loo": models[name].p_loo,
            "elpd_diff": models[names[0]].elpd_loo - models[name].elpd_loo,
            "weight": weights[rank],
            "se": models[name].se,
            "dse": _standard_error(best - models[name].loo_i),
            "warning": models[name].warning,
        }
        for rank, name in enumerate(names)
    }
    return pd.DataFrame(list(rows.values()), index=names)


def in_words(table: pd.DataFrame) -> str:
    """What the table of :func:`compare` means: whether differences are more than chance, and what cannot be trusted."""
    best, lines = str(table.index[0]), []
    for name, row in table.iloc[1:].iterrows():
        difference, error = float(row["elpd_diff"]), float(row["dse"])
        size = f"by {difference:.1f} in log density, with a standard error of {error:.1f}"
        if difference < _ALIKE or difference < _CERTAIN * error:
            lines.append(f"{best} and {name} predict about equally well ({size}): take the simpler one.")
        else:
            lines.append(f"{best} predicts better than {name} ({size}).")
    doubtful = [str(name) for name, row in table.iterrows() if row["warning"]]
    if doubtful:
        lines.append(
            f"Some measurements weigh so much on {', '.join(doubtful)} that leaving them out cannot be foreseen: read "
            "the figures as rough."
        )
    return "\n".join(lines)


def stacking_weights(log_densities: np.ndarray) -> np.ndarray:
    """Weights of models whose mixture predicts measurements best, from log densities (measurements, models)."""
    densities = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    count = densities.shape[1]

    def score(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixture = np.maximum(densities @ weights, np.finfo(float).tiny)
        return -float(np.log(mixture).sum()), -(densities / mixture[:, None]).sum(axis=0)

    optimum = minimize(
        score,
        np.full(count, 1.0 / count),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-10},
    )
    weights = np.clip(optimum.x, 0.0, 1.0)
    return weights / weights.sum()


def _standard_error(values: np.ndarray) -> float:
    """Standard error of a sum of values taken as independent."""
    return float(np.sqrt(len(values) * np.var(values)))
