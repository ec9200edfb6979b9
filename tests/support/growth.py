"""Logistic growth on the log scale."""

from __future__ import annotations

import gpnode as gn
from gpnode.inference.samplers.nuts import NUTS


def growth(t, x, p):
    return {"x": p.r * x.x * (1 - x.x / p.K)}


MODEL = gn.Model(
    gn.KnownForm(["x"], growth, {"r": gn.LogNormal(0.0, 1.0), "K": gn.LogNormal(4.0, 1.0)}),
    initial={"x": gn.LogNormal(1.0, 1.0)},
    transform=gn.Log(),
)


SETTINGS = NUTS(warmup=100, draws=60, chains=2)
