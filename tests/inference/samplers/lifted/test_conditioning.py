"""The surface of a path given the hyperparameters, also where paths run apart."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.samplers.lifted import moves
from gpnode.inference.samplers.lifted.conditioning import path_given_hyper, whiteners_of
from gpnode.problem.grid import with_steps


def saturating() -> tuple[gn.Model, gn.Observations]:
    """Positive parameters, and measurements on a logarithmic scale: nothing about the surface is linear."""

    def field(t, x, p):
        return {"x": p.rate * x.x / (p.half + x.x), "y": x.x - p.loss * x.y}

    priors = {"rate": gn.LogNormal(0.0, 0.3), "half": gn.LogNormal(0.0, 0.3), "loss": gn.LogNormal(0.0, 0.3)}
    times = np.linspace(0.0, 3.0, 13)
    model = gn.Model(
        gn.KnownForm(["x", "y"], field, priors),
        initial={"x": gn.LogNormal(0.0, 0.3), "y": 1.0},
        transform=gn.Log(),
        kernel=None,
        noise=gn.Noise(std=0.03, relative=False),
    )
    return model, gn.Observations({"y": (times, 1.0 + times)}, start=0.0)


@pytest.mark.slow
def test_moves_are_pushed_along_the_gradient_of_excess_and_area():
    problem = with_steps(gn.bind(*saturating()), np.full((1, 12), 4))
    hyper = problem.hyper_block.draw(jax.random.key(1))
    u = problem.draw_path_prior(jax.random.key(2), hyper)
    surface, x, _ = path_given_hyper(problem, u, whiteners_of(problem, u), jax.random.key(3))

    @jax.jit
    def density(x):
        at = surface.point(x)
        return at.excess - 0.5 * at.log_det, at.push

    _, push = density(x)
    steps = 1e-4 * np.eye(x.size)
    wanted = [(density(x + s)[0] - density(x - s)[0]) / 2e-4 for s in steps]
    assert np.abs(wanted).max() > 0.1
    assert np.allclose(push, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("with_path", "angle", "least", "most"),
    [
        (True, 0.4, 0.95, 1.0),
        pytest.param(True, 0.05, 0.95, 1.0, marks=pytest.mark.slow),
        (False, 0.4, 0.0, 0.4),
    ],
)
def test_moves_land_where_paths_run_apart(running_apart, with_path, angle, least, most):
    """With the path's states among the unknowns. Solving from the start alone does not get there."""
    problem, u = running_apart.problem, jnp.asarray(running_apart.maxima[0].centre)

    @jax.jit
    def move(key):
        surface, x, _ = path_given_hyper(problem, u, whiteners_of(problem, u), key)
        if not with_path:
            surface = surface._replace(evaluate=lambda x, path=None, own=surface.evaluate: own(x))
        at = surface.point(x)
        return moves.move(surface, at, key, jnp.asarray(angle), jnp.asarray(1)), jnp.linalg.norm(at.slope)

    moved, magnified = zip(*(move(jax.random.key(i)) for i in range(60)), strict=True)
    assert min(magnified) > 1e7
    assert least <= np.mean([bool(m.landed) for m in moved]) <= most
