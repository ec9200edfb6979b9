"""Modes that chains visit for long: which draws belong to which, and what that says about their weights.

Chains may sit in different modes, or wander between them so rarely that they do not agree as a whole. Both
show in the combination of parameters that changes most slowly: if it is at one of two levels most of the
time, there are two modes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpnode.inference.stopping.statistics import agree, bulk_ess

_MOST = 6
_LAG, _LONGEST_LAG = 0.01, 100  # part of a chain, and draws; what changes faster than this is not two levels
# Once levels are known, averages over an eighth of that, but of some draws at least, tell when chains changed between
# them.
_SHARPER, _FEWEST_AVERAGED = 8, 4
_GAP = 1.0  # between two levels, in standard deviations about them; the halves of a uniform distribution have 0.7
_CLIP = 5.0  # how far from the median, in scales, a value may count
_FEWEST = 40  # draws in a mode
_NEGLIGIBLE = 0.05  # part of the draws
_BEHIND = 3.0  # standard deviations of a normal distribution's log density
_PIECES = 4
_FEWEST_SWITCHES = 10  # between modes; fewer say next to nothing about how long visits are


@dataclass(frozen=True)
class Modes:
    """``labels`` (chains, draws): the mode each draw belongs to, 0 for the most visited one; -1 on the way to one."""

    labels: np.ndarray

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def switches(self) -> int:
        """How often chains went from one mode to another."""
        return int(np.sum((np.diff(self.labels, axis=1) != 0) & (self.labels[:, :-1] >= 0) & (self.labels[:, 1:] >= 0)))

    @property
    def weights(self) -> np.ndarray:
        """Part of the draws in each mode (modes,), of those in any."""
        counts = np.bincount(self.labels[self.labels >= 0], minlength=self.count)
        return counts / counts.sum()

    @property
    def weight_errors(self) -> np.ndarray:
        """Standard errors of the weights (modes,): infinite if chains hardly ever switched."""
        if self.switches < _FEWEST_SWITCHES:
            return np.full(self.count, np.inf)
        visits = [(self.labels == mode).astype(float) for mode in range(self.count)]
        return np.array([v.std() / np.sqrt(max(bulk_ess(v), 1.0)) for v in visits])

    @property
    def main(self) -> list[int]:
        """Modes that can be judged by themselves: not those hardly ever visited."""
        return [mode for mode, weight in enumerate(self.weights) if weight >= _NEGLIGIBLE]

    def positions(self, mode: int) -> tuple[np.ndarray, np.ndarray]:
        """Chain and draw (pieces, draws) of the draws in a mode, cut into pieces that take the place of chains."""
        chain, draw = np.nonzero(self.labels == mode)
        length = chain.size // _PIECES
        shape = (_PIECES, length)
        return chain[: _PIECES * length].reshape(shape), draw[: _PIECES * length].reshape(shape)

    def of(self, values: np.ndarray, mode: int) -> np.ndarray:
        """Values (chains, draws, ...) in one mode (pieces, draws, ...); all of them if there is but one."""
        return values if self.count == 1 else values[self.positions(mode)]


def far_behind(size: int) -> float:
    """By how much the mean log density of a place with ``size`` unknowns is lower where it cannot matter.

    A place below that may hold a chain for thousands of draws before it goes to the others.
    """
    return _BEHIND * float(np.sqrt(0.5 * size))


def find_modes(draws: np.ndarray, log_density: np.ndarray) -> Modes:
    """Tell modes apart by draws (chains, draws, size) of the unconstrained vector; one mode if chains agree.

    A mode is a place that chains come to from another, or in which one ends. One that they only left is none if its
    ``log_density`` (chains, draws) is so low that they were bound to leave; otherwise nobody knows whether they would
    come back.
    """
    labels = np.zeros(draws.shape[:2], dtype=int)
    scale = 1.5 * np.median(np.abs(draws - np.median(draws, axis=(0, 1))), axis=(0, 1))
    moving = scale > 0
    if not (np.isfinite(draws).all() and moving.any()):
        return Modes(labels)
    centred = draws[:, :, moving] - np.median(draws[:, :, moving], axis=(0, 1))
    values = np.clip(centred / scale[moving], -_CLIP, _CLIP)
    lag = max(1, min(int(_LAG * draws.shape[1]), _LONGEST_LAG))
    unsplit = [0]
    while unsplit and labels.max() + 1 < _MOST:
        mode = unsplit.pop(0)
        if agree(Modes(labels).of(draws, mode)):
            continue
        upper = _upper_level(values, labels == mode, lag)
        if upper is not None:
            new = labels.max() + 1
            labels[upper] = new
            unsplit += [mode, new]
    lasting = np.unique(np.concatenate([_arrivals(labels, lag), labels[:, -1]]))
    levels = np.array([log_density[labels == place].mean() for place in range(labels.max() + 1)])
    lasting = np.union1d(lasting, np.nonzero(levels > levels[lasting].max() - far_behind(draws.shape[2]))[0])
    if lasting.size < 2:
        return Modes(np.zeros_like(labels))
    by_size = lasting[np.argsort(-np.bincount(labels.ravel())[lasting], kind="stable")]
    new = np.full(labels.max() + 1, -1)
    new[by_size] = np.arange(by_size.size)
    return Modes(new[labels])


def _arrivals(labels: np.ndarray, shortest: int) -> np.ndarray:
    """Labels (visits,) of where chains went to and stayed for ``shortest`` draws: on the way they may seem to turn."""
    arrivals = []
    for chain in labels:
        changes = np.flatnonzero(np.diff(chain)) + 1
        lengths = np.diff([*changes, chain.size])
        arrivals.append(chain[changes[lengths >= shortest]])
    return np.concatenate(arrivals)


def _upper_level(values: np.ndarray, chosen: np.ndarray, lag: int) -> np.ndarray | None:
    """Which of the ``chosen`` draws (chains, draws) are at the upper of two levels; None if there is one level."""
    if chosen.sum() < 4 * _FEWEST or not np.ptp(values[chosen], axis=0).any():  # few, or all beyond what counts
        return None
    single = _slowest(values, chosen, lag)
    slow = _smooth(single, lag)
    threshold = _widest_gap(np.sort(slow[chosen]))
    if threshold is None:
        return None
    above = _smooth(single, max(lag // _SHARPER, min(lag, _FEWEST_AVERAGED))) > threshold
    upper, lower = chosen & above, chosen & ~above
    if min(upper.sum(), lower.sum()) < _FEWEST:
        return None
    apart = np.quantile(single[upper], 0.1) > np.quantile(single[lower], 0.9)
    return upper if apart else None


def _widest_gap(ordered: np.ndarray) -> float | None:
    """The middle of the widest gap in ``ordered`` values, in standard deviations on either side; None if it is no gap.

    A tenth of the smaller side may lie in the gap, for chains are on their way now and then.
    """
    n = ordered.size
    below = np.arange(_FEWEST, n - _FEWEST)
    sums, squares = (np.cumsum((ordered - ordered.mean()) ** power) for power in (1, 2))
    stds = []
    for count, total, square in (
        (below, sums[below - 1], squares[below - 1]),
        (n - below, sums[-1] - sums[below - 1], squares[-1] - squares[below - 1]),
    ):
        stds.append(np.sqrt(np.maximum(square / count - (total / count) ** 2, 0.0)))
    fringe = np.minimum(below, n - below) // 10
    first, last = ordered[below - fringe - 1], ordered[np.minimum(below + fringe, n - 1)]
    widths = (last - first) / np.maximum(np.maximum(*stds), 1e-300)
    widest = int(np.argmax(widths))
    return float(0.5 * (first[widest] + last[widest])) if widths[widest] > _GAP else None


def _slowest(values: np.ndarray, chosen: np.ndarray, lag: int) -> np.ndarray:
    """The linear combination (chains, draws) with the largest correlation over ``lag`` draws."""
    centred = values - values[chosen].mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(centred[chosen].T).reshape(2 * centred.shape[-1:]))
    kept = variances > 1e-6 * variances.max()
    white = centred @ (axes[:, kept] / np.sqrt(variances[kept]))
    both = chosen[:, :-lag] & chosen[:, lag:]
    before, after = white[:, :-lag][both], white[:, lag:][both]
    lagged = before.T @ after / max(len(before), 1)
    _, directions = np.linalg.eigh(lagged + lagged.T)
    return white @ directions[:, -1]


def _smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Moving averages along each chain, over ``width`` draws before and after, fewer at the ends."""
    total = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    n = values.shape[1]
    first, last = np.maximum(np.arange(n) - width, 0), np.minimum(np.arange(n) + width + 1, n)
    return (total[:, last] - total[:, first]) / (last - first)
