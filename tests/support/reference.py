"""The log posterior density again, in NumPy and SciPy, written from the formulas and sharing no code.

Works in the user's units wherever it can, and takes from the model under test only what is
a choice: the scales of the states, the unit of time, and the order of parameters.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.special import expit, log_expit


def positive(distribution):
    """A positive parameter: value and log density of its logarithm."""

    def at(u):
        value = np.exp(u)
        return value, distribution.logpdf(value) + u

    return at


def real(mean, sd):
    """A normal parameter, sampled in standard units."""
    return lambda u: (mean + sd * u, stats.norm.logpdf(u))


def uniform(low, high):
    return lambda u: (low + (high - low) * expit(u), log_expit(u) + log_expit(-u))


LOGNORMAL = positive(stats.lognorm(1.0))  # LogNormal(0, 1)
LENGTH = positive(stats.gamma(1.0, scale=2.0))  # Gamma(shape 1, rate 1/2)
PERIOD = positive(stats.lognorm(1.0, scale=np.exp(-1.0)))  # LogNormal(-1, 1)


def half_cauchy(scale):
    return positive(stats.halfcauchy(scale=scale))


def inverse_gamma(nu, s):
    return positive(stats.invgamma(nu / 2.0, scale=nu * s**2 / 2.0))


# -- kernels at absolute lags d, with hyperparameters h --------------------------------------


def squared_exponential(h, d):
    return h["variance"] * np.exp(-(d**2) / (2.0 * h["length_scale"] ** 2))


def matern12(h, d):
    return h["variance"] * np.exp(-d / h["length_scale"])


def matern32(h, d):
    r = np.sqrt(3.0) * d / h["length_scale"]
    return h["variance"] * (1 + r) * np.exp(-r)


def matern52(h, d):
    r = np.sqrt(5.0) * d / h["length_scale"]
    return h["variance"] * (1 + r + r * r / 3) * np.exp(-r)


def periodic(h, d):
    return h["variance"] * np.exp(-2 * np.sin(np.pi * d / h["period"]) ** 2 / h["length_scale"] ** 2)


def rational_quadratic(h, d):
    return h["variance"] * (1 + d**2 / (2 * h["mixture"] * h["length_scale"] ** 2)) ** -h["mixture"]


KERNELS = {
    "SquaredExponential": (squared_exponential, {"variance": LOGNORMAL, "length_scale": LENGTH}),
    "Matern12": (matern12, {"variance": LOGNORMAL, "length_scale": LENGTH}),
    "Matern32": (matern32, {"variance": LOGNORMAL, "length_scale": LENGTH}),
    "Matern52": (matern52, {"variance": LOGNORMAL, "length_scale": LENGTH}),
    "Periodic": (periodic, {"variance": LOGNORMAL, "length_scale": LENGTH, "period": PERIOD}),
    "RationalQuadratic": (rational_quadratic, {"variance": LOGNORMAL, "length_scale": LENGTH, "mixture": LOGNORMAL}),
}


def path(slopes, x0, t0, times):
    """Solution of dx/dt = slopes(t, x) from (t0, x0) at increasing times, in user units."""
    found = solve_ivp(slopes, (t0, times[-1]), x0, t_eval=times, method="DOP853", rtol=1e-12, atol=1e-12)
    assert found.success
    return found.y.T


def block_log_density(y, mean, cov):
    return stats.multivariate_normal(mean, cov, allow_singular=False).logpdf(y)


def horseshoe_log_density(theta, tau, slab_var, floor=0.02):
    """Coefficient by coefficient: a sum over 81 half-Cauchy nodes in log(lambda) on [-10, 10]."""
    grid = np.linspace(-10, 10, 81)
    weight = stats.halfcauchy.pdf(np.exp(grid)) * np.exp(grid)
    weight = weight / weight.sum()
    total = 0.0
    for th, t in zip(theta, tau, strict=True):
        free = (t * np.exp(grid)) ** 2
        var = free if slab_var is None else slab_var * free / (slab_var + free)
        total += np.log(np.sum(weight * stats.norm.pdf(th, 0.0, np.sqrt(var + floor**2))))
    return total
