"""How long to sample: as many draws as were asked for, or until the chains agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpnode.inference.running.chains import Sampler
from gpnode.inference.stopping.modes import Modes, find_modes
from gpnode.inference.stopping.statistics import agree

FIRST_GOAL = 1000
# Than the first goal, in steps of about a fifth.
_LONGER = (1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4.2, 5, 6, 7, 8.5, 10, 12, 14, 17, 20, 24, 28, 34, 40)
_MODES_FROM = 10.0  # first goals: what looks like modes in a short run may be places chains are about to leave
_LOOKS = (100, 400, 1000)
_LEFT_OUT = (0.0, 0.125, 0.25, 0.5)  # parts of a run


class Found(NamedTuple):
    """Whether to stop at a goal, and with what.

    ``rows`` are those to keep of each chain, without any from before it had forgotten where it began; longer chains
    have more. Chains in ``inactive``, by index, need not go on if the others must: their modes are known well.
    """

    agreed: bool
    rows: list[np.ndarray]
    inactive: frozenset[int] = frozenset()


def goals(settings: Sampler) -> tuple[int, ...]:
    """Numbers of draws per chain at which to stop if the chains agree; the last one is the end in any case."""
    if settings.draws is not None:
        return (settings.draws,)
    return tuple(int(FIRST_GOAL * factor) for factor in _LONGER)


def looks(ends: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of draws, before the first goal, at which to see whether the solver is accurate where chains are."""
    return tuple(look for look in _LOOKS if 2 * look <= ends[0])


def thin_to_equal_length(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Equally many rows of each chain: where there are more, some of them, evenly spread over the chain."""
    fewest = min(map(len, rows))
    return [own if len(own) == fewest else own[np.arange(fewest) * len(own) // fewest] for own in rows]


def find_agreement(rows: list[np.ndarray], first_goal: int) -> Found:
    """Whether chains agree, given the ``rows`` (draws,) of each, with fields ``draw`` (size,) and ``log_density``.

    Where all draws do not, those before chains had forgotten where they began may be the reason: at most half
    are left out for that, but never all of a mode. In a run several times as long as the first goal, agreement
    within modes is enough, and chains that share no mode with others may have a length of their own.
    """
    draws, log_density = _arrays(thin_to_equal_length(rows))
    count = draws.shape[1]
    skip = next((s for s in _skips(count) if agree(draws[:, s:])), None)
    if skip == 0:
        return Found(True, rows)
    short = count < _MODES_FROM * first_goal
    if short and skip is None:  # whatever modes there may be
        return Found(False, rows)
    modes = find_modes(draws, log_density)
    if modes.count == 1:
        return Found(skip is not None, _late(rows, [(skip or 0) / count] * len(rows)))
    if short:
        return Found(False, rows)
    skips = {group: _first_to_keep(group, modes, draws) for group in _groups(modes.labels)}
    kept = _late(rows, [(skips[group] or 0) / count for i in range(len(rows)) for group in skips if i in group])
    if None in skips.values():
        climbed = [group for group, skip in skips.items() if skip is not None]
        # A chain that has just come to a place that cannot be judged yet must show whether it stays.
        there = [group for group in climbed if np.isin(modes.labels[group, -1], modes.main).all()]
        return Found(False, kept, frozenset(chain for group in there for chain in group))
    draws, log_density = _arrays(thin_to_equal_length(kept))
    late = find_modes(draws, log_density)
    return Found(all(agree(late.of(draws, mode)) for mode in late.main), kept)


def _late(rows: list[np.ndarray], parts: list[float]) -> list[np.ndarray]:
    """Without the first ``parts`` of each chain."""
    return [own[int(part * len(own)) :] for own, part in zip(rows, parts, strict=True)]


def _arrays(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([own["draw"] for own in rows]), np.stack([own["log_density"] for own in rows])


def _skips(count: int) -> list[int]:
    return [int(part * count) for part in _LEFT_OUT]


def _groups(labels: np.ndarray) -> list[tuple[int, ...]]:
    """Chains by index, those together that have modes (chains, draws) in common, with one another or with a third."""
    groups: list[tuple[set[int], set[int]]] = []
    for chain, own in enumerate(labels):
        chains, visited = {chain}, set(np.unique(own[own >= 0]).tolist())
        apart = [group for group in groups if not group[1] & visited]
        for other, common in groups:
            if common & visited:
                chains, visited = chains | other, visited | common
        groups = [*apart, (chains, visited)]
    return [tuple(sorted(chains)) for chains, _ in groups]


def _first_to_keep(group: tuple[int, ...], modes: Modes, draws: np.ndarray) -> int | None:
    """From which draw on chains of a group agree within modes; None if they do not."""
    own = np.where(np.isin(np.arange(len(draws)), group)[:, None], modes.labels, -1)
    visited = np.unique(own[own >= 0])
    judged = [mode for mode in modes.main if mode in visited]
    for skip in _skips(draws.shape[1]):
        late, kept = Modes(own[:, skip:]), draws[:, skip:]
        if np.isin(visited, late.labels).all() and all(agree(kept[late.positions(mode)]) for mode in judged):
            return skip
    return None
