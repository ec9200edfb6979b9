"""Distributions cut off at bounds."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

_HALVINGS = 100
_FARTHEST = 700.0  # on the real line


class Bounded(dist.Distribution):  # type: ignore[misc]
    """A distribution ``base`` of one number, cut off at ``low`` and ``high`` and normalised again.

    >>> from gpnode.model.priors.bounded import Bounded
    >>> prior = Bounded(gn.Normal(1.0, 1.0), 0.0, 3.0)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    pytree_data_fields = ("base", "high", "log_mass", "low")

    def __init__(self, base: dist.Distribution, low: float = -jnp.inf, high: float = jnp.inf) -> None:
        self.base = base
        self.low, self.high = jnp.asarray(low, dtype=float), jnp.asarray(high, dtype=float)
        self.log_mass = jnp.log(_cdf(base, self.high) - _cdf(base, self.low))
        super().__init__(batch_shape=(), event_shape=())

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def log_prob(self, value: Array, intermediates: Any = None) -> Array:
        inside = (value >= self.low) & (value <= self.high)
        return jnp.where(inside, self.base.log_prob(value) - self.log_mass, -jnp.inf)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        least, most = _cdf(self.base, self.low), _cdf(self.base, self.high)
        wanted = least + (most - least) * jax.random.uniform(key, sample_shape)

        def halve(_: int, between: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = between
            middle = 0.5 * (low + high)
            below = _cdf(self.base, middle) < wanted
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        ends = (jnp.broadcast_to(end, sample_shape) for end in (self.low, self.high))
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, tuple(ends))
        return 0.5 * (low + high)

    @property
    def mean(self) -> Array:
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> Array:
        return (self.high - self.low) ** 2 / 12.0


def _cdf(base: dist.Distribution, value: Array) -> Array:
    """Of any number, those outside of the support included."""
    lowest = jnp.asarray(getattr(base.support, "lower_bound", -jnp.inf))
    highest = jnp.asarray(getattr(base.support, "upper_bound", jnp.inf))
    if base.support is constraints.positive or base.support is constraints.nonnegative:
        lowest, highest = jnp.zeros(()), jnp.asarray(jnp.inf)
    inside = (value > lowest) & (value < highest)
    somewhere = jnp.where(jnp.isfinite(lowest), lowest + 1.0, 0.0)
    somewhere = jnp.where(jnp.isfinite(highest) & jnp.isfinite(lowest), 0.5 * (lowest + highest), somewhere)
    found = base.cdf(jnp.where(inside, value, somewhere))
    return jnp.where(inside, found, jnp.where(value <= lowest, 0.0, 1.0))
