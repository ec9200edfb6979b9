"""How long to sample: as many draws as were asked for, or until chains agree at one of a few goals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stopping:
    """When a run ends that was not told how many draws to make.

    Chains stop at the first of a few goals, each twice as far as the one before, at which the second half of their
    draws (all of them at the first goal) is within the verdict's limits; that half is kept. So no two looks judge the
    same draws, and what is left out was fixed before any draw was seen.
    """

    first_goal: int = 500
    """Draws per chain at which agreement is looked for first."""
    doublings: int = 6
    """How often the goal doubles; at the last one a run ends in any case."""
    modes_from: int = 4
    """Doublings after which agreement within modes is enough: before, chains may be about to leave a place."""
    accuracy_checks: tuple[int, ...] = (100, 500)
    """Draws, well before the first goal, at which the solver's accuracy is checked where chains are."""

    def goals(self, draws: int | None) -> tuple[int, ...]:
        """Draws per chain at which to stop if chains agree; one goal if the number of ``draws`` was given."""
        return (draws,) if draws is not None else tuple(self.first_goal * 2**k for k in range(self.doublings + 1))

    def checks_before(self, first_goal: int) -> tuple[int, ...]:
        """Those of ``accuracy_checks`` that lie well before the first goal."""
        return tuple(draws for draws in self.accuracy_checks if 2 * draws <= first_goal)

    def late(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        """What is judged, and kept, of the draws of each chain: at the first goal all, later the second half."""
        return [chain if len(chain) <= self.first_goal else chain[len(chain) // 2 :] for chain in rows]


def thin_to_equal_length(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Equally many rows of each chain: where there are more, some of them, evenly spread over the chain."""
    fewest = min(map(len, rows))
    return [chain if len(chain) == fewest else chain[np.arange(fewest) * len(chain) // fewest] for chain in rows]
