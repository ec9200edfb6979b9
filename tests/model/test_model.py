"""Models that make sense bind; others say what is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.model import priors
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import log_density, value_and_grad
from gpnode.solvers import Status


def decay(t, x, p):
    return {"x": -p.rate * x.x}


RATE = {"rate": gn.LogNormal(0.0, 1.0)}
DATA = gn.Observations({"x": ([0.0, 1.0, 2.0, 3.0, 4.0], [8.0, 5.0, 3.0, 2.0, 1.0])})


def known(states=("x",), f=decay, prior=RATE):
    return gn.KnownForm(states, f, prior)


WRONG = {
    "unknown variable": (
        lambda: gn.Model(known(["z"], lambda t, x, p: {"z": -p.rate * x.z})),
        "'x' that is not a state",
    ),
    "latent without start": (
        lambda: gn.Model(known(["x", "z"], lambda t, x, p: {"x": x.z, "z": -p.rate * x.x})),
        "'z' has no data and no initial value",
    ),
    "unknown parameter": (lambda: gn.Model(known(f=lambda t, x, p: {"x": -p.speed * x.x})), "'speed'"),
    "unknown state": (lambda: gn.Model(known(f=lambda t, x, p: {"x": -p.rate * x.y})), "'y'"),
    "missing slope": (lambda: gn.Model(known(f=lambda t, x, p: {})), "must return slopes for x"),
    "vector slope": (lambda: gn.Model(known(f=lambda t, x, p: {"x": jnp.ones(2) * x.x})), "must be one number"),
    "prior of a vector": (lambda: gn.Model(known(prior={"rate": gn.Normal(jnp.zeros(2), 1.0)})), "one number"),
    "prior of a string": (lambda: gn.Model(known(prior={"rate": "wide"})), "numpyro distribution or a number"),
    "initial of a stranger": (lambda: gn.Model(known(), initial={"y": 1.0}), "'y', which is not a state"),
    "initial of a string": (lambda: gn.Model(known(), initial={"x": "low"}), "must be a number"),
    "initial misses a experiment": (
        lambda: gn.Model(known(), initial={"x": {"other": 1.0}}),
        "names experiment 'other'",
    ),
    "kernel of a stranger": (lambda: gn.Model(known(), kernel={"y": None}), "'y', which is not observed"),
    "not dynamics": (lambda: gn.Model(decay), "dynamics must be"),
    "log of zero": (lambda: gn.Model(known(), transform=gn.Log()), "no logarithm"),
    "unknown term": (lambda: gn.Dictionary(["x"], gn.polynomial(2), forbidden=[("x", "x^9")]), "'x^9'"),
    "unknown equation": (lambda: gn.Dictionary(["x"], gn.polynomial(2), forbidden=[("y", "x")]), "'y'"),
    "twice the same term": (lambda: gn.Dictionary(["x"], gn.polynomial(2) + gn.polynomial(1)), "two terms named"),
    "library per equation": (lambda: gn.Dictionary(["x"], {"y": gn.polynomial(2)}), "one library for each"),
    "nothing free": (
        lambda: gn.Model(gn.Dictionary(["x"], gn.polynomial(1, constant=False), fixed={("x", "x"): -1.0})),
        "no free coefficient",
    ),
    "sum of one": (lambda: gn.Sum(only=known()), "at least two"),
    "negative variance": (lambda: kernels.Matern32(variance=-1.0), "must be positive"),
    "real length scale": (lambda: kernels.Matern32(length_scale=gn.Normal(0.0, 1.0)), "must be positive"),
    "class for a kernel": (lambda: gn.Model(known(), kernel=kernels.Matern32), "kernel must be an object"),
    "class for a solver": (lambda: gn.Model(known(), solver=gn.Stiff), "solver must be an object"),
    "number for noise": (lambda: gn.Model(known(), noise=0.1), "noise must be an object"),
    "method for a prior": (
        lambda: gn.Dictionary(["x"], gn.polynomial(1), prior=gn.Laplace()),
        "gpnode.model.priors.sparsity",
    ),
    "list of slopes": (lambda: gn.Model(known(f=lambda t, x, p: [x.x])), "must return {state: slope}"),
    "if in the field": (lambda: gn.Model(known(f=lambda t, x, p: {"x": 1.0 if x.x > 0 else 0.0})), "jnp.where"),
    "vector start": (lambda: gn.Model(known(), initial={"x": gn.Normal(jnp.zeros(2), 1.0)}), "one number"),
    "zero scale": (lambda: gn.Model(known(), scales={"x": 0.0}), "must be positive"),
    "slash in a name": (lambda: gn.Model(known(prior={"rate": gn.LogNormal(0.0, 1.0), "a/b": RATE["rate"]})), "'a/b'"),
    "reserved name": (lambda: gn.Model(known(prior={**RATE, "chain": RATE["rate"]})), "'chain'"),
    "one name, two terms": (
        lambda: gn.Dictionary(["x", "y"], {"x": gn.term("g", lambda x: x.x), "y": gn.term("g", lambda x: x.y)}),
        "different terms named 'g'",
    ),
    "fixed and forbidden": (
        lambda: gn.Dictionary(["x"], gn.polynomial(1), fixed={("x", "x"): 1.0}, forbidden=[("x", "x")]),
        "both fixed and forbidden",
    ),
    "mask of the wrong shape": (lambda: gn.Dictionary(["x"], gn.polynomial(1), mask=[[True]]), "mask must be"),
    "too many expected terms": (
        lambda: gn.Model(gn.Dictionary(["x"], gn.polynomial(1), prior=gn.FinnishHorseshoe(9))),
        "expected_terms",
    ),
    "noise twice": (lambda: gn.Noise(var=1.0, std=1.0), "not both"),
    "negative noise": (lambda: gn.Noise(std=-0.1), "must be positive"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_models_say_why(case):
    make, words = WRONG[case]
    data = DATA if case != "log of zero" else gn.Observations({"x": ([0, 1, 2], [1.0, 0.0, 2.0])})
    with pytest.raises((gn.ModelError, gn.DataError)) as error:
        gn.bind(make(), data)
    assert words in str(error.value)


def test_failed_solve_is_minus_infinity_with_finite_gradient():
    model = gn.Model(gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2}, RATE), initial={"x": 8.0})
    problem = gn.bind(model, DATA)
    u = problem.layout.unconstrain(
        {"rate": 50.0, "x.kernel.variance": 1.0, "x.kernel.length_scale": 1.0, "x.noise_var": 1.0}
    )
    value, gradient, status = value_and_grad(problem, u)
    assert value == -np.inf
    assert int(status) == Status.BLOW_UP
    assert np.isfinite(gradient).all()


def test_path_below_zero_on_the_log_scale_is_counted_by_cause():
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate}, RATE), initial={"x": 8.0}, transform=gn.Log(), kernel=None
    )
    problem = gn.bind(model, DATA)
    value, status = log_density(problem, problem.layout.unconstrain({"rate": 50.0, "x.noise_var": 1.0}))
    assert value == -np.inf
    assert int(status) == Status.OUTSIDE_DOMAIN


def test_coefficients_are_reported_in_user_units():
    library = gn.polynomial(2) + gn.fourier(1) + gn.term("uptake", lambda x: x.x / (1.0 + x.x))
    dynamics = gn.Dictionary(["x"], library, fixed={("x", "x^2"): 0.25}, forbidden=[("x", "cos(x)")])
    problem = gn.bind(gn.Model(dynamics), DATA)
    assert [t.name for t in dynamics.terms] == ["1", "x", "x^2", "sin(x)", "cos(x)", "uptake"]
    u = 0.3 * jax.random.normal(jax.random.key(0), (problem.size,))
    coef = np.asarray(problem.report(u)["coef"])[0]
    assert coef[2] == 0.25
    assert coef[4] == 0.0
    x = 3.7  # the vector field at this state, from the reported coefficients alone
    wanted = coef @ [1, x, x**2, np.sin(x), np.cos(x), x / (1 + x)]
    scale, unit = float(problem.scaling.state_scale[0]), float(problem.scaling.time_unit)
    got = problem.dynamics.vector_field(jnp.zeros(()), jnp.array([x / scale]), problem.constrain(u))[0]
    assert float(got) * scale / unit == pytest.approx(wanted, rel=1e-10)


def test_order_of_parameters_survives_compilation():
    """JAX sorts dictionaries; parameters named out of alphabetical order must not be swapped."""
    f = lambda t, x, p: {"x": -p.zeta * x.x + p.alpha}
    model = gn.Model(known(f=f, prior={"zeta": gn.Uniform(0.0, 1.0), "alpha": gn.Uniform(10.0, 20.0)}), kernel=None)
    problem = gn.bind(model, DATA)
    u = jnp.arange(problem.size, dtype=float) / 10
    inside = eqx.filter_jit(lambda p, v: p.constrain(v))(problem, u)
    outside = problem.constrain(u)
    assert {n: float(v) for n, v in inside.items()} == {n: float(v) for n, v in outside.items()}
    assert list(problem.dims()) == ["zeta", "alpha", "x.initial", "x.noise_std"]


def test_integrated_horseshoe_is_the_hierarchical_one():
    """The density with local scales integrated out against draws of the hierarchy itself."""
    block = priors.FinnishHorseshoe(expected_terms=1.0).bind("c", (0, 0, 1), 50)
    keys = jax.random.split(jax.random.key(0), 4000)
    # P(|c| < 0.05 | tau, slab) by integrating the density must match the draws.
    grid = jnp.linspace(-0.05, 0.05, 401)
    fixed = {"c.tau": jnp.array([0.1, 0.1]), "c.slab_var": jnp.asarray(1.0)}
    at = lambda c: block.log_prior({**fixed, "c": jnp.stack([c, 0.0, 0.0])})
    reference = at(0.0)
    ratio = jnp.exp(jax.vmap(at)(grid) - reference)
    wide = jnp.sinh(jnp.linspace(-8.0, 8.0, 8001)) / 50.0  # fine near zero, out to 30
    total = jnp.trapezoid(jnp.exp(jax.vmap(at)(wide) - reference), wide)
    wanted = float(jnp.trapezoid(ratio, grid) / total)
    conditional = jax.vmap(lambda k: _draw_given(block, k, fixed))(keys)
    got = float((jnp.abs(conditional) < 0.05).mean())
    assert got == pytest.approx(wanted, abs=4 * np.sqrt(0.25 / 4000))


def _draw_given(block, key, fixed):
    """First coefficient given tau and slab: local scales from their prior, then a normal."""
    node_key, coef_key = jax.random.split(key)
    lam = jnp.abs(jax.random.cauchy(node_key))
    free = (0.1 * lam) ** 2
    return jnp.sqrt(free / (1 + free) + block.floor**2) * jax.random.normal(coef_key)


def test_polynomial_order_is_the_paper_s():
    names = [t.name for t in gn.polynomial(3, cross=2, constant=False).terms(["x1", "x2"])]
    assert names == ["x1", "x2", "x1*x2", "x1^2", "x2^2", "x1^3", "x2^3"]
    names = [t.name for t in gn.polynomial(2).terms(["a", "b", "c"])]
    assert names == ["1", "a", "b", "c", "a*b", "a*c", "b*c", "a^2", "b^2", "c^2"]
    assert [t.name for t in gn.polynomial(2, cross=0).terms(["a", "b"])] == ["1", "a", "b", "a^2", "b^2"]


def test_grid_keeps_every_measurement():
    data = gn.Observations({"x": ([0.0, 0.01, 2.0, 9.0], [8.0, 7.9, 3.0, 1.0])})
    problem = gn.bind(gn.Model(known(), kernel=None), data)
    for grid in (
        problem,
        problem.with_steps_for(jnp.zeros(problem.size)),
        problem.with_steps_for(jnp.zeros(problem.size), 1e-12),
    ):
        times = grid.scaling.user_time(grid.nodes[0])[grid.measured[0].rows]
        assert np.allclose(times, [0.0, 0.01, 2.0, 9.0], rtol=0, atol=1e-12)
        assert np.all(np.diff(grid.nodes[0]) > 0)


def test_mask_forbids():
    dynamics = gn.Dictionary(["x", "y"], gn.polynomial(1), mask=[[False, True, True], [True, False, True]])
    free, _ = dynamics.masks()
    assert free.tolist() == [[False, True, True], [True, False, True]]


def test_custom_terms_are_scaled_by_their_typical_size():
    term = gn.term("hump", lambda x: x.x * (1 - x.x / 50.0)).terms(["x"])[0]
    assert 8.0 < term.magnitude({"x": 50.1}) < 10.0  # its peak is 12.5; at x = 50.1 it is -0.1


def test_a_large_latent_state_is_no_blow_up():
    """A latent state that starts at zero has no scale to go by; it may still grow to ten million."""
    f = lambda t, x, p: {"x": -p.rate * x.x, "made": 1e7 * p.rate * x.x}
    problem = gn.bind(gn.Model(known(["x", "made"], f), initial={"made": 0.0}, kernel=None), DATA)
    value, status = log_density(problem, jnp.zeros(problem.size))
    assert int(status) == Status.OK
    assert np.isfinite(value)


def test_jumps_do_not_make_the_grid_explode():
    f = lambda t, x, p: {"x": -p.rate * x.x + jnp.where(t < 1.7, 3.0, 0.0)}
    problem = gn.bind(gn.Model(known(f=f), kernel=None), DATA)
    assert problem.with_steps_for(jnp.zeros(problem.size)).nodes.shape[1] < 5000


def test_fingerprints_are_the_same_in_every_process():
    script = (
        "import gpnode as gn\n"
        "from gpnode.problem.binding import fingerprint\n"
        "from gpnode.studies import predator_prey as study\n"
        "print(fingerprint(study.dictionary(), study.simulate(0)))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in (0, 2)
    ]
    assert len({run.stdout for run in runs}) == 1
