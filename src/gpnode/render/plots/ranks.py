"""Figures of a calibration: ranks and bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from gpnode.design.calibration import BAND, Calibration
from gpnode.render.plots.style import COLOURS, PATH, TRUTH, panels


def calibration(result: Calibration, *, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Histograms of the ranks of all numbers; in the last panel, how often bands hold the truth.

    The grey strip is where 99 % of the bars should end; uneven histograms have another colour. A hump in the middle
    means posteriors that are too wide, bars high at both ends posteriors that are too narrow, a slope posteriors that
    lie to one side.
    """
    from scipy import stats  # takes long to load

    columns = min(4, len(result.ranks) + 1)
    rows = -(-(len(result.ranks) + 1) // columns)
    drawn = panels(rows, columns, (2.6, 2.0), axes)
    low, high = stats.binom(result.fits, 1.0 / result.bins).ppf([0.005, 0.995])
    uneven = result.uneven
    for ax, name in zip(drawn, result.ranks, strict=False):
        ax.axhspan(low, high, color="#e4e4e4", lw=0)
        ax.bar(np.arange(result.bins), result.histogram(name), width=0.9, color=TRUTH if name in uneven else PATH)
        ax.set_title(name, fontsize=9)
        ax.set_xticks([])
    ax = drawn[len(result.ranks)]
    for d, state in enumerate(result.states):
        ax.plot(
            result.times, result.inside[:, :, d].mean(axis=0), "o-", ms=3, color=COLOURS[d % len(COLOURS)], label=state
        )
    ax.axhline(BAND, color="#888888", lw=1)
    ax.set_ylim(0.0, 1.02)
    ax.set_title("truth inside 90 % bands", fontsize=9)
    ax.set_xlabel("time")
    ax.legend(fontsize=7)
    for spare in drawn[len(result.ranks) + 1 :]:
        spare.set_visible(False)
    return drawn
