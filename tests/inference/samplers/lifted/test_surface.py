"""The lifted sampler against densities that can be summed on a grid, and against its own prior."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.inference.running.checkpoint import Checkpoint
from gpnode.inference.samplers.lifted import surface as lifted
from gpnode.inference.samplers.lifted.conditioning import path_given_hyper, whiteners_of
from gpnode.inference.starting.ladder import Start, find_start, solver_errors, with_finer_steps
from gpnode.problem.density import Problem
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


def surface_of(residuals, excess, status=always) -> lifted.Surface:
    """A surface without a path behind it."""

    def evaluate(x, path=None):
        path, by_input, inputs_by_x = jnp.zeros((1, 1, 1)), jnp.zeros((1, 1, 1, 1)), jnp.zeros((1, 1, x.size))
        return lifted.Local(residuals(x), jax.jacfwd(residuals)(x), path, by_input, inputs_by_x, status(x))

    def area(x, local, weights):
        return jax.grad(lambda x: jnp.sum(weights * evaluate(x).slope))(x)

    return lifted.Surface(lambda x: (residuals(x), status(x)), evaluate, jax.value_and_grad(excess), area)


def sample(surface: lifted.Surface, angle: float, rotations: int, count: int = 60_000):
    def step(x, key):
        moved = lifted.move(surface, surface.point(x), key, jnp.asarray(angle), jnp.asarray(rotations))
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


@pytest.mark.parametrize(("residuals", "excess"), [(banana, no_excess), (wave, quartic)])
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
def test_steep_surfaces_are_whitened_exactly(steepest):
    """Paths that run apart make slopes whose metric is singular to machine precision."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 8)))[0] for n in (30, 8))
    sizes = np.geomspace(0.1, steepest, 8)
    whitener, log_det = lifted._whiten(jnp.asarray(left * sizes @ right.T))
    # In its own axes, where products do not lose digits.
    rotated = np.asarray(whitener) @ right
    assert np.abs(rotated * (1.0 + sizes**2) @ rotated.T - np.eye(8)).max() < 1e-15 * steepest + 1e-9
    assert float(log_det) == pytest.approx(np.log1p(sizes**2).sum(), rel=1e-9)


def test_a_step_can_be_retraced():
    surface = surface_of(banana, no_excess)
    point = surface.point(jnp.array([0.3, 0.4]))
    velocity = lifted.draw_velocity(point, jax.random.key(4))
    angle = jnp.asarray(0.3)
    landing = lifted.rotate(surface, point, velocity, angle)
    there = surface.point(landing.x)
    back = lifted.rotate(surface, there, -lifted.carry_velocity(point, there, angle), angle)
    assert bool(landing.solved)
    assert bool(back.solved)
    assert np.allclose(back.x, point.x, atol=1e-6)


def test_a_failed_solve_stops_the_move_and_tells_why():
    """Beyond x0 = 0.2 no path can be solved: long turns are stopped there, and nothing ends there."""

    def status(x):
        return jnp.where(x[0] > 0.2, Status.BLOW_UP, Status.OK)

    surface = surface_of(banana, no_excess, status)
    at = surface.point(jnp.array([0.1, 0.49]))
    keys = jax.random.split(jax.random.key(0), 200)
    moved = jax.vmap(lambda k: lifted.move(surface, at, k, jnp.asarray(0.5), jnp.asarray(3)))(keys)
    failed = np.asarray(moved.failure) == Status.BLOW_UP
    assert 20 < failed.sum() < 180
    assert not np.asarray(moved.landed)[failed].any()
    assert float(moved.x[:, 0].max()) <= 0.2


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


def test_moves_are_pushed_along_the_gradient_of_excess_and_area():
    problem = gn.bind(*saturating()).with_steps(np.full((1, 12), 4))
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


# -- paths that run apart ----------------------------------------------------------------------


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


@pytest.fixture(scope="module")
def running_apart() -> Start:
    return find_start(gn.bind(*on_the_edge()), jax.random.key(0), lambda stage: None)


@pytest.mark.parametrize(
    ("with_path", "angle", "least", "most"),
    [(True, 0.4, 0.95, 1.0), (True, 0.05, 0.95, 1.0), (False, 0.4, 0.0, 0.4)],
)
def test_moves_land_where_paths_run_apart(running_apart, with_path, angle, least, most):
    """With the path's states among the unknowns. Solving from the start alone does not get there."""
    problem, u = running_apart.problem, jnp.asarray(running_apart.modes[0].centre)

    @jax.jit
    def move(key):
        surface, x, _ = path_given_hyper(problem, u, whiteners_of(problem, u), key)
        if not with_path:
            surface = surface._replace(evaluate=lambda x, path=None, own=surface.evaluate: own(x))
        at = surface.point(x)
        return lifted.move(surface, at, key, jnp.asarray(angle), jnp.asarray(1)), jnp.linalg.norm(at.slope)

    moved, magnified = zip(*(move(jax.random.key(i)) for i in range(60)), strict=True)
    assert min(magnified) > 1e7
    assert least <= np.mean([bool(m.landed) for m in moved]) <= most


def coarse(problem: Problem) -> Problem:
    """One step between measurements, cut only where it errs by more than usual."""
    return problem.with_steps(np.ones(np.diff(problem.measured_times).shape))


