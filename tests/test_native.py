"""Native code against array code: the same numbers, and a clear word where it cannot serve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import gpnode as gn
from gpnode.inference.samplers.lifted.conditioning import split
from gpnode.inference.starting.ladder import Start, find_start
from gpnode.problem.covariance import Lags
from gpnode.problem.density import Problem
from gpnode.problem.factorisation import factorise, score
from gpnode.solvers import FixedGrid, Native, Status, unsupported
from gpnode.solvers.adaptive import _Diffrax
from gpnode.studies import glycolysis, human_motion, predator_prey

AMC = Path(__file__).resolve().parents[2] / "shared" / "data" / "human_motion" / "07_02.amc"
TIMES = jnp.linspace(0.0, 1.0, 41)
X0 = jnp.array([0.7, 0.4])
PARAMS = {"a": jnp.array([0.3, -0.8, 1.2]), "b": jnp.asarray(0.6)}

FIELDS = {
    "powers": lambda t, x, p: jnp.stack([x[0] ** 2 * p["b"] - x[1] ** -1 + 3.0, x[0] ** 0.5 * p["a"][0]]),
    "transcendental": lambda t, x, p: jnp.stack([jnp.exp(-x[0]) * jnp.sin(x[1] + t), jnp.log1p(x[0] ** 2) - x[1]]),
    "saturation": lambda t, x, p: jnp.stack([jax.nn.sigmoid(x[0]) - jnp.tanh(p["b"] * x[1]), x[0] / (1.0 + x[1] ** 2)]),
    "matrix": lambda t, x, p: jnp.outer(p["a"][:2], x) @ x - p["b"] * x,
    "einsum": lambda t, x, p: jnp.einsum("i,j,j->i", x, x, p["a"][1:]),
    "branches": lambda t, x, p: jnp.where(x > 0.5, -p["b"] * x, p["a"][:2] * x**2),
    "extremes": lambda t, x, p: jnp.stack([jnp.maximum(x[0], x[1]) - x[0], jnp.clip(x[1], 0.1, 0.5) * p["b"]]),
    "reductions": lambda t, x, p: jnp.stack([jnp.sum(x * p["a"][1:]), jnp.prod(x) - jnp.mean(x)]),
    "indexing": lambda t, x, p: jnp.zeros(2).at[1].set(x[0] * p["a"][2]).at[0].set(-x[1]),
    "rearranged": lambda t, x, p: jnp.concatenate([x[::-1], p["a"]])[:2] * jnp.roll(x, 1),
    "inner jit": lambda t, x, p: jax.jit(lambda y: y * p["b"] - y**3)(x),
    "special": lambda t, x, p: jnp.stack([jax.scipy.special.erf(x[0]) - x[1], jnp.arctan2(x[0], x[1])]),
}


@pytest.fixture(scope="module")
def all_fields():
    """Paths and Jacobians of all the fields side by side, by native and by array code: compiling once is enough."""

    def map_grouped(t, x, p):
        return jnp.concatenate([field(t, x[2 * i : 2 * i + 2], p) for i, field in enumerate(FIELDS.values())])

    starts = jnp.tile(X0, len(FIELDS))
    every = tuple(range(starts.size))
    return [
        s.solve_with_jacobian(map_grouped, PARAMS, starts, TIMES, every) for s in (Native(tolerance=1.0), FixedGrid())
    ]


@pytest.mark.parametrize("name", FIELDS)
def test_every_kind_of_operation(all_fields, name):
    (native, by_native), (array, by_array) = all_fields
    at = slice(2 * list(FIELDS).index(name), 2 * list(FIELDS).index(name) + 2)
    assert int(native.status) == int(array.status) == Status.OK
    assert np.abs(array.xs[-1, at] - X0).max() > 1e-3
    assert np.allclose(native.xs[:, at], array.xs[:, at], rtol=1e-12, atol=1e-13)
    assert np.allclose(by_native[:, at], by_array[:, at], rtol=1e-9, atol=1e-11)


def test_sensitivities_and_adjoint_agree_on_a_grid_that_must_be_refined():
    """A field with a fast stretch: intervals are cut, and both sweeps go through the same steps."""

    def field(t, x, p):
        return jnp.stack([x[1], -((1.0 + 30.0 * jnp.exp(-((t - 0.5) ** 2) / 0.002)) ** 2) * p["b"] * x[0]])

    solver, weights = Native(tolerance=1e-8), jnp.cos(jnp.arange(82.0)).reshape(41, 2)
    found, jacobian = solver.solve_with_jacobian(field, PARAMS, X0, TIMES, (1,))
    _, pull_back = solver.solve_with_pull_back(field, PARAMS, X0, TIMES, (1,))
    assert int(found.num_steps) > 60
    assert np.allclose(pull_back(weights), jnp.einsum("tdp,td->p", jacobian, weights), rtol=1e-11, atol=1e-12)


def pendulum(t, x, p):
    return jnp.stack([x[1], p["b"] * jnp.sin(6.0 * x[0]) - 0.1 * x[1] + p["a"][0] * t])


@pytest.mark.parametrize("solver", [Native(tolerance=1.0), Native(tolerance=1e-9), FixedGrid()])
def test_a_corrected_guess_leads_to_the_path(solver):
    """At the path nothing is corrected; near it, errors of the guess come back squared; derivatives are the path's."""
    path, jacobian = solver.solve_with_jacobian(pendulum, PARAMS, X0, TIMES, (1,))
    wrong = path.xs + 1e-2 * jnp.cos(jnp.arange(82.0)).reshape(41, 2)
    errors = []
    for _ in range(4):
        wrong, by = solver.correct_guess(pendulum, PARAMS, X0, TIMES, (1,), wrong)
        assert int(wrong.status) == Status.OK
        wrong = wrong.xs
        errors.append(float(jnp.abs(wrong - path.xs).max()))
    assert errors[0] > 1e-6
    assert errors[1] < 1e2 * errors[0] ** 2
    assert errors[3] < 1e-12
    assert np.allclose(by, jacobian, rtol=1e-9, atol=1e-10)


