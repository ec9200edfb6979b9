"""Distributions for single numbers: numpyro's common ones, and what the rest of gpnode asks of any of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import (
    Beta,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Normal,
    StudentT,
    TruncatedNormal,
    Uniform,
    biject_to,
    constraints,
    transforms,
)

from gpnode.tracing.arrays import at_once

__all__ = [
    "Beta",
    "Exponential",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "LogNormal",
    "Normal",
    "StudentT",
    "TruncatedNormal",
    "Uniform",
    "centre_and_width",
    "describe_hyper",
    "exponential",
    "lowest",
    "normal_near",
    "unconstraining_transform",
]


_SHARPNESS = (
    10.0  # values above a tenth of an exponential prior's mean are on a linear scale, smaller ones on a log scale
)


def normal_near(prior: dist.Distribution) -> tuple[Array, Array]:
    """Centre and width of a prior in unconstrained coordinates; exact for normal and log-normal ones."""
    ones = jnp.ones(prior.batch_shape)
    if prior.support is constraints.real:
        return 0.0 * ones, ones
    if isinstance(prior, dist.LogNormal):
        return prior.loc * ones, prior.scale * ones
    if isinstance(prior, dist.Weibull):
        return 0.5 * ones, ones
    if prior.support is constraints.positive or prior.support is constraints.nonnegative:
        centre, width = centre_and_width(prior)
        var = jnp.log1p((width / centre) ** 2)
        return jnp.log(centre) - 0.5 * var, jnp.sqrt(var)
    return 0.0 * ones, 1.8 * ones  # the width of a uniform variable on the logistic scale


def exponential(mean: float) -> dist.Distribution:
    """An exponential distribution, in a form that is sampled on a linear scale but for the smallest values."""
    return dist.Weibull(scale=mean, concentration=1.0)


def unconstraining_transform(prior: dist.Distribution) -> transforms.Transform:
    """Map from the real line to the prior's support, scaled so that one unit is one prior width.

    Without the scaling a parameter known to lie near 30,000 would put very different
    lengths side by side in one vector.
    """
    support = prior.support
    if support is constraints.real:
        loc, scale = centre_and_width(prior)
        return transforms.AffineTransform(loc, scale)
    if isinstance(prior, dist.Weibull):
        # A power of it is exponential. On a log scale that is a long flat tail that ends at a wall; here it is linear
        # but for the smallest values.
        unit = prior.scale**prior.concentration / _SHARPNESS
        parts = [
            transforms.AffineTransform(0.0, _SHARPNESS),
            transforms.SoftplusTransform(),
            transforms.AffineTransform(0.0, unit, domain=constraints.positive),
            transforms.PowerTransform(1.0 / prior.concentration),
        ]
        return transforms.ComposeTransform(parts)
    if isinstance(prior, dist.LogUniform):
        # On a logarithmic scale: eight decades would lie in a corner of a linear one.
        low, high = jnp.log(prior.low), jnp.log(prior.high)
        between = transforms.AffineTransform(low, high - low, domain=constraints.unit_interval)
        return transforms.ComposeTransform([transforms.SigmoidTransform(), between, transforms.ExpTransform()])
    return biject_to(support)


def centre_and_width(prior: dist.Distribution) -> tuple[Array, Array]:
    """Mean and standard deviation of a prior, or 0 (1 for positive ones) and 1 where it has none."""
    return at_once(_centre_and_width, prior)


def _centre_and_width(prior: dist.Distribution) -> tuple[Array, Array]:
    ones = jnp.ones(prior.batch_shape)
    neutral = 1.0 if prior.support is constraints.positive else 0.0
    try:
        loc, scale = prior.mean * ones, jnp.sqrt(prior.variance) * ones
    except NotImplementedError:
        return neutral * ones, ones
    return jnp.where(jnp.isfinite(loc), loc, neutral), jnp.where(jnp.isfinite(scale) & (scale > 0), scale, 1.0)


def lowest(hyper: Any) -> float:
    """Lower end of a prior's support, or the number itself."""
    if not isinstance(hyper, dist.Distribution):
        return float(hyper)
    return float(np.min(np.asarray(getattr(hyper.support, "lower_bound", -np.inf))))


def write_prior(prior: Any) -> str:
    """As one would write it: ``LogNormal(0, 1)``, or a number."""
    if not isinstance(prior, dist.Distribution):
        return f"{float(prior):g}"
    numbers = [getattr(prior, name) for name in prior.arg_constraints if hasattr(prior, name)]
    return f"{type(prior).__name__}({', '.join(f'{float(n):g}' for n in numbers if np.ndim(n) == 0)})"


def say_how_to_write(prior: Any) -> str:
    """What to write in place of a text that stands for a prior, to be added to an error; "" for anything else."""
    return f" In Python write it as gpnode.{prior.strip()}." if isinstance(prior, str) and "(" in prior else ""


def describe_hyper(hyper: Any) -> Any:
    """A prior or number as something JSON can hold, complete enough to tell any two apart."""
    if not isinstance(hyper, dist.Distribution):
        return float(hyper)
    named = {name: np.asarray(getattr(hyper, name)).tolist() for name in hyper.arg_constraints if hasattr(hyper, name)}
    description = {"distribution": type(hyper).__name__, **named}
    if hasattr(hyper, "base_dist"):
        description["base"] = describe_hyper(hyper.base_dist)
        # Sorted, because the order of leaves is that of a set, which differs from process to process.
        description["numbers"] = sorted(float(v) for leaf in jax.tree.leaves(hyper) for v in np.ravel(leaf))
    return description
