"""One suite over every solver: accuracy, derivatives, and failures that stay finite."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.solvers import ALL_SOLVERS, SOLVERS, FixedGrid, NativeStiff, Status, Stiff, refine, solve_with_gradient
from gpnode.solvers.native import implicit

TIMES = jnp.linspace(0.0, 3.0, 61)


def oscillator(t, x, p):
    return jnp.stack([x[1], -(p["w"] ** 2) * x[0]])


def exact(w, x0, v0, t=TIMES):
    return jnp.stack([x0 * jnp.cos(w * t) + v0 / w * jnp.sin(w * t), -x0 * w * jnp.sin(w * t) + v0 * jnp.cos(w * t)], 1)


def explosion(t, x, p):
    return p["w"] * x**2


def broken(t, x, p):
    return jnp.sqrt(p["w"] - 10.0) * x


# Every solver with its forward sweep, and with its reverse sweep if it has one.
SWEEPS = [
    pytest.param(kind(), limit, id=f"{kind.__name__}-{name}")
    for kind in ALL_SOLVERS
    for name, limit in (("forward", 100), ("reverse", 0))
    if name == "forward" or kind().reverses
]


@pytest.fixture(params=ALL_SOLVERS, ids=lambda s: s.__name__)
def solver(request):
    return request.param()


def test_path_is_accurate(solver):
    found = solver.solve(oscillator, {"w": jnp.asarray(2.0)}, jnp.array([1.0, 0.5]), TIMES)
    assert int(found.status) == Status.OK
    assert np.abs(found.xs - exact(2.0, 1.0, 0.5)).max() < 1e-5
    assert int(found.num_steps) > 0


@pytest.mark.parametrize(("solver", "limit"), SWEEPS)
def test_gradient_is_that_of_the_exact_solution(solver, limit, monkeypatch):
    monkeypatch.setattr("gpnode.solvers.base._FORWARD_LIMIT", limit)
    weights = jnp.sin(jnp.arange(TIMES.size * 2.0)).reshape(-1, 2)

    def loss(w, v0):
        path = solve_with_gradient(solver, oscillator, {"w": w}, jnp.stack([1.0, v0]), TIMES, (1,))
        return jnp.sum(weights * path.xs)

    got = jax.grad(loss, (0, 1))(jnp.asarray(2.0), jnp.asarray(0.5))
    wanted = jax.grad(lambda w, v0: jnp.sum(weights * exact(w, 1.0, v0)), (0, 1))(2.0, 0.5)
    assert np.allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("solver", "limit"), SWEEPS)
@pytest.mark.parametrize(
    ("field", "causes"),
    [
        (explosion, {Status.BLOW_UP}),
        (broken, {Status.NOT_FINITE}),
    ],
    ids=["explosion", "nan"],
)
def test_failures_are_named_and_finite(solver, field, causes, limit, monkeypatch):
    monkeypatch.setattr("gpnode.solvers.base._FORWARD_LIMIT", limit)

    def loss(w):
        path = solve_with_gradient(solver, field, {"w": w}, jnp.array([1.0, 2.0]), TIMES, (0, 1))
        return jnp.sum(path.xs), path

    (value, path), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(jnp.asarray(5.0))
    assert int(path.status) in causes
    assert np.isfinite(value)
    assert np.isfinite(path.xs).all()
    assert float(gradient) == 0.0


def test_repeated_last_times_stand_still(solver):
    ts = jnp.concatenate([TIMES, jnp.full(5, TIMES[-1])])
    found = solver.solve(oscillator, {"w": jnp.asarray(2.0)}, jnp.array([1.0, 0.5]), ts)
    assert np.abs(found.xs[-1] - exact(2.0, 1.0, 0.5)[-1]).max() < 1e-5
    assert int(found.status) == Status.OK


def test_fixed_grid_is_of_fifth_order():
    errors = []
    for n in (20, 40):
        ts = jnp.linspace(0.0, 3.0, n + 1)
        found = FixedGrid().solve(oscillator, {"w": jnp.asarray(2.0)}, jnp.array([1.0, 0.5]), ts)
        errors.append(np.abs(found.xs[-1] - exact(2.0, 1.0, 0.5, ts)[-1]).max())
    assert 25 < errors[0] / errors[1] < 80


def test_refine_asks_for_more_steps_where_errors_are_large():
    counts = refine(np.array([1, 2, 4]), np.array([3.2e-5, 1e-6, 1e-12]), 1e-6)
    assert counts[0] == 3  # 1.25 * 32^(1/5), rounded up
    assert counts[1] == 3
    assert counts[2] < 4
    assert refine(np.array([1]), np.array([np.nan]), 1e-6)[0] > 10


# -- stiff systems -----------------------------------------------------------------------------


def robertson(t, x, p):
    """Three reactions, ten orders of magnitude apart in speed."""
    slow, fast, faster = 0.04 * x[0], p["fast"] * x[1] * x[2], p["faster"] * x[1] ** 2
    return jnp.stack([fast - slow, slow - fast - faster, faster])


def test_implicit_tableau_is_of_fourth_order_and_its_embedded_one_of_third():
    a, b, c = implicit.COUPLING, implicit.COUPLING[-1], implicit.NODES
    conditions = [
        (lambda w: w.sum(), 1.0),
        (lambda w: w @ c, 1 / 2),
        (lambda w: w @ c**2, 1 / 3),
        (lambda w: w @ a @ c, 1 / 6),
        (lambda w: w @ c**3, 1 / 4),
        (lambda w: (w * c) @ a @ c, 1 / 8),
        (lambda w: w @ a @ c**2, 1 / 12),
        (lambda w: w @ a @ a @ c, 1 / 24),
    ]
    assert np.allclose(a.sum(axis=1), c, atol=1e-14)
    assert np.allclose([of(b) for of, _ in conditions], [right for _, right in conditions], atol=1e-14)
    off = np.array([of(b - implicit.ERROR) - right for of, right in conditions])
    assert np.abs(off[:4]).max() < 1e-14 < np.abs(off[4:]).max()


def test_stiff_solvers_agree_with_each_other_and_with_differences():
    ts, x0 = jnp.concatenate([jnp.zeros(1), jnp.geomspace(1e-3, 1e3, 12)]), jnp.array([1.0, 0.0, 0.0])
    params = {"fast": jnp.asarray(1e4), "faster": jnp.asarray(3e7)}
    native, by_native = NativeStiff(rtol=1e-9, atol=1e-12).solve_with_jacobian(robertson, params, x0, ts, (0,))
    general, by_general = Stiff(rtol=1e-9, atol=1e-12).solve_with_jacobian(robertson, params, x0, ts, (0,))
    assert int(native.status) == int(general.status) == Status.OK
    assert int(native.num_steps) < 4000  # an explicit method would need millions
    assert np.allclose(native.xs, general.xs, atol=1e-7)
    assert np.allclose(by_native[0] * 1e4, by_general[0] * 1e4, atol=1e-6)
    assert np.allclose(by_native[1] * 3e7, by_general[1] * 3e7, atol=1e-6)
    assert np.allclose(by_native[2], by_general[2], atol=1e-6)


def test_a_field_without_a_value_on_the_way_is_named_as_such():
    found = NativeStiff().solve(lambda t, x, p: -(2.0 + jnp.sqrt(x)), {"w": jnp.asarray(1.0)}, jnp.array([1.0]), TIMES)
    assert int(found.status) == Status.NOT_FINITE


def test_a_model_with_a_stiff_solver_is_solved_in_native_code():
    t = np.linspace(0.0, 5.0, 12)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * (x.x - jnp.cos(t))}, {"rate": gn.LogNormal(5.0, 1.0)}),
        initial={"x": 1.0},
        kernel=None,
        solver=gn.Stiff(rtol=1e-7, atol=1e-9),
    )
    problem = gn.bind(model, gn.Observations({"x": (t, np.cos(t))}))
    assert problem.solver == NativeStiff(rtol=1e-7, atol=1e-9)
    value, gradient, status = problem.value_and_grad(jnp.array([0.0, -3.0]))
    assert int(status) == Status.OK
    assert np.isfinite(value)
    assert np.abs(gradient).min() > 0.0


def test_solvers_are_found_by_name_and_an_unknown_name_says_what_there_is():
    assert SOLVERS["native-stiff"] is NativeStiff
    assert SOLVERS.get("none") is None
    assert "none" not in SOLVERS
    with pytest.raises(gn.ModelError, match="no solver is named 'none': there are native, native-stiff, fixed-grid"):
        SOLVERS["none"]
    with pytest.raises(gn.ModelError, match="two kinds of solver"):
        SOLVERS.add(Stiff)
