"""Small problems that other processes can import, too."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.inference.samplers.base import Chunking
from gpnode.model.observation import kernels
from gpnode.problem.density import Problem
from gpnode.problem.grid import with_steps

SETTINGS = gn.Lifted(warmup=30, draws=40, chains=2, chunking=Chunking(most_steps=10))


def decay(t, x, p):
    return {"x": -p.rate * x.x}


def decay_model(width: float = 1.0) -> gn.Model:
    dynamics = gn.KnownForm(["x"], decay, {"rate": gn.LogNormal(0.0, width)})
    return gn.Model(dynamics, initial={"x": gn.Normal(8.0, 1.0)}, kernel=None)


def decay_data(seed: int = 0) -> gn.Observations:
    t = np.linspace(0.0, 5.0, 15)
    noise = 0.2 * np.random.default_rng(seed).normal(size=t.size)
    return gn.Observations({"x": (t, 8.0 * np.exp(-0.5 * t) + noise)})


def new_decay_model() -> gn.Model:
    """The same equations in a new function each time."""
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    return gn.Model(field, kernel=None)


def on_the_edge() -> tuple[gn.Model, gn.Observations]:
    """A path on the edge of two ways down: the end of the record magnifies the start ten million times."""

    def field(t, x, p):
        return {"x": p.rate * (x.x - p.size * jnp.sin(3.0 * t) - p.bend * x.x**2)}

    # Backwards in time the path is the one that all others run towards.
    times = np.linspace(0.0, 2.0, 21)
    truth = solve_ivp(lambda t, x: 7.0 * (x - np.sin(3.0 * t) - 0.3 * x**2), (3.0, 0.0), [0.5], t_eval=times[::-1])
    noise = 0.02 * np.random.default_rng(0).normal(size=times.size)
    priors = {"rate": gn.Normal(7.0, 1.0), "size": gn.Normal(1.0, 0.2), "bend": gn.Normal(0.3, 0.3)}
    model = gn.Model(
        gn.KnownForm(["x"], field, priors),
        initial={"x": gn.Normal(0.0, 1.0)},
        kernel=None,
        noise=gn.Noise(std=0.02, relative=False),
    )
    return model, gn.Observations({"x": (times, truth.y[0][::-1] + noise)})


def coarse(problem: Problem) -> Problem:
    """One step between measurements, whatever its error."""
    one_step = with_steps(problem, np.ones(np.diff(problem.measured_times).shape))
    return one_step.with_solver(one_step.solver.controlled(1.0))


def linear_model(process: bool = True) -> gn.Model:
    """x' = a: the posterior is normal, and Laplace's approximation exact, when noise and process are known."""
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": p.a}, {"a": gn.Normal(1.0, 0.5)})
    kernel = kernels.Matern32(variance=0.04, length_scale=0.4) if process else None
    return gn.Model(field, initial={"x": gn.Normal(2.0, 1.0)}, kernel=kernel, noise=gn.Noise(std=0.1))


def linear_data(scale: float = 1.0) -> gn.Observations:
    t = np.linspace(0.0, 5.0, 9)
    return gn.Observations({"x": (t, scale * (2.0 + t + 0.1 * np.sin(9 * t)))})