def test_correcting_in_native_and_in_array_code_agrees():
    guess = jnp.stack([0.7 + 0.3 * jnp.sin(TIMES), 0.4 - TIMES], axis=1)
    moved = X0 + jnp.array([0.1, -0.2])
    native, array = (
        s.correct_guess(pendulum, PARAMS, moved, TIMES, (0, 1), guess) for s in (Native(tolerance=1.0), FixedGrid())
    )
    assert np.abs(native[0].xs - guess).max() > 0.1
    for one, other in zip(jax.tree.leaves(native), jax.tree.leaves(array), strict=True):
        assert np.allclose(one, other, rtol=1e-10, atol=1e-11)


def bent(t, x, p):
    """Neither linear in the states nor in the parameters, nor the same at all times."""
    first = x[1] * p["a"][1] + p["a"][2] * x[0] * x[1]
    return jnp.stack([first, p["b"] ** 2 * jnp.sin(6.0 * x[0]) - jnp.tanh(p["b"] * x[1]) + p["a"][0] * t])


def test_steering_is_the_gradient_of_weighted_derivatives():
    """Of which differences of exact derivatives are the measure. Only some times have weights."""
    times, free = jnp.linspace(0.0, 1.0, 161), (1,)
    solver = Native(tolerance=1.0)
    weights = jnp.where(jnp.arange(161) % 8 == 3, 1.0, 0.0)[:, None, None] * jnp.cos(jnp.arange(161.0 * 10))
    weights = weights.reshape(161, -1)[:, :10].reshape(161, 2, 5)
    flat, unravel = ravel_pytree(PARAMS)

    def solve(theta):
        return solver.solve_with_jacobian(bent, unravel(theta[:-1]), X0.at[1].set(theta[-1]), times, free)

    theta = jnp.concatenate([flat, X0[1:]])
    path, jacobian = solve(theta)
    found = solver.jacobian_gradient(bent, PARAMS, times, path.xs, jacobian, weights, free)
    steps = 1e-5 * jnp.eye(theta.size)
    wanted = [jnp.sum(weights * (solve(theta + s)[1] - solve(theta - s)[1])) / 2e-5 for s in steps]
    assert np.abs(np.asarray(wanted)).min() > 1e-3
    assert np.allclose(found, wanted, rtol=1e-6)


