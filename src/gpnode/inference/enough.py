"""How long to sample: as many draws as were asked for, or until the chains agree."""

from __future__ import annotations

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


def goals(settings: Sampler) -> tuple[int, ...]:
    """Numbers of draws per chain at which to stop if the chains agree; the last one is the end in any case."""
    if settings.draws is not None:
        return (settings.draws,)
    return tuple(int(FIRST_GOAL * factor) for factor in _LONGER)


def looks(ends: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of draws, before the first goal, at which to see whether the solver is accurate where chains are."""
    return tuple(look for look in _LOOKS if 2 * look <= ends[0])


def first_to_keep(draws: np.ndarray, log_density: np.ndarray, first_goal: int) -> int | None:
    """From which draw on chains (chains, draws, size) agree; None if they do not.

    Where all draws do not, those before chains had forgotten where they began may be the reason: at most half
    are left out for that, but never all of a mode. In a run several times as
    long as the first goal, agreement within modes is enough.
    """
    if agree(draws):
        return 0
    count = draws.shape[1]
    skips = [int(part * count) for part in _LEFT_OUT]
    everything = find_modes(draws, log_density)
    if everything.count == 1:
        return next((skip for skip in skips[1:] if agree(draws[:, skip:])), None)
    if count < _MODES_FROM * first_goal:
        return None
    for skip in skips:
        late, kept = Modes(everything.labels[:, skip:]), draws[:, skip:]
        if np.union1d(late.labels, -1).size <= everything.count or not _each_agrees(late, kept):
            continue
        if skip == 0 or _each_agrees(find_modes(kept, log_density[:, skip:]), kept):
            return skip
    return None


def _each_agrees(modes: Modes, draws: np.ndarray) -> bool:
    return all(agree(modes.of(draws, mode)) for mode in modes.main)
