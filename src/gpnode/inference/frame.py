"""Coordinates for samplers."""

from __future__ import annotations

import equinox as eqx
from jax import Array


class Frame(eqx.Module):
    """Coordinates in which a mode is round: ``unconstrained = centre + spread @ z``."""

    centre: Array
    spread: Array

    def point(self, z: Array) -> Array:
        return self.centre + self.spread @ z
