"""Experiments drawn from a model: parameters from the prior, paths, Gaussian process, noise, measurements.

Units inside gpnode come from the data: a state is measured by its largest value, time by how fast the data move,
and priors of noise, Gaussian process and dictionary coefficients are in these units. A model alone is therefore no
complete prior. :func:`with_units_of` completes it: it fixes all units to those that one data set gives, and the
result is a prior that does not depend on what is measured next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import computing
from gpnode.data.observations import Observations
from gpnode.errors import DataError, ModelError
from gpnode.model.model import Model
from gpnode.problem.binding import bind
from gpnode.problem.density import Problem
from gpnode.solvers import Solution, Status

_STEP_ERROR = 1e-9
_MOST_TRIES = 50  # for each simulation
_BATCH = 32


@dataclass(frozen=True)
class Simulation:
    """A truth and what was measured of it.

    ``truth`` holds parameters by name in user units, as a posterior reports them; ``states`` (times, states) the true
    states of the first experiment, Gaussian process included, at times that need not have been measured (NaN where
    its path does not reach); ``unconstrained`` the truth as samplers see it, if known.
    """

    truth: dict[str, np.ndarray]
    data: Observations
    states: np.ndarray
    unconstrained: np.ndarray | None = None


def with_units_of(model: Model, data: Observations) -> Model:
    """``model`` with the units, and the priors of initial values and of processes, that ``data`` give it."""
    problem = bind(model, data)
    initial: dict[str, dict[str, Any]] = {s: {} for s in model.states}
    unknown = {(r, d): problem.initial.block.priors[name] for r, d, name in problem.initial.unknown}
    for r, experiment in enumerate(data.experiments):
        for d, state in enumerate(model.states):
            initial[state][experiment] = unknown.get((r, d), float(problem.initial.known[r, d]))
    return dataclasses.replace(
        model,
        initial=initial,
        kernel={observable.variable: observable.kernel for observable in problem.observables},
        scales=dict(zip(problem.outputs, map(float, problem.output_scale), strict=True)),
        time_unit=float(problem.scaling.time_unit),
    )


@computing()
def simulate(
    model: Model, data: Observations, count: int, *, seed: int = 0, times: Sequence[float] | np.ndarray = ()
) -> tuple[list[Simulation], int]:
    """``count`` simulations measured when and in the units ``data`` were, and how many draws could not be solved.

    Parameters whose path cannot be solved have no place in the posterior either: the prior is the one written down,
    restricted to paths that exist over the record, and so are these draws. ``times`` are for ``Simulation.states``.

    >>> simulations, unsolved = gn.simulate(model, data, count=3)
    >>> len(simulations)
    3
    """
    problem = bind(with_units_of(model, data), data)
    new_times = jnp.asarray(np.asarray(times, dtype=float))
    key = jax.random.key(seed)
    simulations: list[Simulation] = []
    dropped = 0
    for batch in range(-(-_MOST_TRIES * count // _BATCH)):
        drawn = _draw(problem, jax.random.split(jax.random.fold_in(key, batch), _BATCH), new_times)
        for i in range(_BATCH):
            if len(simulations) == count:
                return simulations, dropped
            simulation = _simulation(problem, data, jax.tree.map(lambda a, i=i: np.asarray(a[i]), drawn))
            if simulation is None:
                dropped += 1
            else:
                simulations.append(simulation)
    if len(simulations) == count:
        return simulations, dropped
    raise ModelError(
        f"{dropped} of {dropped + len(simulations)} draws from the prior have a path that cannot be solved. "
        "Narrow the priors towards plausible values."
    )


class _Drawn(NamedTuple):
    """Arrays of JAX while they are drawn, of NumPy after."""

    unconstrained: Any
    truth: dict[str, Any]
    measured: list[Any]
    states: Any
    status: Any


def _simulation(problem: Problem, data: Observations, drawn: _Drawn) -> Simulation | None:
    """A simulation with its measurements, or None if there is none with these parameters."""
    if drawn.status != Status.OK or not all(np.isfinite(m).all() for m in drawn.measured):
        return None
    by_experiment: dict[str, dict[str, Any]] = {name: {} for name in data.experiments}
    for series, values in zip(data.series, drawn.measured, strict=True):
        by_experiment[series.experiment][series.variable] = (series.times, _limited(data, series.variable, values))
    try:
        observed = Observations.from_experiments(by_experiment, start=dict(data.start))
    except DataError:  # all values equal to rounding, say
        return None
    observed = observed.with_time_unit(data.time_unit).with_experiments(data.done)
    return Simulation(dict(drawn.truth), observed, drawn.states, drawn.unconstrained)


def _limited(data: Observations, variable: str, values: np.ndarray) -> np.ndarray:
    """Values (n,) that lie beyond a limit of ``data`` as that limit."""
    kept = [(s.values, s.limits) for s in data.of(variable)]
    lower = max((float(v[side < 0].max()) for v, side in kept if (side < 0).any()), default=-np.inf)
    upper = min((float(v[side > 0].min()) for v, side in kept if (side > 0).any()), default=np.inf)
    if lower == -np.inf and upper == np.inf:
        return values
    texts = [f"<{lower!r}" if v < lower else f">{upper!r}" if v > upper else v for v in values.tolist()]
    return np.array(texts, dtype=object)


@eqx.filter_jit
def _draw(problem: Problem, keys: Array, new_times: Array) -> _Drawn:
    return jax.lax.map(lambda key: _draw_one(problem, key, new_times), keys)


def _draw_one(problem: Problem, key: Array, new_times: Array) -> _Drawn:
    prior_key, process_key = jax.random.split(key)
    block_keys = jax.random.split(prior_key, len(problem.blocks))
    values = {n: v for b, k in zip(problem.blocks, block_keys, strict=True) for n, v in b.draw(k).items()}
    unconstrained = problem.layout.unconstrain(values)
    values = problem.constrain(unconstrained)
    scale = problem.output_scale
    exact = problem.with_solver(problem.solver.controlled(_STEP_ERROR))
    solved = [exact.solve_path(values, r, ts) for r, ts in enumerate(problem.nodes)]
    status = jnp.max(jnp.stack([s.status for s in solved]))
    states = _states_at(problem, lambda ts: exact.solve_path(values, 0, ts), new_times)
    starts = [
        problem.outputs_along(t[:1], s.xs[:1], values, r)[0]
        for r, (t, s) in enumerate(zip(problem.nodes, solved, strict=True))
    ]
    ts = problem.scaling.solver_time(new_times)
    states = problem.outputs_along(ts, states, values, 0)
    for place, window in problem.windows(0).items():
        earlier = jnp.maximum(ts - window, problem.nodes[0, 0])
        before = _states_at(problem, lambda ts: exact.solve_path(values, 0, ts), problem.scaling.user_time(earlier))
        states = states.at[:, place].add(-problem.outputs_along(earlier, before, values, 0)[:, place])
    measured = []
    for i, block in enumerate(problem.measured):
        observable = problem.observables[block.observable]
        transform = observable.transform
        place = problem.outputs.index(observable.variable)
        path, nodes = solved[block.experiment].xs[block.rows], problem.nodes[block.experiment, block.rows]
        at_data = problem.outputs_along(nodes, path, values, block.experiment)[:, place]
        at_data = block.since_last(at_data, starts[block.experiment][place])
        later = states[:, place] if block.experiment == 0 else jnp.zeros(0)
        status = jnp.where(jnp.all(transform.inside(at_data)), status, Status.OUTSIDE_DOMAIN)
        signal_key, noise_key = jax.random.split(jax.random.fold_in(process_key, i))
        process = jnp.zeros(at_data.size + later.size)
        if observable.kernel is not None:
            times = jnp.concatenate([block.gp_times, problem.scaling.gp_time(new_times)[: later.size]])
            process = _draw_process(signal_key, observable.signal_cov(values, times, times))
        signal = transform.forward(at_data) + process[: at_data.size]
        std = problem.noise_std_along(block, nodes, path, at_data, values, block.numbers)
        measured.append(transform.backward(observable.add_noise(values, signal, noise_key, std)) * scale[place])
        if block.experiment == 0:
            moved = transform.backward(transform.forward(later) + process[at_data.size :])
            states = states.at[:, place].set(jnp.where(transform.inside(later), moved, jnp.nan))
    return _Drawn(unconstrained, problem.report(unconstrained), measured, states * scale, status)


def _states_at(problem: Problem, solve: Callable[[Array], Solution], new_times: Array) -> Array:
    """Scaled path (times, states) of the first experiment at ``new_times``; NaN if it does not reach them."""
    nodes = problem.nodes[0]
    everything = jnp.concatenate([nodes, problem.scaling.solver_time(new_times)])
    order = jnp.argsort(everything)
    solution = solve(everything[order])
    return jnp.where(solution.status == Status.OK, solution.xs[jnp.argsort(order)][nodes.size :], jnp.nan)


def _draw_process(key: Array, cov: Array) -> Array:
    """A normal vector with covariance ``cov``, which may be singular."""
    values, vectors = jnp.linalg.eigh(cov)
    return vectors @ (jnp.sqrt(jnp.maximum(values, 0.0)) * jax.random.normal(key, values.shape))