def test_steps_are_made_finer_where_chains_went(running_apart):
    start, mode = running_apart, running_apart.modes[0]
    z = 0.5 * np.random.default_rng(0).normal(size=(2, 40, mode.centre.size))
    draws = mode.centre + z @ mode.scale_tril.T
    assert with_finer_steps(start, draws, 2) is None
    finer, points = with_finer_steps(replace(start, problem=coarse(start.problem)), draws, 2)
    assert finer.problem.nodes.shape[1] > coarse(start.problem).nodes.shape[1]
    assert np.quantile(np.abs(solver_errors(finer.problem, draws.reshape(-1, 4))), 0.9) < 0.1
    assert np.abs(mode.scale_tril @ points[1] + mode.centre - draws[1, -1]).max() < 1e-3


@pytest.mark.slow
def test_a_run_on_coarse_steps_begins_again_on_finer_ones(tmp_path, monkeypatch):
    """And where it ends does not depend on whether it was interrupted after that."""
    monkeypatch.setattr(
        "gpnode.inference.starting.ladder._with_accurate_steps", lambda problem, points: coarse(problem)
    )
    method = gn.Lifted(draws=250, warmup=60, chains=2)
    whole = gn.fit(*on_the_edge(), method=method, progress=False)
    assert whole.record["start"]["steps"] > coarse(gn.bind(*on_the_edge())).nodes.shape[1]
    assert whole.record["accuracy"]["largest_error"] < 0.1
    keep, kept = Checkpoint.keep, []

    def stop_after_a_while(self, chain):
        keep(self, chain)
        kept.append(chain.done)
        if (len(kept) > 4 and chain.done < kept[-2]) or len(kept) > 14:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "keep", stop_after_a_while)
    with pytest.raises(KeyboardInterrupt):
        gn.fit(*on_the_edge(), method=method, progress=False, checkpoint=tmp_path)
    monkeypatch.setattr(Checkpoint, "keep", keep)
    resumed = gn.fit(*on_the_edge(), method=method, progress=False, checkpoint=tmp_path)
    assert np.array_equal(resumed.unconstrained, whole.unconstrained)


# -- whole posteriors --------------------------------------------------------------------------

TIMES = np.linspace(0.0, 4.0, 12)


def small_dictionary() -> gn.Model:
    """Three terms, one unknown start; scales are fixed, so that the prior does not look at the data."""
    prior = gn.FinnishHorseshoe(expected_terms=1.0, slab_scale=0.5, slab_dof=4.0)
    return gn.Model(
        gn.Dictionary(["x"], gn.polynomial(2), prior=prior),
        initial={"x": gn.Normal(1.0, 0.2)},
        kernel=gn.kernels.SquaredExponential(variance=gn.LogNormal(-4.0, 0.5), length_scale=gn.LogNormal(-1.0, 0.3)),
        noise=gn.Noise(std=gn.LogNormal(-3.0, 0.3)),
        scales={"x": 2.0},
        time_unit=1.0,
    )


def simulate(model: gn.Model, key):
    """A prior draw whose path can be solved, as unconstrained vector, and data made from it."""
    problem = gn.bind(model, gn.Observations({"x": (TIMES, 1.0 + TIMES)}, start=0.0))
    for attempt in range(1000):
        path_key, hyper_key, noise_key = jax.random.split(jax.random.fold_in(key, attempt), 3)
        truth = problem.draw_path_prior(path_key, problem.hyper_block.draw(hyper_key))
        values = problem.constrain(truth)
        paths = problem.solve(values)
        if int(paths.status.max()) == 0 and float(jnp.abs(paths.xs).max()) < 1e3:
            break
    block, observable = problem.measured[0], problem.observables[0]
    root = jnp.linalg.cholesky(observable.noisy_cov(values, block.gp_times))
    y = paths.xs[0, block.rows, 0] + root @ jax.random.normal(noise_key, (TIMES.size,))
    return problem, truth, gn.Observations({"x": (TIMES, np.asarray(2.0 * y))}, start=0.0)


@pytest.mark.slow
def test_agrees_with_a_long_run_of_nuts():
    model = small_dictionary()
    _, _, data = simulate(model, jax.random.key(8))
    reference = gn.fit(model, data, method=gn.NUTS(draws=5000, target_accept=0.98), seed=1, progress=False)
    lifted_fit = gn.fit(model, data, method=gn.Lifted(draws=5000), seed=2, progress=False)
    assert float(reference.stats["diverging"].mean()) < 0.002
    assert reference.diagnose().converged
    assert lifted_fit.diagnose().converged
    for name, values in dict(reference.scalars()).items():
        other = dict(lifted_fit.scalars())[name]
        for functional in (np.mean, np.std, lambda v: np.quantile(v, 0.05), lambda v: np.quantile(v, 0.95)):
            parts = [np.array([functional(p) for c in v for p in np.split(np.asarray(c), 5)]) for v in (values, other)]
            error = np.sqrt(sum(p.var(ddof=1) / p.size for p in parts))
            assert abs(parts[0].mean() - parts[1].mean()) < 5.0 * error, name


@pytest.mark.slow
def test_ranks_of_prior_draws_are_uniform():
    """Simulation-based calibration: among draws of the posterior, the truth may rank anywhere."""
    model, ranks = small_dictionary(), []
    for i in range(80):
        problem, truth, data = simulate(model, jax.random.key(i))
        posterior = gn.fit(model, data, method=gn.Lifted(draws=600, warmup=300, chains=2), seed=i, progress=False)
        draws = posterior.unconstrained.reshape(-1, problem.size)[::20]
        ranks.append((draws < np.asarray(truth)).mean(axis=0))
    bins = np.stack([np.histogram(r, bins=8, range=(0.0, 1.0))[0] for r in np.array(ranks).T])
    p_values = stats.chisquare(bins, axis=1).pvalue
    assert p_values.min() > 0.01 / len(p_values), bins
