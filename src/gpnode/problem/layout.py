"""How the parameters of several blocks lie in the one unconstrained vector that samplers move in."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from gpnode.model.priors.parameters import Parameter, Values, map_grouped


class Layout(eqx.Module):
    """How the parameters of several blocks lie in one unconstrained vector."""

    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int:
        return sum(p.size for p in self.parameters)

    def slices(self) -> dict[str, slice]:
        """Where each parameter lies in the unconstrained vector."""
        slices, offset = {}, 0
        for p in self.parameters:
            slices[p.name] = slice(offset, offset + p.size)
            offset += p.size
        return slices

    def constrain(self, unconstrained: Array) -> tuple[Values, Array]:
        """Values by name, and the log Jacobian of the map. ``unconstrained`` has shape (size,)."""
        constrained, log_jacobians = self._transformed(unconstrained, self.parameters)
        values = {p.name: value for p, value in zip(self.parameters, constrained, strict=True)}
        return values, sum(map(jnp.sum, log_jacobians), jnp.zeros(()))

    def log_jacobian(self, unconstrained: Array, names: tuple[str, ...]) -> Array:
        """Log Jacobian of the map for the parameters named."""
        _, log_jacobians = self._transformed(unconstrained, tuple(p for p in self.parameters if p.name in names))
        return sum(map(jnp.sum, log_jacobians), jnp.zeros(()))

    def _transformed(self, unconstrained: Array, chosen: tuple[Parameter, ...]) -> tuple[list[Array], list[Array]]:
        """Values of the parameters ``chosen``, and the log Jacobians of their maps."""
        slices = self.slices()
        raw = [unconstrained[slices[p.name]].reshape(p.shape) for p in chosen]
        maps = [p.transform for p in chosen]
        values = map_grouped(lambda transform, x: transform(x), maps, raw)
        return values, map_grouped(lambda transform, x, y: transform.log_abs_det_jacobian(x, y), maps, raw, values)

    def unconstrain(self, values: Mapping[str, Array]) -> Array:
        """The vector whose :meth:`constrain` gives ``values``."""
        return jnp.concatenate(
            [jnp.zeros(0)] + [jnp.ravel(p.transform.inv(jnp.asarray(values[p.name]))) for p in self.parameters]
        )
