"""Figures of what was inferred: coefficients, parameters, and which terms are active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gpnode.render.plots.style import PATH, TRUTH, panels
from gpnode.results.posterior import Posterior


def coefficients(
    posterior: Posterior, name: str = "coef", *, truth: np.ndarray | None = None, ax: Axes | None = None
) -> Axes:
    """Boxes (minimum, quartiles, maximum) of a dictionary's coefficients, each over its largest magnitude.

    Coefficients of different terms have different units, hence the division; numbers beside the boxes give the
    median in the user's units. ``truth`` (states, terms) is marked if known.
    """
    array = posterior.draws[name].transpose("chain", "draw", ...)
    values = array.to_numpy().reshape(-1, *array.shape[2:])
    states, terms = (array.coords[d].to_numpy() for d in array.dims[2:])
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 0.32 * values[0].size + 1.2), layout="constrained")
    labels, position = [], 0
    for i, state in enumerate(states):
        for k, term in enumerate(terms):
            draws = values[:, i, k]
            size = np.abs(draws).max() or 1.0
            ax.boxplot(
                draws / size,
                positions=[position],
                orientation="horizontal",
                whis=(0, 100),
                widths=0.6,
                patch_artist=True,
                boxprops={"facecolor": "#cfdef0", "edgecolor": PATH},
                medianprops={"color": PATH},
                whiskerprops={"color": PATH},
                capprops={"color": PATH},
                manage_ticks=False,
            )
            if truth is not None:
                ax.plot(
                    truth[i, k] / size,
                    position,
                    "D",
                    color=TRUTH,
                    ms=5,
                    zorder=3,
                    label="truth" if position == 0 else None,
                )
            ax.annotate(
                f"{np.median(draws):.3g}",
                (1.02, position),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize="small",
                color="0.3",
            )
            labels.append(f"d{state}/dt: {term}")
            position += 1
    ax.set_yticks(range(position), labels)
    ax.invert_yaxis()
    ax.axvline(0.0, color="0.6", lw=0.8)
    ax.set_xlim(-1.1, 1.1)
    ax.set_xlabel("coefficient over its largest draw")
    if truth is not None:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small")
    return ax


def parameters(
    posterior: Posterior,
    names: Sequence[str],
    *,
    truth: Mapping[str, float] | None = None,
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Histograms of parameters, one panel each, with 95 % intervals and, if known, the truth."""
    across = min(len(names), 5)
    axes = panels(-(-len(names) // across), across, (2.6, 2.4), axes)
    for ax in axes[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes, names, strict=False):
        draws = posterior.draws[name].to_numpy().ravel()
        low, high = np.quantile(draws, [0.025, 0.975])
        ax.hist(draws, bins=40, color="#cfdef0", edgecolor=PATH, lw=0.4)
        ax.axvspan(low, high, color=PATH, alpha=0.1, lw=0, label="95 %")
        if truth is not None and name in truth:
            ax.axvline(truth[name], color=TRUTH, lw=1.3, ls="--", label="truth")
        ax.set_title(name, fontsize="medium")
        ax.set_yticks([])
    axes[0].legend(frameon=False, fontsize="small")
    return axes


def inclusion(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Probability that each term is active in each equation, as a chart of squares with numbers."""
    equations = [e for e in posterior.equations().equations if e.terms]
    terms = list(dict.fromkeys(t.term for e in equations for t in e.terms))
    table = np.full((len(equations), len(terms)), np.nan)
    for i, equation in enumerate(equations):
        for t in equation.terms:
            table[i, terms.index(t.term)] = 1.0 if t.probability is None else t.probability
    if ax is None:
        _, ax = plt.subplots(figsize=(1.6 + 0.62 * len(terms), 1.2 + 0.55 * len(equations)), layout="constrained")
    ax.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (i, k), value in np.ndenumerate(table):
        if np.isfinite(value):
            ax.text(k, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.55 else "0.2")
    ax.set_xticks(range(len(terms)), terms, rotation=35, ha="right")
    ax.set_yticks(range(len(equations)), [f"d{e.state}/dt" for e in equations])
    ax.set_title("probability that a term is active", fontsize="medium")
    ax.tick_params(length=0)
    return ax
