"""Decay from an unknown start, whose posterior is normal in closed form."""

from __future__ import annotations

RATE, NOISE, SD = 0.4, 0.05, 1.5


def decay(t, x, p):
    return {"x": -RATE * x.x}
