"""Smoothed states and slopes of fully measured experiments, which equations can be matched to without a solve."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.problem.density import Problem
from gpnode.problem.observables import Measurements
from gpnode.problem.smoothing import Smooth

SeriesByState = dict[int, tuple[Measurements, Smooth]]
"""Measurements of each state in one experiment, and what they are when smoothed."""


class SlopeData(eqx.Module):
    """Smoothed states and slopes (points, states) in scaled units at solver ``times`` (points,)."""

    times: Array
    states: Array
    slopes: Array
    width: Array


def slope_data(problem: Problem, smooths: list[Smooth | None], points: int) -> SlopeData | None:
    """Smoothed states and slopes where all states of an experiment are known; None with latent states."""
    observed = {problem.observables[m.observable].state for m in problem.measured} - {None}
    if observed != set(range(len(problem.states))) or problem.populations or problem.driving:
        return None
    times, states, slopes = [], [], []
    for experiment in range(len(problem.experiments)):
        series = _series_by_state(problem, smooths, experiment)
        if set(series) != observed:
            continue
        low, high = _shared_span(series)
        if not high > low:
            continue
        grid = np.linspace(low, high, points)
        x, dx = _smoothed_states(problem, series, grid)
        times.append(grid * float(problem.scaling.record_length / problem.scaling.time_unit))
        states.append(x)
        slopes.append(dx)
    if not times:
        return None
    all_slopes = np.concatenate(slopes)
    width = 0.1 * np.maximum(all_slopes.std(axis=0), 1e-6)
    return SlopeData(*map(jnp.asarray, (np.concatenate(times), np.concatenate(states), all_slopes, width)))


def smoothed_path(problem: Problem, smooths: list[Smooth | None]) -> np.ndarray | None:
    """Smoothed states (experiments, nodes, states) in scaled units at the solver's nodes; None with latent states."""
    paths = []
    for experiment in range(len(problem.experiments)):
        series = _series_by_state(problem, smooths, experiment)
        if set(series) != set(range(len(problem.states))):
            return None
        times = np.asarray(problem.nodes[experiment]) * float(problem.scaling.time_unit / problem.scaling.record_length)
        low, high = _shared_span(series)
        paths.append(_smoothed_states(problem, series, np.clip(times, low, high))[0])
    return np.stack(paths)


def _series_by_state(problem: Problem, smooths: list[Smooth | None], experiment: int) -> SeriesByState:
    found = {}
    for m, s in zip(problem.measured, smooths, strict=True):
        state = problem.observables[m.observable].state
        if m.experiment == experiment and s is not None and state is not None:
            found[state] = (m, s)
    return found


def _shared_span(series: SeriesByState) -> tuple[float, float]:
    """Gaussian-process times between which all series were measured."""
    low = max(float(m.gp_times[0]) for m, _ in series.values())
    high = min(float(m.gp_times[-1]) for m, _ in series.values())
    return low, high


def _smoothed_states(problem: Problem, series: SeriesByState, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled states and slopes (points, states) of one experiment at Gaussian-process times ``grid``."""
    per_solver_time = float(problem.scaling.time_unit / problem.scaling.record_length)
    x, dx = np.zeros((grid.size, len(series))), np.zeros((grid.size, len(series)))
    for state, (measurements, fit) in series.items():
        transform = problem.observables[measurements.observable].transform
        x[:, state], dx[:, state] = transform.backward_with_slope(fit.value(grid), fit.slope(grid) * per_solver_time)
    return x, dx
