"""Moves of the lifted sampler against densities that can be summed on a grid."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpnode.inference.samplers.lifted import landing, moves
from gpnode.inference.samplers.lifted.settings import Landing
from gpnode.inference.samplers.lifted.surface import Local, Surface, whiten_metric
from gpnode.solvers import Status

WIDTH = 0.05


def banana(x):
    """A measurement of a curved function, forty times tighter than the prior."""
    return jnp.stack([(x[1] + x[0] ** 2 - 0.5) / WIDTH])


def wave(x):
    return jnp.stack([(jnp.sin(2.0 * x[0]) + x[1]) / WIDTH, 0.5 * (x[0] - x[1])])


def no_excess(x):
    return 0.0 * jnp.sum(x)


def quartic(x):
    return -0.3 * jnp.sum(x**4)


def always(x):
    return jnp.asarray(0)


def surface_of(residuals, excess, status=always) -> Surface:
    """A surface without a path behind it."""

    def evaluate(x, path=None):
        path, by_input, inputs_by_x = jnp.zeros((1, 1, 1)), jnp.zeros((1, 1, 1, 1)), jnp.zeros((1, 1, x.size))
        return Local(residuals(x), jax.jacfwd(residuals)(x), path, by_input, inputs_by_x, status(x))

    def area(x, local, weights):
        return jax.grad(lambda x: jnp.sum(weights * evaluate(x).slope))(x)

    return Surface(lambda x: (residuals(x), status(x)), evaluate, jax.value_and_grad(excess), area)


def sample(surface: Surface, angle: float, rotations: int, count: int = 60_000):
    def step(x, key):
        moved = moves.move(surface, surface.point(x), key, jnp.asarray(angle), jnp.asarray(rotations))
        return moved.x, (moved.x, moved.accept_prob, moved.landed)

    keys = jax.random.split(jax.random.key(0), count)
    return jax.jit(lambda x: jax.lax.scan(step, x, keys)[1])(jnp.array([0.1, 0.45]))


def grid_moments(residuals, excess):
    """Means and standard deviations of x0, x1 and x0 x1 by summing the density on a grid."""
    axis = np.linspace(-4.5, 4.5, 1801)
    x0, x1 = np.meshgrid(axis, axis, indexing="ij")
    points = jnp.asarray(np.stack([x0.ravel(), x1.ravel()], 1))
    log = jax.vmap(lambda x: -0.5 * x @ x - 0.5 * residuals(x) @ residuals(x) + excess(x))(points)
    weights = np.exp(np.asarray(log) - np.max(log))
    weights /= weights.sum()
    values = np.stack([x0.ravel(), x1.ravel(), (x0 * x1).ravel()])
    means = values @ weights
    return means, np.sqrt((values - means[:, None]) ** 2 @ weights)


@pytest.mark.parametrize(
    ("residuals", "excess"), [(wave, quartic), pytest.param(banana, no_excess, marks=pytest.mark.slow)]
)
def test_moments_are_those_of_the_density(residuals, excess):
    draws, accept, landed = sample(surface_of(residuals, excess), angle=0.35, rotations=3)
    draws = np.asarray(draws)
    means, sds = grid_moments(residuals, excess)
    values = np.stack([draws[:, 0], draws[:, 1], draws.prod(axis=1)])
    assert 0.3 < float(np.mean(accept)) < 0.999
    assert float(np.mean(landed)) > 0.7
    for chain, mean, sd in zip(values, means, sds, strict=True):
        batches = chain.reshape(40, -1)  # long against the correlation of the chain
        for found, wanted in ((batches.mean(axis=1), mean), (batches.std(axis=1), sd)):
            assert abs(found.mean() - wanted) < 4.5 * found.std(ddof=1) / np.sqrt(len(found)) + 0.002


def test_a_linear_surface_is_followed_exactly():
    """Where residuals are linear, a rotation is exact however tight they are: nothing is rejected."""

    def tight(x):
        return 1e4 * jnp.stack([x[0] - 2.0 * x[1] + 0.3])

    draws, accept, _ = sample(surface_of(tight, no_excess), angle=1.5, rotations=1, count=4000)
    assert float(np.min(accept[1:])) > 0.999
    means, cov = np.mean(draws, axis=0), np.linalg.inv(np.eye(2) + 1e8 * np.outer([1.0, -2.0], [1.0, -2.0]))
    assert means == pytest.approx(-cov @ np.array([1.0, -2.0]) * 1e8 * 0.3, abs=4 * np.sqrt(cov.max() / 3000))


@pytest.mark.parametrize("steepest", [1e2, 1e5, 1e9])
def test_steep_surfaces_arewhiten_metriced_exactly(steepest):
    """Paths that run apart make slopes whose metric is singular to machine precision."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 8)))[0] for n in (30, 8))
    sizes = np.geomspace(0.1, steepest, 8)
    whitener, log_det = whiten_metric(jnp.asarray(left * sizes @ right.T), Landing().ridge)
    # In its own axes, where products do not lose digits.
    rotated = np.asarray(whitener) @ right
    assert np.abs(rotated * (1.0 + sizes**2) @ rotated.T - np.eye(8)).max() < 1e-15 * steepest + 1e-9
    assert float(log_det) == pytest.approx(np.log1p(sizes**2).sum(), rel=1e-9)


def test_a_step_can_be_retraced():
    surface = surface_of(banana, no_excess)
    point = surface.point(jnp.array([0.3, 0.4]))
    velocity = moves.draw_velocity(point, jax.random.key(4))
    angle = jnp.asarray(0.3)
    landed = landing.rotate(surface, point, velocity, angle, Landing().solved)
    there = surface.point(landed.x)
    back = landing.rotate(surface, there, -landing.carry_velocity(point, there, angle), angle, Landing().solved)
    assert bool(landed.solved)
    assert bool(back.solved)
    assert np.allclose(back.x, point.x, atol=1e-6)


def test_a_failed_solve_stops_the_move_and_tells_why():
    """Beyond x0 = 0.2 no path can be solved: long turns are stopped there, and nothing ends there."""

    def status(x):
        return jnp.where(x[0] > 0.2, Status.BLOW_UP, Status.OK)

    surface = surface_of(banana, no_excess, status)
    at = surface.point(jnp.array([0.1, 0.49]))
    keys = jax.random.split(jax.random.key(0), 200)
    moved = jax.vmap(lambda k: moves.move(surface, at, k, jnp.asarray(0.5), jnp.asarray(3)))(keys)
    failed = np.asarray(moved.failure) == Status.BLOW_UP
    assert 20 < failed.sum() < 180
    assert not np.asarray(moved.landed)[failed].any()
    assert float(moved.x[:, 0].max()) <= 0.2
