"""Figures of the Markov chains: whether they agree, and how fast they forget where they were."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gpnode.inference.stopping.statistics import autocorrelation as autocorrelations
from gpnode.inference.stopping.statistics import geweke as geweke_scores
from gpnode.inference.stopping.statistics import rank_rhat
from gpnode.render.plots.style import COLOURS, panels
from gpnode.results.posterior import Posterior

_MOST_SHOWN = 8


def _choose_draws(posterior: Posterior, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Draws (chains, draws) of the parameters asked for; by default those whose chains agree least."""
    every = dict(posterior.scalars())
    if names is None:
        names = sorted(every, key=lambda n: -rank_rhat(every[n]))[:_MOST_SHOWN]
    missing = [n for n in names if n not in every]
    if missing:
        raise KeyError(f"there is no {missing[0]!r}; there are: {', '.join(every)}.")
    return {n: every[n] for n in names}


def geweke(posterior: Posterior, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Geweke's z-scores: the beginning of each chain against twenty pieces of its second half."""
    chosen = _choose_draws(posterior, names)
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    ax.axhspan(-2.0, 2.0, color="0.93", zorder=0)
    ax.axhline(0.0, color="0.7", lw=0.8)
    for i, (name, draws) in enumerate(chosen.items()):
        scores = geweke_scores(draws)
        place = np.arange(1, scores.shape[1] + 1) + 0.06 * (i - len(chosen) / 2)
        for c, of_chain in enumerate(scores):
            ax.plot(place, of_chain, "o", ms=3, color=COLOURS[i % len(COLOURS)], label=name if c == 0 else None)
    ax.set_xlabel("piece of the second half")
    ax.set_ylabel("z-score")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return ax


def autocorrelation(
    posterior: Posterior, names: Sequence[str] | None = None, *, lags: int = 60, ax: Axes | None = None
) -> Axes:
    """How fast chains forget: autocorrelation by lag, averaged over chains."""
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    ax.axhline(0.0, color="0.7", lw=0.8)
    for i, (name, draws) in enumerate(_choose_draws(posterior, names).items()):
        ax.plot(autocorrelations(draws, lags).mean(axis=0), color=COLOURS[i % len(COLOURS)], lw=1.4, label=name)
    ax.set_xlabel("lag (draws)")
    ax.set_ylabel("autocorrelation")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return ax


def traces(
    posterior: Posterior, names: Sequence[str] | None = None, *, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Draws in their order and, beside them, ranks among all chains: flat bars mean that chains agree."""
    from scipy.stats import rankdata  # here, because it takes a second

    chosen = _choose_draws(posterior, names)
    axes = panels(len(chosen), 2, (5.5, 1.7), axes)
    for row, (name, draws) in enumerate(chosen.items()):
        left, right = axes[2 * row], axes[2 * row + 1]
        ranks = rankdata(draws).reshape(draws.shape)
        edges = np.linspace(0.5, draws.size + 0.5, 21)
        middles, width = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
        for c, chain in enumerate(draws):
            colour = COLOURS[c % len(COLOURS)]
            left.plot(chain, lw=0.4, color=colour, alpha=0.8)
            counts, _ = np.histogram(ranks[c], edges)
            right.step(middles, counts, where="mid", color=colour, lw=1.2, label=f"chain {c + 1}")
        right.axhline(draws.shape[1] / 20, color="0.6", lw=0.8, ls="--")
        right.set_xlim(edges[0] - width, edges[-1] + width)
        right.set_ylim(bottom=0)
        left.set_title(f"{name}   R-hat {rank_rhat(draws):.3f}", fontsize="small", loc="left")
        left.margins(x=0.01)
    axes[-2].set_xlabel("draw")
    axes[-1].set_xlabel("rank among all draws")
    axes[1].legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small", handlelength=1.0
    )
    return axes
