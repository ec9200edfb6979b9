"""Paths with their uncertainty, at any times: the ODE for each draw, and the Gaussian process on top.

Where a variable was measured, the Gaussian process given the residuals corrects the ODE's
path, as in the paper; latent states are the ODE's path alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import xarray as xr
from jax import Array

from .errors import ModelError
from .likelihood import Channel, Measured
from .parameters import Values
from .posterior import Posterior
from .problem import Problem
from .solvers import Adaptive, Status


@dataclass(frozen=True)
class Forecast:
    """Draws of the states at chosen times, in the user's units.

    ``states`` (draw, time, state) includes the Gaussian process where there is one; ``ode``
    is the path of the equations alone. ``failures`` counts draws whose path could not be
    solved; they are left out and this count says so.
    """

    states: xr.DataArray
    ode: xr.DataArray
    failures: int
    trajectory: str

    @property
    def times(self) -> np.ndarray:
        return self.states["time"].to_numpy()

    def mean(self) -> xr.DataArray:
        return self.states.mean("draw")

    def std(self) -> xr.DataArray:
        return self.states.std("draw")

    def quantile(self, q: float | list[float]) -> xr.DataArray:
        return self.states.quantile(q, "draw")


def forecast(
    posterior: Posterior,
    times: Any,
    *,
    initial: Mapping[str, float] | None = None,
    trajectory: str | None = None,
    noise: bool = False,
    max_draws: int = 400,
    seed: int = 0,
) -> Forecast:
    """States at ``times`` (user units), for at most ``max_draws`` draws spread over the chains.

    With ``initial`` (a value for every state) the system starts afresh at the start time, and the
    Gaussian process, which belongs to the measured run, is left out. ``noise`` adds
    measurement noise to observed variables.
    """
    problem = _problem_of(posterior)
    name = problem.trajectories[0] if trajectory is None else trajectory
    if name not in problem.trajectories:
        raise ModelError(f"there is no trajectory {name!r}; there are {', '.join(problem.trajectories)}.")
    wanted = np.unique(np.asarray(times, dtype=float))
    start = posterior.data.start[name]
    if wanted.size == 0 or not np.isfinite(wanted).all() or wanted[0] < start:
        raise ModelError(f"times must be finite and not before the start, {start:g}.")
    if initial is not None and set(initial) != set(problem.states):
        raise ModelError(f"initial needs a value for each of {', '.join(problem.states)}.")
    draws = posterior.unconstrained.reshape(-1, problem.size)
    chosen = draws[np.linspace(0, len(draws) - 1, min(max_draws, len(draws))).astype(int)]
    given = None if initial is None else jnp.asarray([float(initial[s]) for s in problem.states])
    keys = jax.random.split(jax.random.key(seed), len(chosen))
    index = problem.trajectories.index(name)
    full, ode, status = _paths(problem, jnp.asarray(chosen), keys, jnp.asarray(wanted), index, given, noise)
    sound = np.asarray(status) == Status.OK
    if not sound.any():
        raise ModelError("no draw could be solved over these times. Forecast over a shorter time.")
    coords = {"time": wanted, "state": list(problem.states)}

    def labelled(values: Array) -> xr.DataArray:
        return xr.DataArray(np.asarray(values)[sound], dims=("draw", "time", "state"), coords=coords)

    return Forecast(labelled(full), labelled(ode), int((~sound).sum()), name)


def _problem_of(posterior: Posterior) -> Problem:
    if posterior.problem is None:
        raise ModelError("forecasts need the model: load the posterior with Posterior.load(path, model=...).")
    return posterior.problem


@eqx.filter_jit
def _paths(
    problem: Problem, draws: Array, keys: Array, times: Array, trajectory: int, initial: Array | None, noise: bool
) -> tuple[Array, Array, Array]:
    """States with Gaussian process, ODE paths (draws, times, states) in user units, and statuses."""
    scaling = problem.scaling
    own = [m for m in problem.measured if m.trajectory == trajectory]
    ts = scaling.solver_time(times)
    begin = problem.nodes[trajectory, :1]
    measured_ts = [problem.nodes[trajectory][m.rows] for m in own]
    everything = jnp.concatenate([begin, ts, *measured_ts])
    order = jnp.argsort(everything)
    back = jnp.argsort(order)
    solver = Adaptive(rtol=1e-7, atol=1e-8) if problem.solver.follows_grid else problem.solver

    def one(args: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        unconstrained, key = args
        values = problem.constrain(unconstrained)
        x0 = problem.initial.values(values)[trajectory] if initial is None else initial
        params = {n: values[n] for n in problem.dynamics.parameter_names}
        solved = solver.solve(problem.dynamics.vector_field, params, x0 / scaling.state_scale, everything[order])
        at = solved.xs[back]
        ode = at[1 : 1 + ts.size]
        full, offset, status = ode, 1 + ts.size, solved.status
        for block in own:
            channel = problem.channels[block.channel]
            seen = at[offset : offset + block.y.size, channel.state]
            offset += block.y.size
            inside = jnp.all(channel.transform.inside(ode[:, channel.state]))
            inside &= jnp.all(channel.transform.inside(seen))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            key, sub = jax.random.split(key)
            path = _with_process(
                channel, block, values, ode[:, channel.state], seen, scaling.gp_time(times), sub, initial is None, noise
            )
            full = full.at[:, channel.state].set(path)
        return full * scaling.state_scale, ode * scaling.state_scale, status

    return jax.lax.map(one, (draws, keys))


def _with_process(
    channel: Channel,
    block: Measured,
    values: Values,
    path: Array,
    path_at_data: Array,
    gp_times: Array,
    key: Array,
    condition: bool,
    noise: bool,
) -> Array:
    """One draw of the measured variable given its data: path, conditioned process, optional noise."""
    transform = channel.transform
    mean = transform.forward(path)
    process_key, noise_key = jax.random.split(key)
    if channel.kernel is not None and condition:
        residual = block.y - transform.forward(path_at_data)
        shift, cov = conditional(channel, values, block.gp_times, residual, gp_times)
        mean = mean + shift + _draw_normal(process_key, cov)
    if noise:
        mean = mean + jnp.sqrt(channel.noise_var(values)) * jax.random.normal(noise_key, mean.shape)
    return transform.backward(mean)


def conditional(
    channel: Channel, values: Values, times: Array, residual: Array, new_times: Array
) -> tuple[Array, Array]:
    """Mean (m,) and covariance (m, m) of the process at ``new_times`` given ``residual`` at ``times``."""
    factor = jsl.cho_factor(channel.noisy_cov(values, times), lower=True)
    cross = channel.signal_cov(values, new_times, times)
    mean = cross @ jsl.cho_solve(factor, residual)
    cov = channel.signal_cov(values, new_times, new_times) - cross @ jsl.cho_solve(factor, cross.T)
    return mean, 0.5 * (cov + cov.T)


def _draw_normal(key: Array, cov: Array) -> Array:
    """A draw with a covariance that may be singular to rounding."""
    values, vectors = jnp.linalg.eigh(cov)
    return vectors @ (jnp.sqrt(jnp.maximum(values, 0.0)) * jax.random.normal(key, values.shape))
