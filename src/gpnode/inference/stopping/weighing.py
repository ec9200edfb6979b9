"""How much of a posterior each of its modes holds, by bridge sampling, whether or not chains went between them.

The mass of a mode is that of the density within its own part of space. It is found from draws of the mode and draws of
a density that is known and much like it (Meng and Wong's bridge), whose error is known, too. The known density is a
normal one, bent axis by axis until it has the quantiles of half of the mode's draws; the other half is weighed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from gpnode.inference.stopping.modes import Modes
from gpnode.inference.stopping.statistics import bulk_ess

LogDensity = Callable[[np.ndarray], np.ndarray]
"""Of points (n, size): log densities (n,), up to a constant; -inf where there is none."""

_MOST_DRAWS = 2000  # of each mode, and from its known density
_FEWEST_OF_A_CHAIN = 4  # draws, to tell how fast it forgets
_FEWEST_PER_SIZE = 5  # draws of a half for every unknown, to fit a density to
_FEWEST_TERMS = 50  # that a mean must in effect be made of, for its error to be known
_LEVELS = ndtr(np.linspace(-2.0, 2.0, 9))  # quantiles that are matched; beyond them the map goes on straight
_LOG_2PI = float(np.log(2.0 * np.pi))
_SHRINK = 1e-6  # of the covariance towards its diagonal, for axes that hardly move
_ROUNDS, _SETTLED = 1000, 1e-10


class Weights(NamedTuple):
    """Parts of the posterior in each of its modes (modes,), and their standard errors: infinite if unknown."""

    values: np.ndarray
    errors: np.ndarray


class Bent:
    """A normal density, bent along its principal axes to have the quantiles of ``draws`` (n, size)."""

    def __init__(self, draws: np.ndarray) -> None:
        self._centre = draws.mean(axis=0)
        cov = np.cov(draws.T).reshape(draws.shape[1], -1)
        variances, axes = np.linalg.eigh((1 - _SHRINK) * cov + _SHRINK * np.diag(np.diag(cov)))
        root = np.sqrt(np.maximum(variances, 1e-300))
        self._to_white, self._from_white = axes / root, (axes * root).T
        self._log_scale = float(np.log(root).sum())
        white = (draws - self._centre) @ self._to_white
        self._maps = [_Map(column) for column in white.T]

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points (count, size)."""
        z = rng.normal(size=(count, len(self._maps)))
        white = np.stack([m.forward(column) for m, column in zip(self._maps, z.T, strict=True)], axis=1)
        return self._centre + white @ self._from_white

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """At points (n, size)."""
        white = (points - self._centre) @ self._to_white
        total = np.full(len(points), -self._log_scale)
        for m, column in zip(self._maps, white.T, strict=True):
            z, log_slope = m.backward(column)
            total += -0.5 * (z**2 + _LOG_2PI) - log_slope
        return total


