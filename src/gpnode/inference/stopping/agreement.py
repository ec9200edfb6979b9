"""Whether chains agree: as a whole, or within the modes they visit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpnode.inference.stopping.modes import Modes, find_modes
from gpnode.inference.stopping.schedule import Stopping, thin_to_equal_length
from gpnode.inference.stopping.statistics import agree

Report = Callable[[np.ndarray], np.ndarray]
"""From draws (chains, draws, size) to the numbers a user sees (chains, draws, numbers), of which the verdict speaks."""


class Agreement(NamedTuple):
    """Whether to stop at a goal, and with what.

    ``rows`` are those to keep of each chain; longer chains have more. Chains in ``inactive``, by index, need not go on
    if the others must: their modes are known well.
    """

    reached: bool
    rows: list[np.ndarray]
    inactive: frozenset[int] = frozenset()


def find_agreement(rows: list[np.ndarray], stopping: Stopping, report: Report = lambda draws: draws) -> Agreement:
    """Whether chains agree, given the ``rows`` (draws,) of each up to a goal.

    Rows have fields ``draw`` (size,), ``log_density`` and ``warming``.

    What is judged are the numbers of ``report``: R-hat also looks at distances from the median, which depend on scales.

    Chains that share no mode with others may have a length of their own: in a run several times as long as the first
    goal, agreement within modes is enough.
    """
    kept = stopping.late(rows)
    if not all(map(len, kept)):  # a chain is warming up again
        return Agreement(False, kept)
    draws, log_density = _arrays(thin_to_equal_length(kept))
    judged = report(draws)
    if agree(judged):
        return Agreement(True, kept)
    if max(map(len, rows)) < 2**stopping.modes_from * stopping.first_goal:
        return Agreement(False, kept)
    modes = find_modes(draws, log_density)
    if modes.count == 1:
        return Agreement(False, kept)
    known = {group for group in _groups(modes.labels) if _agree_within_modes(group, modes, judged)}
    if len(known) == len(_groups(modes.labels)):
        return Agreement(True, kept)
    # A chain that has just come to a place that cannot be judged yet must show whether it stays.
    staying = [group for group in known if np.isin(modes.labels[group, -1], modes.main).all()]
    return Agreement(False, kept, frozenset(chain for group in staying for chain in group))


def _arrays(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([chain["draw"] for chain in rows]), np.stack([chain["log_density"] for chain in rows])


def _groups(labels: np.ndarray) -> list[tuple[int, ...]]:
    """Chains by index, those together that have modes (chains, draws) in common, with one another or with a third."""
    groups: list[tuple[set[int], set[int]]] = []
    for chain, modes in enumerate(labels):
        chains, visited = {chain}, set(np.unique(modes[modes >= 0]).tolist())
        apart = [group for group in groups if not group[1] & visited]
        for other, common in groups:
            if common & visited:
                chains, visited = chains | other, visited | common
        groups = [*apart, (chains, visited)]
    return [tuple(sorted(chains)) for chains, _ in groups]


def _agree_within_modes(group: tuple[int, ...], modes: Modes, draws: np.ndarray) -> bool:
    """Whether draws of the modes that chains of a group visit are within the verdict's limits, mode by mode."""
    labels = np.where(np.isin(np.arange(len(draws)), group)[:, None], modes.labels, -1)
    visited = np.unique(labels[labels >= 0])
    of_group = Modes(labels)
    return all(agree(draws[of_group.positions(mode)]) for mode in modes.main if mode in visited)
