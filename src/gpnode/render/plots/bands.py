"""Figures of paths: measurements, forecasts, residuals, and the plane of two states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gpnode.data.experiments import Experiment, Input
from gpnode.data.observations import Observations
from gpnode.render.plots.style import COLOURS, DATA, PATH, TRUTH, panels
from gpnode.results.diagnostics.explaining import adequacy
from gpnode.results.forecasts import Forecast, forecast
from gpnode.results.posterior import Posterior


def paths(
    forecast: Forecast,
    data: Observations | None = None,
    *,
    truth: Mapping[str, np.ndarray] | None = None,
    whole_paths: bool = False,
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Mean and two-standard-deviation band of every state, with the data and, if known, the truth.

    ``truth`` gives a path per state at ``forecast.times``. With ``whole_paths`` there is a second, paler band, which
    holds a state's whole path with a probability of 95 %: :meth:`~gpnode.Forecast.envelope`. The time after the last
    measurement is shaded, and so are gaps in the data. Doses and events are marked, and inputs over time drawn below.
    """
    states = [str(s) for s in forecast.states["state"].to_numpy()]
    done = Experiment() if data is None else data.done.get(forecast.experiment, Experiment())
    inputs = sum(isinstance(value, Input) for value in done.inputs.values()) if axes is None else 0
    axes = panels(len(states) + inputs, 1, (8, 2.6), axes, sharex=True)
    _draw_inputs(axes[len(states) :], done if inputs else Experiment(), forecast.times)
    mean, std = forecast.mean(), forecast.std()
    around = forecast.envelope() if whole_paths else None
    for ax, state in zip(axes, states, strict=False):
        if around is not None:
            low, high = (end.sel(state=state).to_numpy() for end in around)
            label = "95 % of whole paths"
            ax.fill_between(forecast.times, low, high, color=PATH, alpha=0.12, lw=0, label=label)
        middle, margin = mean.sel(state=state).to_numpy(), 2 * std.sel(state=state).to_numpy()
        ax.fill_between(
            forecast.times,
            middle - margin,
            middle + margin,
            color=PATH,
            alpha=0.2,
            lw=0,
            label="two standard deviations",
        )
        ax.plot(forecast.times, middle, color=PATH, lw=1.6, label="mean")
        if truth is not None and state in truth:
            ax.plot(forecast.times, truth[state], color=TRUTH, lw=1.1, ls="--", label="truth")
        if data is not None:
            _draw_data(ax, data, state, forecast.experiment)
            end = max(s.times[-1] for s in data.series if s.experiment == forecast.experiment)
            if forecast.times[-1] > end:
                ax.axvspan(end, forecast.times[-1], color="0.92", zorder=0, label="forecast")
            for first, last in _gaps(data, state, forecast.experiment):
                ax.axvspan(first, last, color="#f3ead6", zorder=0, label="gap")
            _draw_done(ax, data, state, forecast)
        ax.set_ylabel(state)
        ax.margins(x=0.01)
    unit = f" ({data.time_unit})" if data is not None and data.time_unit else ""
    axes[-1].set_xlabel(f"time{unit}")
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    columns = len(handles) if len(handles) <= 6 else 4  # more do not fit above axes of the usual width
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
    axes[0].legend(handles.values(), handles, **place, frameon=False, fontsize="small")
    return axes


def _draw_done(ax: Axes, data: Observations, state: str, forecast: Forecast) -> None:
    """Ticks below the path where a state is dosed or changed, and a bar while it is."""
    done = data.done.get(forecast.experiment, Experiment())
    end = forecast.times[-1]
    below = ax.get_xaxis_transform()
    for dose in done.doses:
        for time in dose.times[dose.times <= end] if dose.state == state else ():
            ends = [time, min(time + dose.duration, end)]
            if dose.duration:
                ax.plot(ends, [0.02, 0.02], color=COLOURS[1], lw=3, transform=below, label="dose")
            else:
                ax.plot([time], [0.03], "^", color=COLOURS[1], ms=6, transform=below, label="dose")
    for event in done.events:
        if state in event.changes and event.time <= end:
            ax.axvline(event.time, color=COLOURS[1], lw=0.8, ls=":", label="event")


def _draw_inputs(axes: Sequence[Axes], done: Experiment, times: np.ndarray) -> None:
    """What an experiment gives over time, one below the other."""
    changing = {name: value for name, value in done.inputs.items() if isinstance(value, Input)}
    fine = np.linspace(times[0], times[-1], 1000)
    for ax, (name, value) in zip(axes, changing.items(), strict=True):
        ax.fill_between(fine, value.at(fine), color=COLOURS[1], alpha=0.3, lw=0)
        ax.plot(fine, value.at(fine), color=COLOURS[1], lw=1)
        ax.set_ylabel(name)


def _gaps(data: Observations, state: str, experiment: str) -> list[tuple[float, float]]:
    """Times between measurements that lie much further apart than usual."""
    for s in data.of(state) if state in data.variables else ():
        if s.experiment == experiment and s.times.size > 3:
            times = np.unique(s.times)
            steps = np.diff(times)
            wide = np.flatnonzero(steps > 4.0 * np.median(steps)) if steps.size else ()
            return [(float(times[i]), float(times[i + 1])) for i in wide]
    return []


