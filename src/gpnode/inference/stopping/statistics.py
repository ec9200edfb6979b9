"""Convergence statistics on plain arrays. NaN never passes for converged.

R-hat, effective sample sizes and autocorrelations are those of arviz-stats' array functions, which are the same below
arviz 0.23 and 1.x. Pareto smoothing is our own: theirs scores weights too far apart for ``exp`` as harmless.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

RHAT_LIMIT = 1.01
"""Chains whose rank-normalised R-hat exceeds this do not agree."""
ESS_LIMIT = 400
"""Fewer effective draws than this are not enough, in the bulk or in the tails."""


def rank_rhat(draws: np.ndarray) -> float:
    """Rank-normalised split R-hat of draws (chains, draws); infinite if it cannot be computed."""
    return _finite_or(np.inf, _quiet("rhat", draws, method="rank") if draws.shape[0] > 1 else np.nan)


def bulk_ess(draws: np.ndarray) -> float:
    """Effective sample size of the bulk; zero if it cannot be computed or the draws are constant."""
    return 0.0 if draws.min() == draws.max() else _finite_or(0.0, _quiet("ess", draws, method="bulk"))


def tail_ess(draws: np.ndarray) -> float:
    """Effective sample size of the 5 % and 95 % quantiles."""
    return (
        0.0 if draws.min() == draws.max() else _finite_or(0.0, _quiet("ess", draws, method="tail", prob=(0.05, 0.95)))
    )


def agree(draws: np.ndarray) -> bool:
    """Whether chains of draws (chains, draws, size) are within the verdict's limits in every coordinate."""
    return all(
        rank_rhat(values) <= RHAT_LIMIT and bulk_ess(values) >= ESS_LIMIT and tail_ess(values) >= ESS_LIMIT
        for values in np.moveaxis(draws, -1, 0)
    )


