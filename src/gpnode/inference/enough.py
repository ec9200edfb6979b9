"""How long to sample: as many draws as were asked for, or until the chains agree."""

from __future__ import annotations

import numpy as np

from ..convergence import ESS_LIMIT, RHAT_LIMIT, bulk_ess, rank_rhat, tail_ess
from .chains import Sampler

# Than the first goal, in steps of about a fifth.
_LONGER = (1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 3.4, 4.0, 4.8, 5.6, 6.8, 8.0, 9.6, 11.2, 13.6, 16.0)
_LEFT_OUT = (0.0, 0.125, 0.25, 0.5)  # parts of a run


def goals(settings: Sampler) -> tuple[int, ...]:
    """Numbers of draws per chain at which to stop if the chains agree; the last one is the end in any case."""
    if settings.draws is not None:
        return (settings.draws,)
    return tuple(int(settings.first_goal * factor) for factor in _LONGER)


def first_to_keep(draws: np.ndarray, modes: int) -> int | None:
    """From which draw on chains (chains, draws, size) agree; None if they do not.

    All of them must agree, or where that cannot be, those of each mode. Where all draws do not, those
    before chains had forgotten where they began may be the reason: at most half are left out for that.
    """
    for part in _LEFT_OUT:
        skip = int(part * draws.shape[1])
        kept = draws[:, skip:]
        if _converged(kept) or (modes > 1 and all(_converged(own) for own in np.split(kept, modes))):
            return skip
    return None


def _converged(draws: np.ndarray) -> bool:
    return all(
        rank_rhat(values) <= RHAT_LIMIT and bulk_ess(values) >= ESS_LIMIT and tail_ess(values) >= ESS_LIMIT
        for values in np.moveaxis(draws, -1, 0)
    )
