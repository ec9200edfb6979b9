"""Sending chains to modes they seldom come to, and what becomes of the draws they make there.

Chains may know one mode well and another hardly at all, because they come there once in thousands of draws. What they
draw there is as good if they are sent, but the time they spend there then tells nothing of its weight. So a chain is
kept as long as it was before it, or one that it shares modes with, was first sent (``unguided``, by its index), and
draws that it made by then are replaced by draws of the same mode, evenly chosen from all there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..convergence import agree
from ..modes import Modes

_OFTEN = 10  # visits to a mode: chains will come there again before long


def by_themselves(values: Sequence[np.ndarray], unguided: Mapping[int, int]) -> list[np.ndarray]:
    """Of each chain (draws, ...), what is from before it was guided."""
    return [own[: unguided.get(i, len(own))] for i, own in enumerate(values)]


def send(
    group: tuple[int, ...], modes: Modes, draws: np.ndarray, lengths: Sequence[int], unguided: Mapping[int, int]
) -> dict[int, np.ndarray]:
    """Places for chains of a group to go on from: of those in a mode known well, if there is one that needs more draws.

    Chains had ``lengths`` draws, of which ``draws`` (chains, draws, size) are a part, evenly spread.
    """
    visited = [mode for mode in modes.main if np.isin(modes.labels[list(group)], mode).any()]
    known = [mode for mode in visited if agree(draws[modes.positions(mode)])]
    own_ways = modes.labels.copy()
    for chain, count in unguided.items():
        own_ways[chain, count * own_ways.shape[1] // lengths[chain] :] = -1
    wanting = [mode for mode in visited if mode not in known and Modes(own_ways).visits(mode) < _OFTEN]
    free = [chain for chain in group if modes.labels[chain, -1] in known] if wanting else []
    sent = {}
    for i, chain in enumerate(free):
        places = np.argwhere(modes.labels == wanting[i % len(wanting)])
        sent[chain] = draws[tuple(places[(i + 1) * len(places) // (len(free) + 1)])]
    return sent


def refilled(
    group: tuple[int, ...], rows: Sequence[np.ndarray], modes: Modes, unguided: Mapping[int, int], left_out: float
) -> list[np.ndarray] | None:
    """Chains of a group as long as they were unguided, filled with all draws there are; None if that cannot be done.

    It cannot if chains found a mode after they were sent. The first part of all draws is ``left_out``.
    """
    late, labels, lengths = [], [], []
    for chain in group:
        own, first = rows[chain], int(left_out * len(rows[chain]))
        late.append(own[first:])
        labels.append(modes.labels[chain, np.arange(len(own)) * modes.labels.shape[1] // len(own)][first:])
        lengths.append(max(0, unguided.get(chain, len(own)) - first))
    filled = [own[:length].copy() for own, length in zip(late, lengths, strict=True)]
    templates = [own[:length] for own, length in zip(labels, lengths, strict=True)]
    found = np.intersect1d(np.concatenate(labels), modes.main)
    if not all(lengths) or not np.isin(found, np.concatenate(templates)).all():
        return None
    for mode in np.unique(np.concatenate(templates)):
        supply = np.concatenate([own[label == mode] for own, label in zip(late, labels, strict=True)])
        places = [np.flatnonzero(template == mode) for template in templates]
        ends = np.cumsum([len(where) for where in places])
        chosen = supply[np.arange(ends[-1]) * len(supply) // ends[-1]]
        for own, where, new in zip(filled, places, np.split(chosen, ends[:-1]), strict=True):
            own[where] = new
    return filled
