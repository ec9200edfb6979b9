"""Convergence statistics on plain arrays, through arviz. NaN never passes for converged."""

from __future__ import annotations

import warnings

import numpy as np

with warnings.catch_warnings():
    # arviz announces its next major version on import; our bounds in pyproject.toml already decide.
    warnings.simplefilter("ignore", FutureWarning)
    import arviz as az


def rank_rhat(draws: np.ndarray) -> float:
    """Rank-normalised split R-hat of draws (chains, draws); infinite if it cannot be computed."""
    return _finite_or(np.inf, _quiet(az.rhat, draws, method="rank") if draws.shape[0] > 1 else np.nan)


def bulk_ess(draws: np.ndarray) -> float:
    """Effective sample size of the bulk; zero if it cannot be computed or the draws are constant."""
    return 0.0 if np.ptp(draws) == 0 else _finite_or(0.0, _quiet(az.ess, draws, method="bulk"))


def tail_ess(draws: np.ndarray) -> float:
    """Effective sample size of the 5 % and 95 % quantiles."""
    return 0.0 if np.ptp(draws) == 0 else _finite_or(0.0, _quiet(az.ess, draws, method="tail"))


def pareto_k(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights: below 0.7 the weighted draws can be trusted."""
    if not np.isfinite(log_weights).all():
        return np.inf
    if np.ptp(log_weights) < 1e-12:
        return -np.inf
    _, k = _quiet(az.psislw, log_weights)
    return _finite_or(np.inf, k)


def _quiet(function, *args, **kwargs):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def _finite_or(default: float, value: object) -> float:
    number = float(np.asarray(value))
    return default if np.isnan(number) else number
