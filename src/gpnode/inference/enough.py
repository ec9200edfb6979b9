"""How long to sample: as many draws as were asked for, or until the chains agree."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..convergence import agree
from ..modes import Modes, find_modes
from .chains import Sampler

FIRST_GOAL = 1000
# Than the first goal, in steps of about a fifth.
_LONGER = (1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4.2, 5, 6, 7, 8.5, 10, 12, 14, 17, 20, 24, 28, 34, 40)
_MODES_FROM = 10.0  # first goals: what looks like modes in a short run may be places chains are about to leave
_LOOKS = (100, 400, 1000)
_LEFT_OUT = (0.0, 0.125, 0.25, 0.5)  # parts of a run
_OFTEN = 10  # visits to a mode: chains will come there again before long


class Found(NamedTuple):
    """Whether to stop at a goal, and with what; if not, how to go on.

    ``rows`` are those to keep of each chain, without any from before it had forgotten where it began; longer chains
    have more. Chains in ``resting``, by index, need not go on if the others must: what they have been to is known well.
    Those in ``sent`` go on from the vector given there, in a mode that needs more draws than they would make there by
    themselves. ``unguided`` is how many rows a chain had when it, or one that it shares modes with, was first sent.
    """

    agreed: bool
    rows: list[np.ndarray]
    resting: frozenset[int] = frozenset()
    sent: Mapping[int, np.ndarray] = MappingProxyType({})
    unguided: Mapping[int, int] = MappingProxyType({})


def goals(settings: Sampler) -> tuple[int, ...]:
    """Numbers of draws per chain at which to stop if the chains agree; the last one is the end in any case."""
    if settings.draws is not None:
        return (settings.draws,)
    return tuple(int(FIRST_GOAL * factor) for factor in _LONGER)


def looks(ends: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of draws, before the first goal, at which to see whether the solver is accurate where chains are."""
    return tuple(look for look in _LOOKS if 2 * look <= ends[0])


def evened(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Equally many rows of each chain: where there are more, some of them, evenly spread over the chain."""
    fewest = min(map(len, rows))
    return [own if len(own) == fewest else own[np.arange(fewest) * len(own) // fewest] for own in rows]


def find_agreement(
    rows: list[np.ndarray], first_goal: int, unguided: Mapping[int, int] = MappingProxyType({})
) -> Found:
    """Whether chains agree, given the ``rows`` (draws,) of each, with fields ``draw`` (size,) and ``log_density``.

    Where all draws do not, those before chains had forgotten where they began may be the reason: at most half
    are left out for that, but never all of a mode. In a run several times as long as the first goal, agreement
    within modes is enough, and chains that share no mode with others may have a length of their own.
    """
    even = evened(rows)
    draws, log_density = _arrays(even)
    count = draws.shape[1]
    skip = next((s for s in _skips(count) if agree(draws[:, s:])), None)
    if skip == 0 and not unguided:
        return Found(True, rows)
    short = count < _MODES_FROM * first_goal
    if short and skip is None:
        return Found(False, rows)
    modes = find_modes(draws, log_density)
    if modes.count == 1:
        return Found(skip is not None, _late(rows, [(skip or 0) / count] * len(rows)), unguided=unguided)
    if short:
        return Found(False, rows)
    groups = _groups(modes.labels)
    skips = {group: _first_to_keep(group, modes, draws) for group in groups}
    of_chain = {chain: (skips[group] or 0) / count for group in groups for chain in group}
    kept = _late(_refilled(rows, even, groups, modes.labels, unguided), [of_chain[i] for i in range(len(rows))])
    if None in skips.values():
        settled = [group for group in groups if skips[group] is not None]
        # A chain that has just come to a place that cannot be judged yet must show whether it stays.
        there = [group for group in settled if np.isin(modes.labels[group, -1], modes.main).all()]
        sent = {i: u for group in groups if group not in settled for i, u in _send(group, modes, draws).items()}
        guided = {i: len(rows[i]) for group in groups if set(group) & set(sent) for i in group}
        return Found(False, kept, frozenset(i for group in there for i in group), sent, guided | dict(unguided))
    draws, log_density = _arrays(evened(kept))
    late = find_modes(draws, log_density)
    return Found(all(agree(late.of(draws, mode)) for mode in late.main), kept, unguided=unguided)


def _send(group: tuple[int, ...], modes: Modes, draws: np.ndarray) -> dict[int, np.ndarray]:
    """Where chains of a group that are in a mode known well had better go on: in a mode that they seldom come to.

    What they draw there is as good as if they had come there by themselves, but the time they spend there tells
    nothing of its weight.
    """
    visited = [mode for mode in modes.main if np.isin(modes.labels[list(group)], mode).any()]
    known = [mode for mode in visited if agree(draws[modes.positions(mode)])]
    wanting = [mode for mode in visited if mode not in known and modes.visits(mode) < _OFTEN]
    free = [chain for chain in group if modes.labels[chain, -1] in known] if wanting else []
    sent = {}
    for i, chain in enumerate(free):
        places = np.argwhere(modes.labels == wanting[i % len(wanting)])
        sent[chain] = draws[tuple(places[(i + 1) * len(places) // (len(free) + 1)])]
    return sent


def _refilled(
    rows: list[np.ndarray],
    even: list[np.ndarray],
    groups: list[tuple[int, ...]],
    labels: np.ndarray,
    unguided: Mapping[int, int],
) -> list[np.ndarray]:
    """Chains as long as they were before they were sent anywhere, so that the time spent in modes is as it was.

    But each draw is replaced by one of the same mode, evenly chosen from all that there are by now.
    """
    found = list(rows)
    for group in groups:
        if not any(chain in unguided for chain in group):
            continue
        lengths = [unguided.get(i, len(rows[i])) * len(even[i]) // len(rows[i]) for i in group]
        template = [labels[i, :length] for i, length in zip(group, lengths, strict=True)]
        own = [even[i][:length].copy() for i, length in zip(group, lengths, strict=True)]
        for mode in np.unique(np.concatenate(template)):
            supply = np.concatenate([even[i][labels[i] == mode] for i in group])
            places = [np.flatnonzero(part == mode) for part in template]
            total = sum(map(len, places))
            chosen = supply[np.arange(total) * len(supply) // total]
            for part, where, new in zip(
                own, places, np.split(chosen, np.cumsum([*map(len, places)])[:-1]), strict=True
            ):
                part[where] = new
        for i, part in zip(group, own, strict=True):
            found[i] = part
    return found


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
