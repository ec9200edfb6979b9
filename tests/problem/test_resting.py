"""Starts from a steady state, against states known in closed form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import norm

import gpnode as gn
from gpnode.problem.evaluation import value_and_grad
from support.references import assert_gradient_is_its_derivative
from support.slopes import assert_slopes_are_derivatives

TIMES = np.linspace(0.0, 4.0, 9)


def gene(t, x, p):
    return {"m": p.leak + p.u - 1.5 * x.m, "q": 2.0 * x.m / (1.0 + x.q) - p.loss * x.q}


def gene_path(leak, loss, before=0.2, after=1.0):
    """From rest under ``before``: m = (leak + u) / 1.5, and q solves a quadratic."""
    m0 = (leak + before) / 1.5
    q0 = (-1.0 + np.sqrt(1.0 + 8.0 * m0 / loss)) / 2.0
    slopes = lambda t, x: [leak + after - 1.5 * x[0], 2.0 * x[0] / (1.0 + x[1]) - loss * x[1]]
    return solve_ivp(slopes, (0.0, 4.0), [m0, q0], t_eval=TIMES, rtol=1e-11, atol=1e-12).y.T


def gene_model(**settings):
    priors = {"leak": gn.LogNormal(-1.0, 0.5), "loss": gn.LogNormal(-0.5, 0.5), "u": gn.Given()}
    settings = {"initial": {"m": 0.0, "q": 0.0}, "scales": {"m": 1.0}, "solver": gn.Native(tolerance=1e-9)} | settings
    form = gn.KnownForm(["m", "q"], gene, priors)
    return gn.Model(form, kernel=None, noise=gn.Noise(std=0.05), at_rest=True, **settings)


def gene_data():
    values = gene_path(0.4, 0.6)[:, 1] * (1 + 0.03 * np.random.default_rng(0).normal(size=TIMES.size))
    done = gn.Experiment(inputs={"u": 1.0}, before={"u": 0.2})
    return gn.Observations({"q": (TIMES, values)}).with_experiments(done)


def test_density_and_gradient_are_those_of_the_closed_form():
    data = gene_data()
    problem = gn.bind(gene_model(), data)
    y, scale = data.values_of("q"), data.values_of("q").max()
    u = problem.layout.unconstrain({"leak": jnp.asarray(0.35), "loss": jnp.asarray(0.7)})
    value, gradient, status = value_and_grad(problem, u)
    assert int(status) == 0
    expected = norm((gene_path(0.35, 0.7)[:, 1]) / scale, 0.05).logpdf(y / scale).sum()
    assert float(value - problem.log_prior(u)) == pytest.approx(expected, rel=1e-7)
    step = 1e-5

    def by_reference(leak, loss):
        return norm((gene_path(leak, loss)[:, 1]) / scale, 0.05).logpdf(y / scale).sum()

    likelihood = gradient - jax.grad(problem.log_prior)(u)
    for i, (ahead, behind) in enumerate((((step, 0.0), (-step, 0.0)), ((0.0, step), (0.0, -step)))):
        upper, lower = (by_reference(0.35 + a, 0.7 + b) for a, b in (ahead, behind))
        expected = (upper - lower) / (2 * step) * float(stretch(problem, u, i))
        assert float(likelihood[i]) == pytest.approx(expected, rel=1e-5)
    assert_slopes_are_derivatives(problem)


def stretch(problem, u, i):
    """How fast a parameter moves with its place in the unconstrained vector."""
    names = [p.name for p in problem.layout.parameters]
    return jax.grad(lambda u: problem.constrain(u)[names[i]])(u)[i]


@pytest.mark.slow
def test_second_derivatives_are_exact():
    """As the lifted sampler takes them: derivatives of the derivatives of what paths depend on."""
    problem = gn.bind(gene_model(), gene_data())
    u = problem.layout.unconstrain({"leak": jnp.asarray(0.35), "loss": jnp.asarray(0.7)})

    def inputs(u):
        return jax.jacfwd(lambda u: problem.path_inputs(problem.constrain(u)))(u)

    _, pull = jax.vjp(inputs, u)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=inputs(u).shape))
    step = 1e-5
    differences = [
        float(jnp.sum(weights * (inputs(u.at[i].add(step)) - inputs(u.at[i].add(-step))))) / (2 * step)
        for i in range(problem.size)
    ]
    assert np.allclose(pull(weights)[0], differences, rtol=1e-6, atol=1e-6)


def exchange(t, x, p):
    return {"a": p.back * x.b - p.forth * x.a, "b": p.forth * x.a - p.back * x.b}


@pytest.mark.parametrize("solver", [gn.Native(tolerance=1e-9), pytest.param(gn.FixedGrid(), marks=pytest.mark.slow)])
def test_sums_that_are_conserved_are_those_of_the_start(solver):
    priors = {"forth": gn.LogNormal(0.0, 0.5), "back": gn.LogNormal(0.0, 0.5)}
    model = gn.Model(
        gn.KnownForm(["a", "b"], exchange, priors),
        initial={"a": gn.LogNormal(1.0, 0.3), "b": 0.0},
        kernel=None,
        noise=gn.Noise(std=0.05),
        at_rest=True,
        solver=solver,
    )
    data = gn.Observations({"a": (TIMES, 1.0 + 0.01 * np.sin(TIMES)), "b": (TIMES, 2.0 + 0.01 * np.cos(TIMES))})
    problem = gn.bind(model, data)
    values = {"forth": 0.8, "back": 0.5, "a.initial": 2.6}
    u = problem.layout.unconstrain({n: jnp.asarray(v) for n, v in values.items()})
    x0, _ = problem.start_and_params(problem.constrain(u))
    assert np.allclose(x0[0] * problem.scaling.state_scale, [2.6 * 0.5 / 1.3, 2.6 * 0.8 / 1.3], rtol=1e-8)
    assert_gradient_is_its_derivative(problem, u)


def test_what_never_rests_has_no_density():
    growth = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x}, {"rate": gn.LogNormal(0.0, 0.1)})
    model = gn.Model(growth, initial={"x": 1.0}, kernel=None, noise=gn.Noise(std=0.1), at_rest=True)
    problem = gn.bind(model, gn.Observations({"x": (TIMES, np.exp(TIMES))}))
    value, gradient, status = value_and_grad(problem, jnp.zeros(problem.size))
    assert float(value) == -np.inf
    assert int(status) != 0
    assert np.all(np.isfinite(gradient))


@pytest.mark.slow
def test_a_fit_from_rest_finds_what_made_the_data():
    posterior = gn.fit(gene_model(), gene_data(), seed=0, progress=False)
    assert posterior.diagnose().recommended, str(posterior.diagnose())
    table = posterior.summary()
    for name, truth in (("leak", 0.4), ("loss", 0.6)):
        assert table.loc[name, "2.5%"] < truth < table.loc[name, "97.5%"]


def test_before_needs_an_input():
    done = gn.Experiment(inputs={"u": 1.0}, before={"v": 0.2})
    with pytest.raises(gn.DataError, match="'v' before its start alone"):
        gn.bind(gene_model(), gene_data().with_experiments(done))