def test_a_problem_without_second_derivatives_does_not_steer():
    field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.Normal(0.0, 1.0)})
    data = gn.Observations({"x": (np.arange(6.0), np.linspace(0.2, 0.5, 6))})
    problem = gn.bind(gn.Model(field, initial={"x": 0.2}, solver=FixedGrid()), data)
    values = problem.constrain(jnp.zeros(problem.size))
    paths, jacobian = problem.solve_with_jacobian(values)
    assert np.array_equal(problem.steer(values, paths.xs, jacobian, jacobian), np.zeros((1, 1)))


def test_a_guess_that_cannot_be_corrected_says_so():
    """The field grows without bound from where the guess is: status tells, numbers stay finite."""
    guess = jnp.full((41, 2), 1e9)
    for solver in (Native(tolerance=1.0), FixedGrid()):
        found, by = solver.correct_guess(lambda t, x, p: x**3 * p["b"], PARAMS, X0, TIMES, (0, 1), guess)
        assert int(found.status) != Status.OK
        assert np.isfinite(found.xs).all()
        assert (np.asarray(by) == 0).all()


def test_what_cannot_be_compiled_falls_back_and_says_so():
    def searching(t, x, p):
        return {"x": p.rate * jnp.interp(x.x, jnp.linspace(0.0, 1.0, 5), jnp.arange(5.0))}

    model = gn.Model(gn.KnownForm(["x"], searching, {"rate": gn.Normal(0.0, 1.0)}), initial={"x": 0.2})
    data = gn.Observations({"x": (np.arange(6.0), np.linspace(0.2, 0.5, 6))})
    with pytest.warns(UserWarning, match="cannot be compiled to native code: .*array code instead"):
        problem = gn.bind(model, data)
    assert isinstance(problem.solver, FixedGrid)


def test_a_system_too_large_for_scalar_code_is_refused():
    reason = unsupported(lambda t, x, p: p["m"] @ jnp.tanh(x), {"m": jnp.zeros((120, 120))}, 120)
    assert reason is not None
    assert "Jacobian" in reason


@pytest.mark.slow
def test_compiled_code_is_found_again_without_a_compiler(tmp_path):
    """A second process uses the cache of the first, of integrators, too; neither needs a C compiler."""
    program = (
        "import jax.numpy as jnp, gpnode as gn\n"
        "params, times = {'k': jnp.ones(())}, jnp.linspace(0.0, 1.0, 9)\n"
        "found = gn.Native().solve(lambda t, x, p: -p['k'] * x, params, jnp.ones(1), times)\n"
        "print(float(found.xs[-1, 0]))\n"
    )
    environment = {**os.environ, "GPNODE_CACHE": str(tmp_path), "PATH": "", "NUMBA_DEBUG_CACHE": "1"}
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        said = done.stdout.splitlines()
        runs.append((float(said[-1]), sorted(p.name for p in (tmp_path / "gpnode").rglob("*.nbc"))))
    assert runs[0] == runs[1]
    assert not [line for line in said if "data saved" in line]
    assert runs[0][0] == pytest.approx(np.exp(-1.0), rel=1e-6)
    assert len(runs[0][1]) == 7  # one file for each function of the field


@pytest.mark.parametrize("n", [1, 7, 60])
def test_factors_of_a_covariance(n):
    root = np.random.default_rng(n).normal(size=(3, n, n))
    covs = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(n)
    found = jax.vmap(factorise)(jnp.asarray(covs))
    for i, cov in enumerate(covs):
        assert np.allclose(found.inverse[i] @ cov, np.eye(n), atol=1e-8)
        assert np.allclose(found.whitener[i] @ cov @ found.whitener[i].T, np.eye(n), atol=1e-8)
        assert np.allclose(found.whitener[i], np.tril(found.whitener[i]))
        assert float(found.log_det[i]) == pytest.approx(np.linalg.slogdet(cov)[1])


def test_a_covariance_that_is_none_gives_nan():
    assert np.isnan(factorise(jnp.array([[1.0, 2.0], [2.0, 1.0]])).log_det)


@pytest.mark.parametrize("times", [np.arange(8.0) / 8.0, np.geomspace(0.01, 1.0, 7)], ids=["regular", "irregular"])
def test_score_in_native_and_in_array_code_agrees(times, monkeypatch):
    lags = Lags.between(times)
    assert lags.values.size == (8 if times.size == 8 else 22)
    rng = np.random.default_rng(0)
    arguments = (
        jnp.asarray(rng.normal(size=times.size)),
        jnp.exp(-4.0 * lags.values),
        lags.positions,
        jnp.asarray(0.1),
    )
    native = score(*arguments)
    monkeypatch.setattr("gpnode.problem.factorisation._LARGEST_NATIVE", 0)
    array = score(*arguments)
    cov = np.exp(-4.0 * np.abs(times[:, None] - times)) + 0.1 * np.eye(times.size)
    assert float(array.value) == pytest.approx(stats.multivariate_normal(cov=cov).logpdf(arguments[0]))
    for a, b in zip(native, array, strict=True):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)


