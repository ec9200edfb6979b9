"""Events that the state triggers, against a culture that is diluted whenever it is dense, in closed form."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import lognorm, norm

import gpnode as gn
from support.references import assert_density_is
from support.slopes import assert_slopes_are_derivatives

TIMES = np.array([0.5, 1.3, 2.1, 3.0, 3.9, 4.7, 5.5, 6.3])
COUNT = 2


def density(rate, level, part, times=TIMES):
    """Grows from 1, and is cut to a ``part`` when it reaches ``level``, twice."""
    first = np.log(level) / rate
    between = -np.log(part) / rate
    cuts = np.array([first + i * between for i in range(COUNT)])
    passed = (times[:, None] > cuts).sum(axis=1)
    return np.exp(rate * times) * part**passed


def model(**settings):
    form = gn.KnownForm(
        ["x"],
        lambda t, x, p: {"x": p.rate * x.x + 0.0 * p.level * p.part},
        {"rate": gn.LogNormal(-0.3, 0.3), "level": gn.LogNormal(1.4, 0.3), "part": gn.LogNormal(-1.2, 0.3)},
    )
    usual = {"solver": gn.Native(tolerance=1e-10), "initial": {"x": 1.0}, "kernel": None, "noise": gn.Noise(std=0.03)}
    return gn.Model(form, **(usual | settings))


def observed():
    values = density(0.7, 4.0, 0.3) * (1 + 0.03 * np.random.default_rng(0).normal(size=TIMES.size))
    cut = gn.Trigger(lambda t, x, p: x.x - p.level, {"x": lambda t, x, p: p.part * x.x}, count=COUNT)
    return gn.Observations({"x": (TIMES, values)}, start=0.0).with_experiments(gn.Experiment(triggers=[cut]))


POINT = {"rate": 0.72, "level": 4.1, "part": 0.28}
PRIORS = {"rate": (-0.3, 0.3), "level": (1.4, 0.3), "part": (-1.2, 0.3)}


@pytest.mark.parametrize(
    "solver",
    [
        gn.Native(tolerance=1e-10),
        pytest.param(gn.NativeStiff(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow),
        pytest.param(gn.Adaptive(rtol=1e-10, atol=1e-10), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("level", [4.1, 90.0])  # reached twice, and only after the end
def test_density_and_gradient_are_those_of_the_closed_form(solver, level):
    data = observed()
    problem = gn.bind(model(solver=solver), data)
    point = POINT | {"level": level}
    y, scale = data.values_of("x"), np.abs(data.values_of("x")).max()

    def reference(point):
        likelihood = norm(density(**point) / scale, 0.03).logpdf(y / scale).sum()
        return likelihood + sum(lognorm(s, scale=np.exp(c)).logpdf(point[n]) for n, (c, s) in PRIORS.items())

    assert_density_is(problem, point, reference)


@pytest.mark.slow
def test_slopes_of_residuals_are_their_derivatives():
    problem = gn.bind(model(), observed())
    values = problem.constrain(problem.layout.unconstrain({n: jnp.asarray(v) for n, v in POINT.items()}))
    assert int(problem.solve(values).status[0]) == 0
    assert_slopes_are_derivatives(problem)


@pytest.mark.slow
def test_simulations_are_cut_too():
    simulations, _ = gn.simulate(model(noise=gn.Noise(std=1e-7)), observed(), 4)
    for simulation in simulations:
        truth = {n: float(simulation.truth[n]) for n in POINT}
        assert np.allclose(simulation.data.values_of("x"), density(**truth), rtol=1e-4, atol=1e-5)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(gn.DataError, match="is a function of t, x and p"):
        gn.Trigger(3.0, {"x": 0.0})  # type: ignore[arg-type]
    with pytest.raises(gn.DataError, match="1 to 20 times"):
        gn.Trigger(lambda t, x, p: x.x, {"x": 0.0}, count=21)
    wrong = gn.Trigger(lambda t, x, p: x.y, {"x": 0.0})
    with pytest.raises(gn.ModelError, match="unknown name"):
        gn.bind(model(), observed().with_experiments(gn.Experiment(triggers=[wrong])))
