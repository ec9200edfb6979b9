"""Forms: sets of terms that act, of one equation and of all together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Form:
    """A set of active terms, and the probability that just these are active."""

    terms: tuple[str, ...]
    probability: float


@dataclass(frozen=True, eq=False)
class System:
    """A form of all equations together: acting ``terms`` by state, its probability, and the ``draws`` that have it."""

    terms: dict[str, tuple[str, ...]]
    probability: float
    draws: np.ndarray
