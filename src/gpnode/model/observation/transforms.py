"""The scale on which measurements scatter evenly about the path."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from gpnode._registry import Registry


class Transform(eqx.Module):
    """The scale on which measurements scatter evenly about the path. Kinds that are registered have a ``name``."""

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

    @abstractmethod
    def around(self, value: float, width: float, data_std: float) -> dist.Distribution:
        """A prior around a measured ``value`` in user units, ``width`` times as wide as is natural on this scale."""

    @property
    def domain(self) -> str:
        """What values outside the domain lack, for errors: "which has no ..."."""
        return "place on the scale of its noise"

    def backward_with_slope(self, y: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled states and their slopes, from smoothed values on the scale of the noise and theirs."""
        x, dx = jax.jvp(self.backward, (jnp.asarray(y),), (jnp.asarray(slope),))
        return np.asarray(x), np.asarray(dx)


class Identity(Transform):
    """Additive noise.

    >>> additive = gn.Model(model.dynamics, transform={"x": gn.Identity()})
    """

    name: ClassVar[str] = "none"

    def forward(self, x: Array) -> Array:
        return x

    def backward(self, y: Array) -> Array:
        return y

    def inside(self, x: Array) -> Array:
        return jnp.full(jnp.shape(x), True)

    @property
    def keeps_units(self) -> bool:
        return True

    def around(self, value: float, width: float, data_std: float) -> dist.Distribution:
        return dist.Normal(value, width * data_std)

    def backward_with_slope(self, y: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y, slope


class Log(Transform):
    """Multiplicative noise: Gaussian on the log scale.

    >>> positive = gn.Model(model.dynamics, transform=gn.Log())
    """

    name: ClassVar[str] = "log"

    def forward(self, x: Array) -> Array:
        return jnp.log(jnp.where(x > 0, x, 1.0))

    def backward(self, y: Array) -> Array:
        return jnp.exp(y)

    def inside(self, x: Array) -> Array:
        return x > 0

    @property
    def keeps_units(self) -> bool:
        return False

    def around(self, value: float, width: float, data_std: float) -> dist.Distribution:
        return dist.LogNormal(np.log(value), width)

    @property
    def domain(self) -> str:
        return "logarithm"

    def backward_with_slope(self, y: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.exp(y)
        return x, slope * x


TRANSFORMS: Registry[Transform] = Registry("transform", Identity, Log)