class _Map:
    """A rising function from standard normal values to ones with the quantiles of ``values``."""

    def __init__(self, values: np.ndarray) -> None:
        self._z = ndtri(_LEVELS)
        self._x = np.quantile(values, _LEVELS)
        self._x = self._x + 1e-9 * np.arange(self._x.size)  # equal quantiles, of draws that stand still
        from scipy.interpolate import PchipInterpolator  # what only modes need takes long to load

        self._curve = PchipInterpolator(self._z, self._x)
        self._slope = self._curve.derivative()
        self._inverse = PchipInterpolator(self._x, self._z)
        # Beyond the last quantiles: a straight line with the slope of the whole half on that side.
        middle = self._z.size // 2
        low, high = (self._x[[middle, -1]] - self._x[[0, middle]]) / self._z[-1]
        self._tails = max(low, 1e-9), max(high, 1e-9)

    def forward(self, z: np.ndarray) -> np.ndarray:
        inside = self._curve(np.clip(z, self._z[0], self._z[-1]))
        low, high = self._tails
        return inside + low * np.minimum(z - self._z[0], 0.0) + high * np.maximum(z - self._z[-1], 0.0)

    def backward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normal values, and the logarithm of the slope of :meth:`forward` there."""
        low, high = self._tails
        z = self._inverse(np.clip(x, self._x[0], self._x[-1]))
        for _ in range(20):  # the inverse curve is only near; Newton's method on a rising function
            slope = np.maximum(self._slope(z), 1e-12)
            z = np.clip(z - (self._curve(z) - np.clip(x, self._x[0], self._x[-1])) / slope, self._z[0], self._z[-1])
        log_slope = np.log(np.maximum(self._slope(z), 1e-12))
        below, above = x < self._x[0], x > self._x[-1]
        z = np.where(below, self._z[0] + (x - self._x[0]) / low, z)
        z = np.where(above, self._z[-1] + (x - self._x[-1]) / high, z)
        return z, np.where(below, np.log(low), np.where(above, np.log(high), log_slope))


def weights_of(modes: Modes, bridged: Weights | None) -> Weights:
    """By the time chains spent in ``modes`` where they changed often enough to tell, else as the bridge has it."""
    by_time = Weights(modes.weights, modes.weight_errors)
    if bridged is None or bridged.values.size != modes.count:
        return by_time
    return by_time if by_time.errors.max() <= bridged.errors.max() else bridged


def weigh(log_density: LogDensity, draws: np.ndarray, modes: Modes, seed: int = 0) -> Weights:
    """Weights of ``modes`` from draws (chains, draws, size) of the density.

    Space is shared among modes by which of their known densities is the highest.
    """
    rng = np.random.default_rng(seed)
    unknown = Weights(modes.weights, np.full(modes.count, np.inf))
    halves = [_halves(draws, modes.labels == mode) for mode in range(modes.count)]
    if any(len(np.concatenate(fitted)) < _FEWEST_PER_SIZE * draws.shape[2] for fitted, _ in halves):
        return unknown
    known = [Bent(np.concatenate(fitted)) for fitted, _ in halves]

    def owner(points: np.ndarray) -> np.ndarray:
        return np.argmax([density.log_density(points) for density in known], axis=0)

    log_masses, relative = np.zeros(modes.count), np.zeros(modes.count)
    for mode, (density, (_, weighed)) in enumerate(zip(known, halves, strict=True)):
        own = [points[owner(points) == mode] for points in weighed]
        thinned = max(1, round(sum(map(len, own)) / _MOST_DRAWS))
        own = [points[::thinned] for points in own if len(points) > _FEWEST_OF_A_CHAIN * thinned]
        if not own:
            return unknown
        proposed = density.draw(_MOST_DRAWS, rng)
        inside = owner(proposed) == mode
        heights = np.full(len(proposed), -np.inf)
        heights[inside] = log_density(proposed[inside])
        log_ratios = [log_density(points) - density.log_density(points) for points in own]
        independent = sum(min(bulk_ess(ratios[None]), ratios.size) for ratios in log_ratios)
        log_masses[mode], relative[mode] = bridge(
            np.concatenate(log_ratios), heights - density.log_density(proposed), independent
        )
    values = np.exp(log_masses - logsumexp(log_masses))
    if not np.isfinite(relative).all():
        return Weights(values, np.full(modes.count, np.inf))
    others = np.sum(values**2 * relative**2) - values**2 * relative**2
    return Weights(values, values * np.sqrt((1.0 - values) ** 2 * relative**2 + others))


def draws_by_weight(modes: Modes, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chains and draws (pieces, draws) of as many draws of each mode as its weight says, evenly chosen, none twice.

    There are as many pieces as chains; they have draws of each mode in turn, so that they are alike.
    """
    places = [np.nonzero(modes.labels == mode) for mode in range(modes.count)]
    total = min(len(chain) / max(weight, 1e-12) for (chain, _), weight in zip(places, weights, strict=True))
    chosen = []
    for (chain, draw), weight in zip(places, weights, strict=True):
        picked = np.linspace(0, len(chain) - 1, int(weight * total)).astype(int)
        chosen.append(np.stack([chain[picked], draw[picked]]))
    together = np.concatenate(chosen, axis=1)
    count = modes.labels.shape[0]
    length = together.shape[1] // count
    chain, draw = np.stack([together[:, i::count][:, :length] for i in range(count)], axis=1)
    return chain, draw


def bridge(of_draws: np.ndarray, of_known: np.ndarray, independent: float) -> tuple[float, float]:
    """Log mass of an unnormalised density p, and its standard error, from log ratios p / q for a known density q.

    Ratios are those at draws of p (n,), worth so many ``independent`` ones, and at draws of q (m,).
    """
    share = independent / (independent + of_known.size)
    log_mass = float(np.median(of_draws))

    def terms(log_mass: float) -> tuple[np.ndarray, np.ndarray]:
        """p / (share p + rest q) under q, and q / (share p + rest q) under p, with p normalised."""
        low, high = np.log(share), np.log1p(-share)
        of_q = of_known - log_mass
        of_p = of_draws - log_mass
        return np.exp(of_q - np.logaddexp(low + of_q, high)), np.exp(-np.logaddexp(low + of_p, high))

    for _ in range(_ROUNDS):
        under_q, under_p = terms(log_mass)
        if not (under_q.mean() > 0 and under_p.mean() > 0):
            return log_mass, np.inf
        change = float(np.log(under_q.mean()) - np.log(under_p.mean()))
        log_mass += change
        if abs(change) < _SETTLED:
            break
    under_q, under_p = terms(log_mass)
    effective = [t.sum() ** 2 / np.sum(t**2) for t in (under_q, under_p)]
    if min(effective) < _FEWEST_TERMS:
        return log_mass, np.inf
    variances = [t.var() / t.mean() ** 2 / n for t, n in ((under_q, of_known.size), (under_p, independent))]
    return log_mass, float(np.sqrt(sum(variances)))


def _halves(draws: np.ndarray, chosen: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The first and the second half of each chain's draws in a mode."""
    chains = [chain[held] for chain, held in zip(draws, chosen, strict=True)]
    chains = [chain for chain in chains if len(chain) > 1]
    return [c[: len(c) // 2] for c in chains], [c[len(c) // 2 :] for c in chains]