def _draw_data(ax: Axes, data: Observations, state: str, experiment: str) -> None:
    for s in data.of(state) if state in data.variables else ():
        if s.experiment == experiment:
            for side, marker, label in ((0, "o", "measured"), (-1, "v", "below a limit"), (1, "^", "above a limit")):
                shown = s.limits == side
                if shown.any():
                    face = DATA if side == 0 else "none"
                    ax.plot(s.times[shown], s.values[shown], marker, color=DATA, mfc=face, ms=3, label=label)


def residuals(posterior: Posterior, *, axes: Sequence[Axes] | None = None, max_draws: int = 200) -> Sequence[Axes]:
    """Measurements minus the mean path: of the equations alone (open circles), and with the Gaussian process (dots).

    Open circles show what the equations do not explain.
    """
    data = posterior.data
    series = list(data.series)
    axes = panels(len(series), 1, (8, 1.9), axes)
    for ax, s in zip(axes, series, strict=True):
        paths = forecast(posterior, s.times, experiment=s.experiment, max_draws=max_draws)
        ode, full = (array.mean("draw").sel(state=s.variable).to_numpy() for array in (paths.ode, paths.expected))
        ax.axhline(0.0, color="0.6", lw=0.8)
        ax.plot(s.times, s.values - ode, "o", mfc="none", color=COLOURS[1], ms=4, label="minus equations")
        if not np.allclose(ode, full):
            ax.plot(s.times, s.values - full, "o", color=PATH, ms=3, label="minus equations and Gaussian process")
        ax.set_ylabel(s.variable if len(data.experiments) == 1 else f"{s.variable}, {s.experiment}")
    axes[-1].set_xlabel(f"time ({data.time_unit})" if data.time_unit else "time")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize="small")
    return axes


def predictive_check(posterior: Posterior, *, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Histograms of where measurements fall in their predictions from all others (leave-one-out PIT).

    They are even if the model is right: high in the middle where its noise is too wide, at the ends where too narrow.
    The shaded band holds a bar with a probability of 95 %.
    """
    from scipy.stats import binom  # here, because it takes a second

    found = list(adequacy(posterior).values())
    axes = panels(1, len(found), (2.8, 2.2), axes)
    for ax, one in zip(axes, found, strict=True):
        bins = int(np.clip(one.pit.size // 8, 4, 10))
        low, high = binom.interval(0.95, one.pit.size, 1.0 / bins)
        ax.axhspan(low, high, color="0.92", zorder=0)
        ax.hist(one.pit, np.linspace(0.0, 1.0, bins + 1).tolist(), color=PATH, alpha=0.7)
        ax.set_xlabel(f"{one.variable}: place in its prediction")
    axes[0].set_ylabel("measurements")
    return axes


def phase_portrait(
    posterior: Posterior,
    x: str,
    y: str,
    *,
    path: Forecast | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean vector field in the plane of two states, the others at their mean, with the mean path and data.

    ``path`` is a forecast whose mean is drawn; by default one over the measured time.
    """
    data = posterior.data
    name = data.experiments[0] if path is None else path.experiment
    if path is None:
        end = max(s.times[-1] for s in data.series if s.experiment == name)
        path = forecast(posterior, np.linspace(data.start[name], end, 200), experiment=name, max_draws=200)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.2, 4.8), layout="constrained")
    mean = path.mean()
    states = [str(s) for s in mean["state"].to_numpy()]
    field = posterior.equations().function(all_terms=True)
    level = mean.mean("time").to_numpy()
    axis = {}
    for state in (x, y):
        low, high = float(mean.sel(state=state).min()), float(mean.sel(state=state).max())
        axis[state] = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 24)
    u, v = np.zeros((24, 24)), np.zeros((24, 24))
    for i, b in enumerate(axis[y]):
        for k, a in enumerate(axis[x]):
            at = level.copy()
            at[states.index(x)], at[states.index(y)] = a, b
            slope = field(float(path.times[0]), at)
            u[i, k], v[i, k] = slope[states.index(x)], slope[states.index(y)]
    ax.streamplot(axis[x], axis[y], u, v, color="0.75", density=1.1, linewidth=0.7, arrowsize=0.8)
    ax.plot(mean.sel(state=x), mean.sel(state=y), color=PATH, lw=1.8, label="mean path")
    ax.plot(mean.sel(state=x)[0], mean.sel(state=y)[0], "o", color=PATH, ms=6, label="start")
    measured = {s.variable: s for s in data.series if s.experiment == name and s.variable in (x, y)}
    if len(measured) == 2:
        common, at_x, at_y = np.intersect1d(measured[x].times, measured[y].times, return_indices=True)
        if common.size > 2:
            ax.plot(measured[x].values[at_x], measured[y].values[at_y], "o", color=DATA, ms=3, label="measured")
    ax.set_xlim(axis[x][0], axis[x][-1])
    ax.set_ylim(axis[y][0], axis[y][-1])
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize="small")
    return ax
