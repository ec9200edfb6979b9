"""How long to sample: as many draws as were asked for, or until chains agree at one of several goals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stopping:
    """When a run ends that was not told how many draws to make."""

    first_goal: int = 1000
    """Draws per chain at which agreement is looked for first."""
    growth: tuple[float, ...] = (
        1,
        1.2,
        1.4,
        1.7,
        2,
        2.5,
        3,
        3.5,
        4.2,
        5,
        6,
        7,
        8.5,
        10,
        12,
        14,
        17,
        20,
        24,
        28,
        34,
        40,
    )
    """Goals in units of the first, in steps of about a fifth; at the last one a run ends in any case."""
    modes_from: float = 10.0
    """First goals after which agreement within modes is enough: before, chains may be about to leave a place."""
    accuracy_checks: tuple[int, ...] = (100, 400, 1000)
    """Draws, well before the first goal, at which the solver's accuracy is checked where chains are."""
    discarded: tuple[float, ...] = (0.0, 0.125, 0.25, 0.5)
    """Parts of a run that may be left out because chains had not forgotten where they began."""

    def goals(self, draws: int | None) -> tuple[int, ...]:
        """Draws per chain at which to stop if chains agree; one goal if the number of ``draws`` was given."""
        return (draws,) if draws is not None else tuple(int(self.first_goal * factor) for factor in self.growth)

    def checks_before(self, first_goal: int) -> tuple[int, ...]:
        """Those of ``accuracy_checks`` that lie well before the first goal."""
        return tuple(draws for draws in self.accuracy_checks if 2 * draws <= first_goal)


def thin_to_equal_length(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Equally many rows of each chain: where there are more, some of them, evenly spread over the chain."""
    fewest = min(map(len, rows))
    return [chain if len(chain) == fewest else chain[np.arange(fewest) * len(chain) // fewest] for chain in rows]
