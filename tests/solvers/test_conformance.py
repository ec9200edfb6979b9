"""One suite over every solver: accuracy, derivatives, and failures that stay finite."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.solvers import SOLVERS, Adaptive, NativeStiff, Status, Stiff, solve_with_gradient
from support.densities import check, points, rotation_model, rotation_reference, tight
from support.oscillator import TIMES, exact, oscillator

TIGHT = {
    gn.Native: gn.Native(tolerance=1e-10),
    gn.NativeStiff: gn.NativeStiff(rtol=1e-11, atol=1e-11),
    gn.FixedGrid: gn.FixedGrid(),
    gn.Adaptive: gn.Adaptive(rtol=1e-12, atol=1e-12),
    gn.Stiff: gn.Stiff(rtol=1e-11, atol=1e-11, max_steps=20_000),
}


KINDS = [pytest.param(k, marks=[] if k is gn.Native else pytest.mark.slow, id=k.__name__) for k in SOLVERS.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_solver_without_gaussian_process(decay_data, kind):
    problem = tight(rotation_model(kernel=None), decay_data).with_solver(TIGHT[kind])
    zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
    check(problem, rotation_reference(problem, decay_data, zero, {}), points(problem.size, count=2))


def test_many_parameters_use_the_reverse_sweep_and_agree(decay_data):
    problem = tight(rotation_model(kernel=None), decay_data)
    zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
    reverse = dataclasses.replace(problem, forward_limit=0)
    check(reverse, rotation_reference(problem, decay_data, zero, {}), points(problem.size, count=1))


def explosion(t, x, p):
    return p["w"] * x**2


def broken(t, x, p):
    return jnp.sqrt(p["w"] - 10.0) * x


# Every solver with its forward sweep, and with its reverse sweep if it has one, which takes diffrax long to compile.
SWEEPS = [
    pytest.param(
        kind(),
        limit,
        id=f"{kind.__name__}-{name}",
        marks=[pytest.mark.slow] if (kind, name) == (Adaptive, "reverse") else [],
    )
    for kind in SOLVERS.values()
    for name, limit in (("forward", 100), ("reverse", 0))
    if name == "forward" or kind().reverses
]


@pytest.fixture(params=SOLVERS.values(), ids=lambda s: s.__name__)
def solver(request):
    return request.param()


def test_path_is_accurate(solver):
    found = solver.solve(oscillator, {"w": jnp.asarray(2.0)}, jnp.array([1.0, 0.5]), TIMES)
    assert int(found.status) == Status.OK
    assert np.abs(found.xs - exact(2.0, 1.0, 0.5)).max() < 1e-5
    assert int(found.num_steps) > 0


@pytest.mark.parametrize(("solver", "limit"), SWEEPS)
def test_gradient_is_that_of_the_exact_solution(solver, limit):
    weights = jnp.sin(jnp.arange(TIMES.size * 2.0)).reshape(-1, 2)

    def loss(w, v0):
        path = solve_with_gradient(solver, oscillator, {"w": w}, jnp.stack([1.0, v0]), TIMES, (1,), limit)
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
def test_failures_are_named_and_finite(solver, field, causes, limit):

    def loss(w):
        path = solve_with_gradient(solver, field, {"w": w}, jnp.array([1.0, 2.0]), TIMES, (0, 1), limit)
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


def test_solvers_are_found_by_name_and_an_unknown_name_says_what_there_is():
    assert SOLVERS["native-stiff"] is NativeStiff
    assert SOLVERS.get("none") is None
    assert "none" not in SOLVERS
    with pytest.raises(gn.ModelError, match="no solver is named 'none': there are native, native-stiff, fixed-grid"):
        SOLVERS["none"]
    with pytest.raises(gn.ModelError, match="two kinds of solver"):
        SOLVERS.add(Stiff)
