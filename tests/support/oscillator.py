"""An oscillator and its exact path."""

from __future__ import annotations

import jax.numpy as jnp

TIMES = jnp.linspace(0.0, 3.0, 61)


def oscillator(t, x, p):
    return jnp.stack([x[1], -(p["w"] ** 2) * x[0]])


def exact(w, x0, v0, t=TIMES):
    return jnp.stack([x0 * jnp.cos(w * t) + v0 / w * jnp.sin(w * t), -x0 * w * jnp.sin(w * t) + v0 * jnp.cos(w * t)], 1)