# -- whole posteriors --------------------------------------------------------------------------


@eqx.filter_jit
def _values(problem: Problem, points):
    return jax.lax.map(problem.value_and_grad, points)


class Eighth(_Diffrax):
    """Eighth order, for tolerances near rounding: a tenth of the time that a fifth-order method takes."""

    rtol: float = eqx.field(static=True, default=1e-12)
    atol: float = eqx.field(static=True, default=1e-12)
    max_steps: int = eqx.field(static=True, default=20_000)

    def _method(self):
        return diffrax.Dopri8()


def scattered(start: Start, widths: np.ndarray) -> np.ndarray:
    """Points about the best mode, each with the width of its scatter in standard deviations.

    Covariances stay within three: farther out they are so nearly singular that a change of a point's last bit changes
    the gradient by more than is allowed here, with one and the same solver.
    """
    mode, rng, wide = start.modes[0], np.random.default_rng(0), widths[:, None]
    points = mode.centre + wide * rng.normal(size=(wide.size, mode.centre.size)) @ mode.scale_tril.T
    _, rest = split(start.problem)
    own = np.sqrt(np.sum(mode.scale_tril[rest] ** 2, axis=1))
    points[:, rest] = mode.centre[rest] + np.minimum(wide, 3.0) * rng.normal(size=(wide.size, rest.size)) * own
    return points


def both_ways(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Log densities and gradients by native code, and by diffrax."""
    native, usual, patient = (
        problem.with_solver(solver)
        for solver in (Native(tolerance=1e-12, max_steps=400_000), Eighth(), Eighth(max_steps=200_000))
    )
    (a, by_a, _), (b, by_b, status) = ([np.array(v) for v in _values(p, jnp.asarray(points))] for p in (native, usual))
    for i in np.nonzero((status == Status.TOO_MANY_STEPS) & np.isfinite(a))[0]:
        b[i], by_b[i], _ = (np.asarray(v)[0] for v in _values(patient, jnp.asarray(points[i : i + 1])))
    return a, by_a, b, by_b


def human_motion_case(case):
    if not AMC.exists():
        pytest.skip("the motion capture file 07_02.amc is not here")
    recording = human_motion.record(AMC)
    return human_motion.model(recording, case), recording.observations()


CASES = {
    "predator-prey": lambda: (predator_prey.dictionary(), predator_prey.simulate(0)),
    "glycolysis": lambda: (glycolysis.model(), glycolysis.simulate(0)),
    "human motion A": lambda: human_motion_case("A"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_native_and_diffrax_agree_at_a_thousand_points(case):
    start = find_start(gn.bind(*CASES[case]()), jax.random.key(0), lambda what: None)
    a, by_a, b, by_b = both_ways(start.problem, scattered(start, np.geomspace(0.1, 3.0, 1000)))
    sound = np.isfinite(a)
    assert np.array_equal(sound, np.isfinite(b))
    assert (np.abs(a[sound] - b[sound]) / np.abs(b[sound])).max() < 1e-6
    assert (np.abs(by_a - by_b).max(axis=1)[sound] / np.abs(by_b).max(axis=1)[sound]).max() < 1e-6
    assert not np.any(by_a[~sound])
    assert not np.any(by_b[~sound])
    # Farther out some paths are stiff: explicit methods still find them, but not always their derivatives, and
    # which method gives up first is a matter of limits.
    a, _, b, _ = both_ways(start.problem, scattered(start, np.geomspace(3.0, 30.0, 300)))
    far = np.isfinite(a) & np.isfinite(b)
    assert np.mean(np.isfinite(a) != np.isfinite(b)) <= 0.01
    assert (np.abs(a[far] - b[far]) / np.abs(b[far])).max() < 1e-6
    assert (not sound.all() and not far.all()) == (case != "glycolysis")  # it has no path that runs away
