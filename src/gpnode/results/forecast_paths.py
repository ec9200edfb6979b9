"""Paths of draws at chosen times, with the Gaussian process given the data on top."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import Array

from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.problem.observables import Measurements, Observable
from gpnode.solvers import Status

_STEP_ERROR = 1e-7  # of one step, relative to states of order one
_MOST_STEPS = 20_000


def solver_grid(problem: Problem, experiment: int, times: np.ndarray) -> Array:
    """Times to solve between the wanted ones: long intervals would hide fast motion from the solver."""
    end = float(problem.scaling.solver_time(times)[-1])
    nodes = np.asarray(problem.nodes)[experiment]
    steps = np.diff(nodes)
    step = max(np.median(steps[steps > 0]), (end - nodes[0]) / _MOST_STEPS)
    return jnp.asarray(np.arange(nodes[0], end, step))


class Drawn(NamedTuple):
    """Of every draw (draws, times, states) in user units: a draw of the states, their expectation, the ODE's path."""

    full: Array
    expected: Array
    ode: Array
    status: Array


@eqx.filter_jit
def solve_draws(
    problem: Problem,
    draws: Array,
    keys: Array,
    times: Array,
    grid: Array,
    experiment: int,
    initial: Array,
    new_individual: bool,
    condition: bool,
    noise: bool,
) -> Drawn:
    """Paths of ``draws`` (draws, size) at ``times`` (n,) in user units, solved at the ``grid`` as well.

    They start from ``initial`` (states,) where it is not NaN. ``condition`` adds the process given the data.
    """
    scaling = problem.scaling
    blocks = [m for m in problem.measured if m.experiment == experiment]
    ts = scaling.solver_time(times)
    begin = problem.nodes[experiment, :1]
    measured_ts = [problem.nodes[experiment][m.rows] for m in blocks]
    windows = problem.windows(experiment)
    earlier = [jnp.maximum(ts - window, begin) for window in windows.values()]
    everything = jnp.concatenate([begin, ts, *measured_ts, *earlier, grid])
    order = jnp.argsort(everything)
    back = jnp.argsort(order)
    exact = problem.with_solver(problem.solver.controlled(_STEP_ERROR))

    def one(args: tuple[Array, Array]) -> Drawn:
        unconstrained, key = args
        values = problem.constrain(unconstrained)
        if new_individual:
            key, sub = jax.random.split(key)
            values = problem.with_new_individual(values, experiment, sub)
        solved = exact.solve_path(values, experiment, everything[order], initial)
        at = problem.outputs_along(everything, solved.xs[back], values, experiment)
        ode = at[1 : 1 + ts.size]
        first = 1 + ts.size + sum(m.size for m in measured_ts)
        for i, place in enumerate(windows):
            before = at[first + i * ts.size : first + (i + 1) * ts.size, place]
            ode = ode.at[:, place].add(-before)
        full, expected, offset, status = ode, ode, 1 + ts.size, solved.status
        for block in blocks:
            observable = problem.observables[block.observable]
            place = problem.outputs.index(observable.variable)
            seen = block.since_last(at[offset : offset + block.y.size, place], at[0, place])
            offset += block.y.size
            inside = jnp.all(observable.transform.inside(ode[:, place]))
            inside &= jnp.all(observable.transform.inside(seen))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            key, sub = jax.random.split(key)
            beside = problem.beside_along(observable, ts, experiment)
            xs = solved.xs[back][1 : 1 + ts.size]
            drawn, middle = _with_process(
                observable,
                block,
                values,
                ode[:, place],
                seen,
                scaling.gp_time(times),
                sub,
                condition,
                noise,
                problem.noise_std_along(block, ts, xs, ode[:, place], values, beside),
            )
            full, expected = full.at[:, place].set(drawn), expected.at[:, place].set(middle)
        scale = problem.output_scale
        return Drawn(full * scale, expected * scale, ode * scale, status)

    # One draw after the other: factorisations of many matrices at once can lock up XLA's threads on a small machine.
    return jax.lax.map(one, (draws, keys))


def _with_process(
    observable: Observable,
    block: Measurements,
    values: Values,
    path: Array,
    path_at_data: Array,
    gp_times: Array,
    key: Array,
    condition: bool,
    noise: bool,
    std: Array | None,
) -> tuple[Array, Array]:
    """One draw of the measured variable given its data (path, conditioned process, optional noise), and its centre."""
    transform = observable.transform
    mean = transform.forward(path)
    drawn = mean
    process_key, noise_key = jax.random.split(key)
    if observable.kernel is not None and condition:
        residual = block.y - transform.forward(path_at_data)
        shift, cov = conditional(observable, values, block, residual, gp_times)
        size = observable.signal_cov(values, gp_times[:1], gp_times[:1])[0, 0]
        mean = mean + shift
        drawn = mean + _draw_normal(process_key, cov, size)
    if noise:
        drawn = observable.add_noise(values, drawn, noise_key, std)
    return transform.backward(drawn), transform.backward(mean)


def conditional(
    observable: Observable, values: Values, block: Measurements, residual: Array, new_times: Array
) -> tuple[Array, Array]:
    """Mean (m,) and covariance (m, m) of the process at ``new_times`` given the ``residual`` (n,) of a block."""
    factor = jsl.cho_factor(observable.noisy_cov(values, block), lower=True)
    cross = observable.signal_cov(values, new_times, block.gp_times)
    mean = cross @ jsl.cho_solve(factor, residual)
    cov = observable.signal_cov(values, new_times, new_times) - cross @ jsl.cho_solve(factor, cross.T)
    return mean, 0.5 * (cov + cov.T)


def _draw_normal(key: Array, cov: Array, size: Array) -> Array:
    """A draw with a covariance that may be singular to rounding, of a process with variance ``size``."""
    # A jitter far too small to see; where rounding is worse than that, a larger one.
    fine, coarse = (jnp.linalg.cholesky(cov + relative * size * jnp.eye(len(cov))) for relative in (1e-9, 1e-5))
    factor = jnp.where(jnp.all(jnp.isfinite(fine)), fine, coarse)
    return factor @ jax.random.normal(key, (len(cov),))
