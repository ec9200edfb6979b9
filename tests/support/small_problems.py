"""Small problems that other processes can import, too."""

from __future__ import annotations

import numpy as np

import gpnode as gn

SETTINGS = gn.Lifted(warmup=30, draws=40, chains=2)


def decay(t, x, p):
    return {"x": -p.rate * x.x}


def decay_model(width: float = 1.0) -> gn.Model:
    dynamics = gn.KnownForm(["x"], decay, {"rate": gn.LogNormal(0.0, width)})
    return gn.Model(dynamics, initial={"x": gn.Normal(8.0, 1.0)}, kernel=None)


def decay_data(seed: int = 0) -> gn.Observations:
    t = np.linspace(0.0, 5.0, 15)
    noise = 0.2 * np.random.default_rng(seed).normal(size=t.size)
    return gn.Observations({"x": (t, 8.0 * np.exp(-0.5 * t) + noise)})


def new_decay_model() -> gn.Model:
    """The same equations in a new function each time."""
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    return gn.Model(field, kernel=None)
