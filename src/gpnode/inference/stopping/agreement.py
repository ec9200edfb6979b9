"""Whether chains agree: as a whole, or within the modes they visit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpnode.inference.stopping.modes import Modes, find_modes
from gpnode.inference.stopping.schedule import Stopping, thin_to_equal_length
from gpnode.inference.stopping.statistics import agree


class Agreement(NamedTuple):
    """Whether to stop at a goal, and with what.

    ``rows`` are those to keep of each chain, without any from before it had forgotten where it began; longer chains
    have more. Chains in ``inactive``, by index, need not go on if the others must: their modes are known well.
    """

    reached: bool
    rows: list[np.ndarray]
    inactive: frozenset[int] = frozenset()


def find_agreement(rows: list[np.ndarray], stopping: Stopping) -> Agreement:
    """Whether chains agree, given the ``rows`` (draws,) of each, with fields ``draw`` (size,) and ``log_density``.

    Where all draws do not, those before chains had forgotten where they began may be the reason: at most half
    are left out for that, but never all of a mode. In a run several times as long as the first goal, agreement
    within modes is enough, and chains that share no mode with others may have a length of their own.
    """
    draws, log_density = _arrays(thin_to_equal_length(rows))
    count = draws.shape[1]
    skip = next((s for s in _skips(count, stopping) if agree(draws[:, s:])), None)
    if skip == 0:
        return Agreement(True, rows)
    short = count < stopping.modes_from * stopping.first_goal
    if short and skip is None:  # whatever modes there may be
        return Agreement(False, rows)
    modes = find_modes(draws, log_density)
    if modes.count == 1:
        return Agreement(skip is not None, _late(rows, [(skip or 0) / count] * len(rows)))
    if short:
        return Agreement(False, rows)
    skips = {group: _first_to_keep(group, modes, draws, stopping) for group in _groups(modes.labels)}
    kept = _late(rows, [(skips[group] or 0) / count for i in range(len(rows)) for group in skips if i in group])
    if None in skips.values():
        known = [group for group, skip in skips.items() if skip is not None]
        # A chain that has just come to a place that cannot be judged yet must show whether it stays.
        staying = [group for group in known if np.isin(modes.labels[group, -1], modes.main).all()]
        return Agreement(False, kept, frozenset(chain for group in staying for chain in group))
    draws, log_density = _arrays(thin_to_equal_length(kept))
    late = find_modes(draws, log_density)
    return Agreement(all(agree(late.of(draws, mode)) for mode in late.main), kept)


def _late(rows: list[np.ndarray], parts: list[float]) -> list[np.ndarray]:
    """Without the first ``parts`` of each chain."""
    return [chain[int(part * len(chain)) :] for chain, part in zip(rows, parts, strict=True)]


def _arrays(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([chain["draw"] for chain in rows]), np.stack([chain["log_density"] for chain in rows])


def _skips(count: int, stopping: Stopping) -> list[int]:
    return [int(part * count) for part in stopping.discarded]


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


def _first_to_keep(group: tuple[int, ...], modes: Modes, draws: np.ndarray, stopping: Stopping) -> int | None:
    """From which draw on chains of a group agree within modes; None if they do not."""
    labels = np.where(np.isin(np.arange(len(draws)), group)[:, None], modes.labels, -1)
    visited = np.unique(labels[labels >= 0])
    judged = [mode for mode in modes.main if mode in visited]
    for skip in _skips(draws.shape[1], stopping):
        late, kept = Modes(labels[:, skip:]), draws[:, skip:]
        if np.isin(visited, late.labels).all() and all(agree(kept[late.positions(mode)]) for mode in judged):
            return skip
    return None
