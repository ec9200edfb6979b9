"""A known form in one state, and data for it."""

from __future__ import annotations

import gpnode as gn


def decay(t, x, p):
    return {"x": -p.rate * x.x}


RATE = {"rate": gn.LogNormal(0.0, 1.0)}
DATA = gn.Observations({"x": ([0.0, 1.0, 2.0, 3.0, 4.0], [8.0, 5.0, 3.0, 2.0, 1.0])})


def known(states=("x",), f=decay, prior=RATE):
    return gn.KnownForm(states, f, prior)
