"""A driven pendulum."""

from __future__ import annotations

import jax.numpy as jnp

TIMES = jnp.linspace(0.0, 1.0, 41)
X0 = jnp.array([0.7, 0.4])
PARAMS = {"a": jnp.array([0.3, -0.8, 1.2]), "b": jnp.asarray(0.6)}


def pendulum(t, x, p):
    return jnp.stack([x[1], p["b"] * jnp.sin(6.0 * x[0]) - 0.1 * x[1] + p["a"][0] * t])