def disagreement(draws: np.ndarray) -> str:
    """How far chains of draws (chains, draws, size), or halves of a single one, are from agreeing where it is worst."""
    if len(draws) == 1:
        draws = np.stack(np.split(draws[0, : draws.shape[1] // 2 * 2], 2))
    values = np.moveaxis(draws, -1, 0)
    rhat, bulk, tail = max(map(rank_rhat, values)), min(map(bulk_ess, values)), min(map(tail_ess, values))
    return f"R-hat is {rhat:.3f}, effective draws are {bulk:.0f} in the bulk and {tail:.0f} in the tails"


def gelman_rubin(draws: np.ndarray) -> float:
    """The classic potential scale reduction of draws (chains, draws), without splitting or ranks."""
    return _finite_or(np.inf, _quiet("rhat", draws, method="identity") if draws.shape[0] > 1 else np.nan)


def autocorrelation(draws: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelation (chains, lags + 1) of draws (chains, draws)."""
    lags = min(lags, draws.shape[1] - 1)
    return np.stack([np.asarray(_quiet("autocorr", chain))[: lags + 1] for chain in draws])


def geweke(draws: np.ndarray, first: float = 0.1, last: float = 0.5, pieces: int = 20) -> np.ndarray:
    """Geweke's z-scores (chains, pieces): does the beginning of a chain have the mean of its later pieces?

    The first tenth of each chain is compared with each of twenty pieces of its last half. Standard errors
    come from within pieces and count effective draws, so that scores are standard normal for a chain that
    has climbed, thinned or not, and a drift does not hide itself.
    """
    n = draws.shape[1]
    head, tail = int(first * n), int(last * n)
    if head < 4 or tail // pieces < 1:
        return np.full((draws.shape[0], pieces), np.nan)
    scores = []
    for chain in draws:
        levelled = np.concatenate([part - part.mean() for part in np.array_split(chain, pieces)])
        slowness = max(1.0, n / max(bulk_ess(levelled[None]), 1.0))
        std = levelled.std(ddof=pieces)
        parts = np.array_split(chain[n - tail :], pieces)
        difference = np.array([part.mean() - chain[:head].mean() for part in parts])
        # Draws closer together than the autocorrelation count as one.
        size = np.array([max(1.0, part.size / slowness) for part in parts])
        error = std * np.sqrt(1.0 / max(1.0, head / slowness) + 1.0 / size)
        scores.append(difference / error if std > 0 else np.full(pieces, np.nan))
    return np.array(scores)


def mean_ess(draws: np.ndarray) -> float:
    """Effective sample size of the mean of draws (chains, draws); zero if it cannot be computed."""
    return _finite_or(0.0, _quiet("ess", draws, method="mean"))


def e_bfmi(energy: np.ndarray) -> float:
    """Smallest energy fraction of missing information over chains (chains, draws): below 0.3 is too small."""
    moved = np.mean(np.diff(energy, axis=1) ** 2, axis=1)
    return float(np.min(moved / np.maximum(energy.var(axis=1), 1e-300)))


def pareto_k(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights: below 0.7 the weighted draws can be trusted."""
    if not np.isfinite(log_weights).all():
        return np.inf
    if np.ptp(log_weights) < 1e-12:
        return -np.inf
    return smooth_weights(log_weights)[1]


def smooth_weights(log_weights: np.ndarray, relative_ess: float = 1.0) -> tuple[np.ndarray, float]:
    """Normalised log weights whose largest were Pareto-smoothed, and the shape of their tail.

    The tail is what exceeds the largest weight of the rest (Vehtari et al., Pareto smoothed importance sampling). With
    fewer than five such weights, or weights too small beside the largest to be numbers, the shape is infinite.
    """
    smoothed: np.ndarray = log_weights - np.max(log_weights)
    size = smoothed.size
    longest = int(np.ceil(min(size / 5.0, 3.0 * np.sqrt(size / relative_ess))))
    cutoff = max(np.sort(smoothed)[-longest - 1], np.log(np.finfo(float).tiny))
    tail = np.flatnonzero(smoothed > cutoff)
    shape = np.inf
    if tail.size > 4:
        tail = tail[np.argsort(smoothed[tail])]
        with np.errstate(all="ignore"):  # a fit that fails has the shape NaN
            shape, scale = _fit_generalised_pareto(np.exp(smoothed[tail]) - np.exp(cutoff))
            shape = _finite_or(np.inf, shape)
            if np.isfinite(shape):
                survival = 1.0 - (np.arange(tail.size) + 0.5) / tail.size
                excess = np.expm1(-shape * np.log(survival)) / shape if shape else -np.log(survival)
                smoothed[tail] = np.minimum(np.log(scale * excess + np.exp(cutoff)), 0.0)
    return smoothed - np.logaddexp.reduce(smoothed), shape


def _fit_generalised_pareto(excess: np.ndarray) -> tuple[float, float]:
    """Shape and scale of sorted excesses (Zhang and Stephens 2009), the shape drawn a little towards one half."""
    size = excess.size
    count = 30 + int(np.sqrt(size))
    quartile = excess[int(size / 4 + 0.5) - 1]
    rates = 1.0 / excess[-1] + (1.0 - np.sqrt(count / (np.arange(count) + 0.5))) / (3.0 * quartile)
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    profile = size * (np.log(-rates / shapes) - shapes - 1.0)
    weights = np.exp(profile - np.logaddexp.reduce(profile))
    weights = np.where(weights < 10 * np.finfo(float).eps, 0.0, weights)
    rate = (weights * rates).sum() / weights.sum()
    shape = np.log1p(-rate * excess).mean()
    return (size * shape + 5.0) / (size + 10.0), -shape / rate


def _quiet(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an array function of arviz-stats, which is loaded when first used: that takes a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from arviz_stats.base import array_stats

        return getattr(array_stats, name)(*args, **kwargs)


def _finite_or(default: float, value: object) -> float:
    number = float(np.asarray(value))
    return default if np.isnan(number) else number
