"""The grid of a fixed-grid solver: laid between measurements, and made fine enough for given paths."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import compiled_for_few_calls
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.solvers import Status, local_errors, refine

STEP_TOLERANCE = 1e-5
"""Largest embedded error of one step, in scaled units where states are of order one."""
_STEPS_PER_TIME = 8.0  # in a characteristic time, before any path is known
_SHORTEST_STEPS = 1000.0  # at most this many steps in a characteristic time
_MOST_STEPS = 20_000  # in an experiment
_NODE_QUANTUM, _TRIED_QUANTUM = 16, 256  # grids come in multiples of this, so that similar data share compiled code
_POINTS_SERVED = 0.9  # part of several points whose steps decide


def with_steps(problem: Problem, counts: np.ndarray | None = None) -> Problem:
    """The same problem on a grid with ``counts`` (experiments, intervals) steps between measurements.

    Without ``counts``, eight steps in a characteristic time.
    """
    if not problem.solver.follows_grid:
        return problem
    measured = np.asarray(problem.measured_times)
    gaps = np.diff(measured, axis=1)
    if counts is None:
        counts = np.maximum(1, np.ceil(_STEPS_PER_TIME * gaps - 1e-9))
    # Before an experiment's end, times without a gap between them are those of a jump.
    before_end = measured[:, 1:] < measured[:, -1:]
    counts = np.where(gaps > 0, counts, before_end).astype(int)
    total = -(-int(counts.sum(axis=1).max()) // _NODE_QUANTUM) * _NODE_QUANTUM
    nodes, positions = zip(*(_lay_nodes(t, c, total) for t, c in zip(measured, counts, strict=True)), strict=True)
    rows = [positions[m.experiment][r] for m, r in zip(problem.measured, _measured_rows(problem), strict=True)]
    return _with_nodes(problem, np.stack(nodes), rows)


def with_steps_for(problem: Problem, unconstrained: Array, tolerance: float = STEP_TOLERANCE) -> Problem:
    """The same problem on a grid fine enough for the path at ``unconstrained`` (size,), or at several (n, size)."""
    if not problem.solver.follows_grid:
        return problem
    refined = problem
    for _ in range(3):
        errors, counts = _errors_by_interval(refined, unconstrained)
        if np.isfinite(errors).all() and errors.max() <= tolerance and refined is not problem:
            break
        # Where the field jumps, no number of steps is enough; the check of draws after sampling tells.
        most = np.maximum(1, np.ceil(_SHORTEST_STEPS * np.diff(np.asarray(problem.measured_times), axis=1)))
        wanted = np.minimum(refine(counts, errors, tolerance), most)
        refined = with_steps(problem, np.ceil(wanted * min(1.0, _MOST_STEPS / wanted.sum(axis=1).max())))
    return refined.with_solver(refined.solver.at_tolerance(tolerance))


def on_nodes(problem: Problem, nodes: np.ndarray, solver: dict[str, Any]) -> Problem:
    """The problem on ``nodes`` (experiments, times) laid earlier, with the settings the solver had there."""
    problem = problem.with_solver(dataclasses.replace(problem.solver, **solver))
    if not problem.solver.follows_grid:
        return problem
    rows = []
    for block in problem.measured:
        rows.append(_same_rows(np.asarray(problem.nodes)[block.experiment], nodes[block.experiment], block.rows))
    return _with_nodes(problem, nodes, rows)


def step_error(problem: Problem, unconstrained: Array) -> float:
    """Largest embedded error of a step at ``unconstrained``; zero for solvers that control it themselves."""
    if not problem.solver.follows_grid:
        return 0.0
    errors, _ = _errors_by_interval(problem, unconstrained)
    return float(errors.max())


def _with_nodes(problem: Problem, nodes: np.ndarray, rows: list[np.ndarray]) -> Problem:
    """On other nodes, with the ``rows`` (n,) among them that belong to each block of measurements."""
    blocks = tuple(
        eqx.tree_at(lambda b: b.rows, block, jnp.asarray(where))
        for block, where in zip(problem.measured, rows, strict=True)
    )
    return eqx.tree_at(lambda p: p.measured, _on(problem, nodes), blocks)


def _on(problem: Problem, nodes: np.ndarray) -> Problem:
    """With other nodes, and what acts between them."""
    problem = eqx.tree_at(lambda p: p.nodes, problem, jnp.asarray(nodes))
    if problem.driving is None:
        return problem
    return eqx.tree_at(lambda p: p.actions, problem, jnp.asarray(problem.driving.actions_on(nodes)))


def _errors_by_interval(problem: Problem, unconstrained: Array) -> tuple[np.ndarray, np.ndarray]:
    """Largest step error and number of steps in each interval between measurements.

    Of several points, those nine tenths of them do not exceed.
    """
    steps = problem.nodes.shape[1] - 1
    # Steps without length at the end: grids that are tried one after the other share compiled code.
    nodes = np.pad(np.asarray(problem.nodes), ((0, 0), (0, -steps % _TRIED_QUANTUM)), mode="edge")
    padded = _on(problem, nodes)
    at_points = np.stack([_step_errors(padded, point) for point in jnp.atleast_2d(unconstrained)])[..., :steps]
    at_points = np.where(np.isnan(at_points), np.inf, at_points)
    step_errors = np.quantile(at_points, _POINTS_SERVED, axis=0, method="lower")
    errors = np.zeros(problem.measured_times[:, 1:].shape)
    intervals = _intervals(problem)
    for experiment, (interval, moved) in enumerate(intervals):
        np.maximum.at(errors[experiment], interval[moved], step_errors[experiment][moved])
    last = problem.measured_times.shape[1] - 1
    counts = np.stack([np.maximum(1, np.bincount(i[moved], minlength=last)) for i, moved in intervals])
    return errors, counts


def _intervals(problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each experiment the interval each step belongs to (steps,), and whether the step has a length."""
    intervals = []
    for times, grid in zip(np.asarray(problem.measured_times), np.asarray(problem.nodes), strict=True):
        interval = np.clip(np.searchsorted(times, grid[:-1], side="right") - 1, 0, times.size - 2)
        intervals.append((interval, np.diff(grid) > 0))
    return intervals


