"""Priors of PEtab: as distributions to sample from, and their log densities to the last digit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpyro.distributions as dist

from gpnode.errors import FileFormatError
from gpnode.formats.petab.statement import Parameter, Prior
from gpnode.model.priors.bounded import Bounded

_LN10 = math.log(10.0)

_MADE: dict[str, Callable[..., dist.Distribution]] = {
    "cauchy": dist.Cauchy,
    "chisquare": dist.Chi2,
    "exponential": lambda scale: dist.Exponential(1.0 / scale),
    "gamma": lambda shape, scale: dist.Gamma(shape, 1.0 / scale),
    "laplace": dist.Laplace,
    "log-laplace": lambda at, scale: dist.TransformedDistribution(
        dist.Laplace(at, scale), dist.transforms.ExpTransform()
    ),
    "log-normal": dist.LogNormal,
    "log-uniform": dist.LogUniform,
    "normal": dist.Normal,
    "rayleigh": lambda scale: dist.Weibull(scale * math.sqrt(2.0), 2.0),
    "uniform": dist.Uniform,
}
_ENDS = ("uniform", "log-uniform")  # whose numbers are where they begin and end
_POSITIVE = {"chisquare", "exponential", "gamma", "log-laplace", "log-normal", "log-uniform", "rayleigh"}


def prior_of(parameter: Parameter) -> dist.Distribution:
    """The distribution that an estimated parameter has before anything is measured, on a linear scale."""
    lower, upper = parameter.lower, parameter.upper
    if not lower < upper:
        raise FileFormatError(f"the bounds of {parameter.name!r:.60} must be two numbers, the lower one first.")
    prior = _unscaled(parameter)
    try:
        base = _MADE[prior.name](*prior.numbers)
        if not all(map(math.isfinite, prior.numbers)) or (prior.name not in _ENDS and not prior.numbers[-1] > 0):
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise FileFormatError(
            f"the prior of {parameter.name!r:.60} cannot have the numbers {'; '.join(map(repr, prior.numbers))}."
        ) from None
    if prior.name in _ENDS:
        first, last = (max(prior.numbers[0], lower), min(prior.numbers[1], upper))
        if not first < last:
            raise FileFormatError(f"the prior of {parameter.name!r:.60} has nothing within its bounds.")
        return _MADE[prior.name](first, last)
    lowest = 0.0 if prior.name in _POSITIVE else -math.inf
    if lower <= lowest and upper == math.inf:
        return base
    return Bounded(base, max(lower, lowest), upper)


def _unscaled(parameter: Parameter) -> Prior:
    """The prior on a linear scale; without any, a uniform one on the parameter's scale, between its bounds."""
    prior = parameter.prior
    if prior is None:
        if not (math.isfinite(parameter.lower) and math.isfinite(parameter.upper)):
            raise FileFormatError(
                f"the parameter {parameter.name!r:.60} has no prior, and no bounds on both sides. Give it bounds."
            )
        if parameter.scale == "lin":
            return Prior("uniform", (parameter.lower, parameter.upper))
        if not parameter.lower > 0:
            raise FileFormatError(
                f"the parameter {parameter.name!r:.60} is on a logarithmic scale: its bounds must be positive."
            )
        return Prior("log-uniform", (parameter.lower, parameter.upper))
    if prior.scale == "lin":
        return prior
    first, second = prior.numbers
    factor = _LN10 if prior.scale == "log10" else 1.0
    if prior.name == "uniform":
        return Prior("log-uniform", (math.exp(first * factor), math.exp(second * factor)), bounded=prior.bounded)
    return Prior(f"log-{prior.name}", (first * factor, second * factor), bounded=prior.bounded)


def log_prior(parameter: Parameter, value: float) -> float:
    """Log density of a parameter's value on a linear scale."""
    if not parameter.lower <= value <= parameter.upper:
        return -math.inf
    prior = _unscaled(parameter)
    density, below = _FUNCTIONS[prior.name]
    found = density(value, *prior.numbers)
    if not prior.bounded:
        return found
    mass = below(parameter.upper, *prior.numbers) - below(parameter.lower, *prior.numbers)
    return found - math.log(mass)


def _normal(x: float, at: float, scale: float) -> float:
    return -0.5 * ((x - at) / scale) ** 2 - math.log(scale) - 0.5 * math.log(2.0 * math.pi)


def _normal_below(x: float, at: float, scale: float) -> float:
    return 0.5 * math.erfc(-(x - at) / (scale * math.sqrt(2.0)))


def _laplace(x: float, at: float, scale: float) -> float:
    return -abs(x - at) / scale - math.log(2.0 * scale)


def _laplace_below(x: float, at: float, scale: float) -> float:
    away = (x - at) / scale
    return 0.5 * math.exp(away) if away < 0 else 1.0 - 0.5 * math.exp(-away)


def _gamma(x: float, shape: float, scale: float) -> float:
    if x <= 0:
        return -math.inf if shape > 1 or x < 0 else math.inf if shape < 1 else -math.log(scale)
    return (shape - 1.0) * math.log(x) - x / scale - math.lgamma(shape) - shape * math.log(scale)


def _gamma_below(x: float, shape: float, scale: float) -> float:
    from scipy.special import gammainc

    return float(gammainc(shape, x / scale)) if x > 0 else 0.0


def _uniform(x: float, low: float, high: float) -> float:
    return -math.log(high - low) if low <= x <= high else -math.inf


def _uniform_below(x: float, low: float, high: float) -> float:
    return min(max((x - low) / (high - low), 0.0), 1.0)


def _of_logarithm(density: Callable[..., float]) -> Callable[..., float]:
    return lambda x, *numbers: density(math.log(x), *numbers) - math.log(x) if x > 0 else -math.inf


def _below_logarithm(below: Callable[..., float]) -> Callable[..., float]:
    return lambda x, *numbers: below(math.log(x), *numbers) if x > 0 else 0.0


def _log_uniform(x: float, low: float, high: float) -> float:
    return -math.log(x) - math.log(math.log(high / low)) if low <= x <= high else -math.inf


_FUNCTIONS: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    "normal": (_normal, _normal_below),
    "laplace": (_laplace, _laplace_below),
    "log-normal": (_of_logarithm(_normal), _below_logarithm(_normal_below)),
    "log-laplace": (_of_logarithm(_laplace), _below_logarithm(_laplace_below)),
    "cauchy": (
        lambda x, at, scale: -math.log(math.pi * scale) - math.log1p(((x - at) / scale) ** 2),
        lambda x, at, scale: 0.5 + math.atan((x - at) / scale) / math.pi,
    ),
    "gamma": (_gamma, _gamma_below),
    "chisquare": (lambda x, df: _gamma(x, 0.5 * df, 2.0), lambda x, df: _gamma_below(x, 0.5 * df, 2.0)),
    "exponential": (
        lambda x, scale: -x / scale - math.log(scale) if x >= 0 else -math.inf,
        lambda x, scale: -math.expm1(-x / scale) if x > 0 else 0.0,
    ),
    "rayleigh": (
        lambda x, s: math.log(x) - 2.0 * math.log(s) - 0.5 * (x / s) ** 2 if x > 0 else -math.inf,
        lambda x, s: -math.expm1(-0.5 * (x / s) ** 2) if x > 0 else 0.0,
    ),
    "uniform": (_uniform, _uniform_below),
    "log-uniform": (
        _log_uniform,
        lambda x, low, high: _uniform_below(math.log(x), math.log(low), math.log(high)) if x > 0 else 0.0,
    ),
}
"""By name: log density, and probability of less."""
