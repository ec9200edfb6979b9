"""Forms: sets of terms that act, of one equation and of all together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLD_APART = 20.0
"""How many times as probable as another a form must be for the data to have decided between them."""


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

    def rivals(self, best: System) -> bool:
        """Whether the data have not decided between this form and the most probable one."""
        return self.probability * TOLD_APART >= best.probability