def _measured_rows(problem: Problem) -> list[np.ndarray]:
    """Positions of each block's data among ``measured_times``."""
    nodes, measured = np.asarray(problem.nodes), np.asarray(problem.measured_times)
    return [_same_rows(nodes[block.experiment], measured[block.experiment], block.rows) for block in problem.measured]


def _same_rows(times: np.ndarray, others: np.ndarray, rows: Array) -> np.ndarray:
    """Where ``rows`` of ``times`` are among ``others``; the time of a jump is there twice in both."""
    chosen = np.asarray(rows)
    after = chosen - np.searchsorted(times, times[chosen])
    first = np.abs(others[None, :] - times[chosen][:, None]).argmin(axis=1)
    last = np.searchsorted(others, others[first], side="right") - 1
    return np.minimum(first + after, last)


def _lay_nodes(times: np.ndarray, counts: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with ``counts`` steps per interval, filled up to ``total`` steps, and where ``times`` lie."""
    counts = counts.copy()
    gaps = np.diff(times)
    while counts.sum() < total:  # spend the spare steps where steps are longest
        spare = total - counts.sum()
        longest = np.argsort(-gaps / np.maximum(counts, 1), kind="stable")[:spare]
        counts[longest[gaps[longest] > 0]] += 1
    pieces = [t0 + (t1 - t0) * np.arange(n) / n for t0, t1, n in zip(times[:-1], times[1:], counts, strict=True) if n]
    return np.concatenate([*pieces, times[-1:]]), np.concatenate([[0], np.cumsum(counts)])


@compiled_for_few_calls
def _step_errors(problem: Problem, unconstrained: Array) -> Array:
    """Of each step (experiments, steps) along a path that is itself solved tightly; NaN where that fails."""
    values = problem.constrain(unconstrained)
    _, params = problem.start_and_params(values)
    path = problem.tightly_solved().solve(values)

    def one(xs: Array, ts: Array, params: Values, actions: Array | None) -> Array:
        return local_errors(problem.system(actions), params, xs, ts)

    axes = (0, 0, problem.parameter_axes, 0)
    errors = jax.vmap(one, in_axes=axes)(path.xs, problem.nodes, params, problem.actions)
    return jnp.where((path.status == Status.OK)[:, None], errors, jnp.nan)
