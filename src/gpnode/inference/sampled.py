"""What a method leaves behind: draws, statistics of each, and what else is to be recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpnode.inference.stopping.schedule import thin_to_equal_length
from gpnode.inference.stopping.statistics import e_bfmi
from gpnode.solvers import Status


@dataclass(frozen=True)
class Sampled:
    """Draws (chain, draw, size) in unconstrained coordinates, statistics of each, and ``details`` for the record.

    Keys of ``details`` are names of fields of :class:`gpnode.results.record.Record`.
    """

    unconstrained: np.ndarray
    stats: xr.Dataset
    details: dict[str, Any]


def from_chains(rows: list[np.ndarray], made: list[int], warmup_failures: np.ndarray, interrupted: bool) -> Sampled:
    """What chains left behind: ``rows`` of each, of which equally many are kept.

    ``made`` tells how many draws each chain made before any were left out, ``warmup_failures`` counts steps of the
    warm-up by status.
    """
    kept = thin_to_equal_length(rows)
    names = [name for name in kept[0].dtype.names or () if name != "draw"]
    stats = xr.Dataset({name: (("chain", "draw"), np.stack([r[name] for r in kept])) for name in names})
    details: dict[str, Any] = {
        "solver_failures": count_failures(np.concatenate([r["failure"] for r in rows])),
        "warmup_failures": _named_failures(warmup_failures),
        "draws_made": made,
        "interrupted": interrupted,
    }
    if "energy" in names:  # compares successive draws, and so must see all of them
        details["e_bfmi"] = min(e_bfmi(r["energy"][None]) for r in rows)
    return Sampled(np.stack([r["draw"] for r in kept]), stats, details)


def with_details(sampled: Sampled, **details: Any) -> Sampled:
    """With more for the record."""
    return replace(sampled, details=sampled.details | details)


def count_failures(status: np.ndarray) -> dict[str, int]:
    """How many solves failed, by cause, given the status of each."""
    return _named_failures(np.bincount(status.ravel().astype(int), minlength=len(Status)))


def _named_failures(counts: np.ndarray) -> dict[str, int]:
    return {s.name.lower().replace("_", " "): int(counts[s]) for s in Status if s != Status.OK}


def pick_evenly(draws: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of draws (chain, draw, size), spread evenly over all chains (n, size)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return flat[np.linspace(0, len(flat) - 1, min(most, len(flat))).astype(int)]
