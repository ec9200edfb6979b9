"""Smooth one series by a Gaussian process, to see its slope and its noise before any fit.

Used to find the characteristic time of the data, how large what was measured was at each measurement, and to start
the search for parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

_FEWEST = 4  # times of measurement in a series
_SCATTERED = 0.5  # standard deviation of the noise of a logarithm that no longer tells a size
_MOST_POINTS = 300  # beyond this, neighbouring points are averaged first


@dataclass(frozen=True)
class Smooth:
    """A fitted squared-exponential process with constant mean."""

    times: np.ndarray
    weights: np.ndarray  # (K + noise)^-1 (y - mean)
    mean: float
    signal_std: float
    length_scale: float
    noise_std: float
    factor: np.ndarray  # of K + noise, lower triangular

    def value(self, t: np.ndarray) -> np.ndarray:
        """Smoothed value at times ``t``."""
        return self.mean + self._kernel(t) @ self.weights

    def std(self, t: np.ndarray) -> np.ndarray:
        """How uncertain the smoothed value is."""
        white = scipy.linalg.solve_triangular(self.factor, self._kernel(t).T, lower=True)
        return np.sqrt(np.maximum(self.signal_std**2 - (white**2).sum(axis=0), 0.0))

    def slope(self, t: np.ndarray) -> np.ndarray:
        """Time derivative of the smoothed value."""
        lag = np.subtract.outer(np.asarray(t, dtype=float), self.times)
        return (-lag / self.length_scale**2 * self._kernel(t)) @ self.weights

    def _kernel(self, t: np.ndarray) -> np.ndarray:
        lag = np.subtract.outer(np.asarray(t, dtype=float), self.times)
        return self.signal_std**2 * np.exp(-0.5 * (lag / self.length_scale) ** 2)


def can_be_smoothed(times: np.ndarray) -> bool:
    """Whether there are enough different times (n,) for :func:`smooth`."""
    return np.unique(times).size >= _FEWEST


def smooth(times: np.ndarray, values: np.ndarray) -> Smooth:
    """Fit length scale, signal and noise by marginal likelihood, from several starts."""
    times, values = _thin(np.asarray(times, dtype=float), np.asarray(values, dtype=float))
    mean, std = float(values.mean()), float(values.std()) or 1.0
    z = (values - mean) / std
    span = times[-1] - times[0]
    shortest = max(float(np.median(np.diff(np.unique(times)))), span / 1000.0)
    bounds = [(np.log(shortest), np.log(4.0 * span)), (np.log(0.1), np.log(10.0)), (np.log(1e-3), np.log(2.0))]

    def negative_evidence(log_hyper: np.ndarray) -> float:
        factor = _factor(times, np.exp(log_hyper))
        white = scipy.linalg.solve_triangular(factor, z, lower=True)
        return float(0.5 * white @ white + np.log(np.diag(factor)).sum())

    starts = [np.clip(np.log([span / d, 1.0, 0.1]), *np.transpose(bounds)) for d in (4.0, 12.0, 40.0)]
    fits = [scipy.optimize.minimize(negative_evidence, s, method="L-BFGS-B", bounds=bounds) for s in starts]
    length_scale, signal_std, noise_std = np.exp(min(fits, key=lambda fit: float(fit.fun)).x)
    factor = _factor(times, np.array([length_scale, signal_std, noise_std]))
    weights = scipy.linalg.cho_solve((factor, True), z)
    return Smooth(times, weights / std, mean, signal_std * std, length_scale, noise_std * std, factor * std)


def smoothed_level(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How large what was measured was at each measurement (n,): root of its expected square.

    Few measurements have the root mean square of all. Of a series of one sign the logarithm is smoothed, unless it
    scatters too much to tell a size: a series that falls to a thousandth is known there as well, relative to its size,
    as where it is large.
    """
    if not can_be_smoothed(times):
        return np.full(times.size, np.sqrt(np.mean(np.square(values))))
    if (values > 0).all() or (values < 0).all():
        size = np.abs(values)
        logarithm = smooth(times, np.log(size))
        if logarithm.noise_std < _SCATTERED:
            return np.minimum(np.exp(logarithm.value(times) + logarithm.std(times) ** 2), size.max())
    fit = smooth(times, values)
    return np.hypot(fit.value(times), fit.std(times))


def characteristic_time(times: np.ndarray, fit: Smooth) -> float:
    """How long the series takes to move by its own standard deviation."""
    grid = np.linspace(times[0], times[-1], 200)
    return float(np.std(fit.value(grid)) / max(np.std(fit.slope(grid)), 1e-300))


def _factor(times: np.ndarray, hyper: np.ndarray) -> np.ndarray:
    length_scale, signal_std, noise_std = hyper
    lag = np.subtract.outer(times, times) / length_scale
    cov = signal_std**2 * np.exp(-0.5 * lag**2) + (noise_std**2 + 1e-8) * np.eye(times.size)
    return scipy.linalg.cholesky(cov, lower=True)


def _thin(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if times.size <= _MOST_POINTS:
        return times, values
    groups = np.array_split(np.arange(times.size), _MOST_POINTS)
    return np.array([times[g].mean() for g in groups]), np.array([values[g].mean() for g in groups])
