"""How long to sample: as many draws as were asked for, or until chains agree at one of a few goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_BEGINNERS = 0.25  # part of the longest chain


class Goal(NamedTuple):
    """How far a chain is to go: ``steps`` since its first warm-up ended, and ``settled`` ones since its last."""

    steps: int
    settled: int = 0

    def left(self, steps: int, settled: int, warmup: int) -> int:
        """Steps yet to make after so many, if the chain does not warm up again; ``warmup`` are those until it settles.

        What it makes before its first warm-up has ended does not count.
        """
        if not steps:
            return warmup + max(self)
        still = self.settled - settled
        return max(self.steps - steps, warmup + still if still > 0 else 0)

    def rows(self, made: np.ndarray) -> np.ndarray:
        """Of the rows that a chain ``made``, in order, those up to where it reached the goal; all if it did not."""
        reached = self._reached(made)
        return made[: int(reached.argmax()) + 1] if reached.any() else made

    def is_reached(self, made: np.ndarray) -> bool:
        """Whether a chain that ``made`` these rows came so far."""
        return bool(self._reached(made).any())

    def _reached(self, made: np.ndarray) -> np.ndarray:
        number = np.arange(1, len(made) + 1)
        settled = number - np.maximum.accumulate(np.where(made["warming"], number, 0))
        return (number >= self.steps) & (settled >= self.settled)


def settled_rows(chain: np.ndarray) -> np.ndarray:
    """Rows after the last one of a warm-up: all were made with the same settings."""
    warming = np.flatnonzero(chain["warming"])
    return chain[warming[-1] + 1 :] if warming.size else chain


@dataclass(frozen=True)
class Stopping:
    """When a run ends that was not told how many draws to make.

    Chains stop at the first of a few goals, each twice as far as the one before, at which the second half of their
    draws (all of them at the first goal) is within the verdict's limits; that half is kept. So no two looks judge the
    same draws, and what is left out was fixed before any draw was seen. Of a chain that warmed up again in that half,
    only what came after that counts.
    """

    first_goal: int = 500
    """Draws per chain at which agreement is looked for first."""
    doublings: int = 6
    """How often the goal doubles; at the last one a run ends in any case."""
    modes_from: int = 4
    """Doublings after which agreement within modes is enough: before, chains may be about to leave a place."""
    accuracy_checks: tuple[int, ...] = (100, 500)
    """Draws, well before the first goal, at which the solver's accuracy is checked where chains are."""

    def goals(self, draws: int | None) -> tuple[Goal, ...]:
        """Where to stop if chains agree; one goal if the number of ``draws`` was given.

        At the last one each chain must have as many settled draws as at the first, for there is no other look.
        """
        if draws is not None:
            return (Goal(draws, draws),)
        steps = [self.first_goal * 2**k for k in range(self.doublings + 1)]
        return (*map(Goal, steps[:-1]), Goal(steps[-1], self.first_goal))

    def checks_before(self, first_goal: Goal) -> tuple[Goal, ...]:
        """Those of ``accuracy_checks`` that lie well before the first goal."""
        return tuple(Goal(draws) for draws in self.accuracy_checks if 2 * draws <= first_goal.steps)

    def late(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        """What is judged, and kept, of the draws of each chain: at the first goal all, later the second half.

        But no draw from before the end of a warm-up.
        """
        halves = [chain if len(chain) <= self.first_goal else chain[len(chain) // 2 :] for chain in rows]
        return [settled_rows(half) for half in halves]


def without_beginners(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Without chains that, of a run that was cut short, have far fewer rows than others: they had just begun anew."""
    longest = max(map(len, rows))
    return [chain for chain in rows if len(chain) >= _BEGINNERS * longest]


def thin_to_equal_length(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Equally many rows of each chain: where there are more, some of them, evenly spread over the chain."""
    fewest = min(map(len, rows))
    return [chain if len(chain) == fewest else chain[np.arange(fewest) * len(chain) // fewest] for chain in rows]
