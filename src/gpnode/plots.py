"""Figures: Axes in, Axes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from .data import Observations
from .forecast import Forecast
from .posterior import Posterior

_PATH, _DATA, _TRUTH = "#1f5fa8", "#222222", "#c8442e"


def trajectories(
    forecast: Forecast,
    data: Observations | None = None,
    *,
    truth: Mapping[str, np.ndarray] | None = None,
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Mean and two-standard-deviation band of every state, with the data and, if known, the truth.

    ``truth`` gives a path per state at ``forecast.times``. The time after the last measurement
    is shaded.
    """
    states = [str(s) for s in forecast.states["state"].to_numpy()]
    if axes is None:
        _, grid = plt.subplots(
            len(states), 1, figsize=(8, 2.6 * len(states)), sharex=True, squeeze=False, layout="constrained"
        )
        axes = list(grid[:, 0])
    mean, std = forecast.mean(), forecast.std()
    for ax, state in zip(axes, states, strict=True):
        middle, spread = mean.sel(state=state).to_numpy(), std.sel(state=state).to_numpy()
        ax.fill_between(
            forecast.times,
            middle - 2 * spread,
            middle + 2 * spread,
            color=_PATH,
            alpha=0.2,
            lw=0,
            label="two standard deviations",
        )
        ax.plot(forecast.times, middle, color=_PATH, lw=1.6, label="mean")
        if truth is not None and state in truth:
            ax.plot(forecast.times, truth[state], color=_TRUTH, lw=1.1, ls="--", label="truth")
        if data is not None:
            _draw_data(ax, data, state, forecast.trajectory)
            end = max(s.times[-1] for s in data.series if s.trajectory == forecast.trajectory)
            if forecast.times[-1] > end:
                ax.axvspan(end, forecast.times[-1], color="0.92", zorder=0, label="forecast")
        ax.set_ylabel(state)
        ax.margins(x=0.01)
    unit = f" ({data.time_unit})" if data is not None and data.time_unit else ""
    axes[-1].set_xlabel(f"time{unit}")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5, frameon=False, fontsize="small")
    return axes


def _draw_data(ax: Axes, data: Observations, state: str, trajectory: str) -> None:
    for s in data.of(state) if state in data.variables else ():
        if s.trajectory == trajectory:
            ax.plot(s.times, s.values, "o", color=_DATA, ms=3, label="measured")


def coefficients(
    posterior: Posterior, name: str = "coef", *, truth: np.ndarray | None = None, ax: Axes | None = None
) -> Axes:
    """Boxes (minimum, quartiles, maximum) of a dictionary's coefficients over their spread.

    Coefficients of different terms have different units, so each is divided by its own
    largest magnitude; numbers beside the boxes give the median in the user's units.
    ``truth`` (states, terms) is marked if known.
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
                boxprops={"facecolor": "#cfdef0", "edgecolor": _PATH},
                medianprops={"color": _PATH},
                whiskerprops={"color": _PATH},
                capprops={"color": _PATH},
                manage_ticks=False,
            )
            if truth is not None:
                ax.plot(
                    truth[i, k] / size,
                    position,
                    "D",
                    color=_TRUTH,
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
    posterior: Posterior, names: Sequence[str], *, truth: Mapping[str, float] | None = None
) -> Sequence[Axes]:
    """Histograms of parameters, one panel each, with 95 % intervals and, if known, the truth."""
    _, grid = plt.subplots(1, len(names), figsize=(2.6 * len(names), 2.4), squeeze=False, layout="constrained")
    for ax, name in zip(grid[0], names, strict=True):
        draws = posterior.draws[name].to_numpy().ravel()
        low, high = np.quantile(draws, [0.025, 0.975])
        ax.hist(draws, bins=40, color="#cfdef0", edgecolor=_PATH, lw=0.4)
        ax.axvspan(low, high, color=_PATH, alpha=0.1, lw=0, label="95 %")
        if truth is not None and name in truth:
            ax.axvline(truth[name], color=_TRUTH, lw=1.3, ls="--", label="truth")
        ax.set_title(name, fontsize="medium")
        ax.set_yticks([])
    grid[0][0].legend(frameon=False, fontsize="small")
    return list(grid[0])
