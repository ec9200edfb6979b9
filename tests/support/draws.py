"""Draws, chains and forecasts made up by hand."""

from __future__ import annotations

import numpy as np
import xarray as xr

import gpnode as gn


def shifted(shift, draws=2000, size=3):
    """Independent draws (4, draws, size), the first coordinate of each chain moved by ``shift`` (4, draws)."""
    found = np.random.default_rng(0).normal(size=(4, draws, size))
    found[:, :, 0] += shift
    return found


def as_chains(draws, log_density):
    """Rows (draws,) of each chain, numbered by ``number``; none of a warm-up."""
    fields = [("draw", float, draws.shape[2:]), ("log_density", float), ("number", int), ("warming", bool)]
    rows = np.zeros(draws.shape[:2], dtype=fields)
    rows["draw"], rows["log_density"], rows["number"] = draws, log_density, np.arange(draws.shape[1])
    return list(rows)


def visits(levels, each: int) -> np.ndarray:
    """Independent draws (chains, draws) about ``levels`` (chains, visits) that change every ``each`` draws."""
    level = np.repeat(np.asarray(levels, dtype=float), each, axis=1)
    return level + np.random.default_rng(2).normal(size=level.shape)


def paths_of(values: np.ndarray) -> gn.Forecast:
    """A forecast with the given draws (draw, time) of one state."""
    states = xr.DataArray(values[:, :, None], dims=("draw", "time", "state"), coords={"state": ["x"]})
    states = states.assign_coords(time=np.arange(float(values.shape[1])))
    return gn.Forecast(states, states, states, states[0], 0, "run")


def walks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Skewed paths (count, 40) that begin together."""
    steps = rng.normal(size=(count, 40))
    steps[:, 0] = 0.0
    return np.exp(0.1 * np.cumsum(steps, axis=1))
