"""Coordinates for samplers."""

from __future__ import annotations

import equinox as eqx
from jax import Array


class Whitening(eqx.Module):
    """Coordinates in which the density is round about a maximum: ``unconstrained = centre + scale_tril @ z``.

    ``curvature`` (size, size) is the mean over all maxima of the inverse covariance: a chain may wander from a
    wide region into a narrow one, and steps that suit only the first would fail there.
    """

    centre: Array
    scale_tril: Array
    curvature: Array

    def point(self, z: Array) -> Array:
        return self.centre + self.scale_tril @ z
