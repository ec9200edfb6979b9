"""Noise whose standard deviation is a formula, and numbers that come with each measurement."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import laplace, norm

import gpnode as gn
from gpnode.errors import DataError, ModelError
from gpnode.fitting.single import default_method
from gpnode.problem.evaluation import log_density, value_and_grad

TIMES = np.array([0.0, 0.5, 0.5, 1.0, 2.0, 3.0])
SEEN = np.array([2.1, 1.3, 1.4, 0.8, 0.35, 0.12])
BARS = np.array([0.2, 0.1, 0.15, 0.1, 0.05, 0.02])
GAINS = np.array([1.0, 1.0, 1.1, 1.0, 0.9, 1.0])


def decay(noise, observable=None, transform=None):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(0.0, 1.0)})
    seen = observable or gn.Observable(lambda t, x, p: x.x)
    return gn.Model(
        form,
        initial={"x": 2.0},
        kernel=None,
        observables={"seen": seen},
        noise=noise,
        transform=transform or gn.Identity(),
    )


def observed(**numbers):
    return gn.Observations({"seen": (TIMES, SEEN, numbers)})


def likelihood(problem, values):
    """In the user's units."""
    parts, status = problem.log_likelihood({name: jnp.asarray(value) for name, value in values.items()})
    assert int(status) == 0
    jacobian = np.log(SEEN.max()) if problem.observables[0].transform.keeps_units else np.log(SEEN).mean()
    return float(parts.sum()) - SEEN.size * jacobian


PATH = 2.0 * np.exp(-0.9 * TIMES)
CASES = {
    "of numbers": (gn.FormulaNoise(lambda t, x, p, y: p.bar), norm(PATH, BARS), {}),
    "of the prediction": (
        gn.FormulaNoise(lambda t, x, p, y: p.a + 0.1 * y, {"a": gn.HalfNormal(1.0)}),
        norm(PATH, 0.07 + 0.1 * PATH),
        {"a": 0.07},
    ),
    "of the state, time and dynamics": (
        gn.FormulaNoise(lambda t, x, p, y: 0.1 * x.x + 0.01 * t + 0.1 * p.k),
        norm(PATH, 0.1 * PATH + 0.01 * TIMES + 0.09),
        {},
    ),
    "laplace": (
        gn.FormulaNoise(lambda t, x, p, y: p.a * p.bar, {"a": gn.HalfNormal(1.0)}, shape="laplace"),
        laplace(PATH, 2.0 * BARS / np.sqrt(2.0)),
        {"a": 2.0},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", [gn.NativeStiff(), gn.Adaptive(rtol=1e-10, atol=1e-10)])
def test_the_density_is_that_of_an_independent_reference(case, solver):
    noise, expected, values = CASES[case]
    model = gn.Model(**{**vars(decay(noise)), "solver": solver})
    problem = gn.bind(model, observed(bar=BARS))
    found = likelihood(problem, {"k": 0.9, **values})
    assert found == pytest.approx(expected.logpdf(SEEN).sum(), abs=1e-5)


def test_on_the_log_scale_it_is_the_spread_of_the_logarithm():
    for shape, kind, scale in (("normal", norm, 1.0), ("laplace", laplace, 1.0 / np.sqrt(2.0))):
        noise = gn.FormulaNoise(lambda t, x, p, y: p.bar, shape=shape)
        problem = gn.bind(decay(noise, transform=gn.Log()), observed(bar=BARS))
        expected = kind(np.log(PATH), BARS * scale).logpdf(np.log(SEEN)) - np.log(SEEN)
        assert likelihood(problem, {"k": 0.9}) == pytest.approx(expected.sum(), abs=1e-5)


def test_numbers_can_stand_in_observables():
    seen = gn.Observable(lambda t, x, p: p.gain * x.x)
    problem = gn.bind(decay(gn.FormulaNoise(lambda t, x, p, y: p.bar), seen), observed(bar=BARS, gain=GAINS))
    assert likelihood(problem, {"k": 0.9}) == pytest.approx(norm(GAINS * PATH, BARS).logpdf(SEEN).sum(), abs=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_differences(case):
    noise, _, values = CASES[case]
    problem = gn.bind(decay(noise), observed(bar=BARS)).tightly_solved()
    u = problem.layout.unconstrain({n: jnp.asarray(v) for n, v in {"k": 0.9, **values}.items()})
    _, gradient, _ = value_and_grad(problem, u)
    for i in range(u.size):
        up, down = (log_density(problem, u.at[i].add(h))[0] for h in (1e-5, -1e-5))
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_what_depends_on_the_path_is_not_for_the_lifted_sampler():
    chosen = {name: default_method(decay(noise), observed(bar=BARS)) for name, (noise, _, _) in CASES.items()}
    assert isinstance(chosen.pop("of numbers"), gn.Lifted)
    assert all(isinstance(method, gn.NUTS) for method in chosen.values())
    with pytest.raises(ModelError, match="depends on the path"):
        gn.fit(decay(CASES["of the prediction"][0]), observed(bar=BARS), method=gn.Lifted())


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: gn.FormulaNoise(3.0), ModelError, "function of t, x, p and y"),
        (lambda: gn.FormulaNoise(lambda t, x, p, y: y, shape="cauchy"), ModelError, "normal or laplace"),
        (lambda: gn.bind(decay(gn.FormulaNoise(lambda t, x, p, y: p.bar)), observed()), ModelError, "bar"),
        (lambda: gn.bind(decay(gn.FormulaNoise(lambda t, x, p, y: y, {"a": 1.0})), observed()), ModelError, "never"),
        (lambda: gn.bind(decay(gn.FormulaNoise(lambda t, x, p, y: p.k)), observed(k=BARS)), ModelError, "Rename"),
        (lambda: observed(bar=BARS[:2]), DataError, "one number for each"),
        (lambda: observed(bar=[*BARS[:5], np.nan]), DataError, "is missing"),
    ],
)
def test_mistakes_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()
