"""The scale on which measurements scatter evenly about the path."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax import Array


class Transform(eqx.Module):
    """The scale on which measurements scatter evenly about the path."""

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """From scaled states to the scale of the noise."""

    @abstractmethod
    def backward(self, y: Array) -> Array:
        """From the scale of the noise to scaled states."""

    @abstractmethod
    def inside(self, x: Array) -> Array:
        """Whether ``x`` can be transformed at all, elementwise."""

    @property
    @abstractmethod
    def keeps_units(self) -> bool:
        """True if the noise is measured in the variable's own unit."""


class Identity(Transform):
    """Additive noise."""

    def forward(self, x: Array) -> Array:
        return x

    def backward(self, y: Array) -> Array:
        return y

    def inside(self, x: Array) -> Array:
        return jnp.full(jnp.shape(x), True)

    @property
    def keeps_units(self) -> bool:
        return True


class Log(Transform):
    """Multiplicative noise: Gaussian on the log scale."""

    def forward(self, x: Array) -> Array:
        return jnp.log(jnp.where(x > 0, x, 1.0))

    def backward(self, y: Array) -> Array:
        return jnp.exp(y)

    def inside(self, x: Array) -> Array:
        return x > 0

    @property
    def keeps_units(self) -> bool:
        return False
