"""Figures of a calibration: ranks and bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from gpnode.design.calibration import BAND, Calibration
from gpnode.render.plots.style import COLOURS, PATH, TRUTH, panels


def calibration(found: Calibration, *, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Histograms of the ranks of all numbers, with where 99 % of bars should end; last, how often bands hold the truth.

    Uneven bars are marked in another colour. A hump in the middle means that posteriors are too wide, bars high
    at both ends that they are too narrow, a slope that they lie to one side.
    """
    columns = min(4, len(found.ranks) + 1)
    rows = -(-(len(found.ranks) + 1) // columns)
    drawn = panels(rows, columns, (2.6, 2.0), axes)
    low, high = stats.binom(found.fits, 1.0 / found.bins).ppf([0.005, 0.995])
    uneven = found.uneven
    for ax, name in zip(drawn, found.ranks, strict=False):
        ax.axhspan(low, high, color="#e4e4e4", lw=0)
        ax.bar(np.arange(found.bins), found.histogram(name), width=0.9, color=TRUTH if name in uneven else PATH)
        ax.set_title(name, fontsize=9)
        ax.set_xticks([])
    ax = drawn[len(found.ranks)]
    for d, state in enumerate(found.states):
        ax.plot(
            found.times, found.inside[:, :, d].mean(axis=0), "o-", ms=3, color=COLOURS[d % len(COLOURS)], label=state
        )
    ax.axhline(BAND, color="#888888", lw=1)
    ax.set_ylim(0.0, 1.02)
    ax.set_title("truth inside 90 % bands", fontsize=9)
    ax.set_xlabel("time")
    ax.legend(fontsize=7)
    for spare in drawn[len(found.ranks) + 1 :]:
        spare.set_visible(False)
    return drawn
