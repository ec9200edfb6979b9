"""Initial values and inputs that are functions of parameters."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import gpnode as gn
from gpnode.errors import ModelError
from gpnode.problem.evaluation import log_density, value_and_grad
from support.slopes import assert_slopes_are_derivatives

TIMES = np.array([0.0, 0.7, 1.5, 3.0])
SEEN = {"control": np.array([1.9, 1.2, 0.7, 0.3]), "treated": np.array([4.2, 1.5, 0.5, 0.2])}
AT = {"low": 0.7, "high": 1.6, "start": 2.0, "gain": 1.1}


def model(**settings):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x + p.feed}, {"k": gn.Given(), "feed": gn.Given()})
    return gn.Model(
        form,
        initial={"x": lambda p: p.start * p.times},
        kernel=None,
        noise=gn.Noise(std=0.1, relative=False),
        observables={"seen": gn.Observable(lambda t, x, p: p.gain * x.x + p.offset, {"gain": gn.LogNormal(0.0, 1.0)})},
        parameters={
            "low": gn.LogNormal(0.0, 1.0),
            "high": gn.LogNormal(0.0, 1.0),
            "start": gn.LogNormal(0.0, 1.0),
            "times": gn.Given(),
            "offset": gn.Given(),
        },
        scales={"x": 2.0},
        **settings,
    )


def data(**more):
    done = {
        "control": gn.Experiment(
            inputs={"k": lambda p: p.low, "feed": 0.1, "times": 1.0, "offset": lambda p: 0.1 * p.low}, **more
        ),
        "treated": gn.Experiment(
            inputs={"k": lambda p: p.low + p.high, "feed": 0.0, "times": 2.0, "offset": 0.3}, **more
        ),
    }
    return gn.Observations.from_experiments({n: {"seen": (TIMES, y)} for n, y in SEEN.items()}).with_experiments(done)


def expected(at, starts=None):
    total = 0.0
    settings = {
        "control": (at["low"], 0.1, at["start"], 0.1 * at["low"]),
        "treated": (at["low"] + at["high"], 0.0, 2.0 * at["start"], 0.3),
    }
    for name, (k, feed, start, offset) in settings.items():
        start = starts[name] if starts else start
        x = feed / k + (start - feed / k) * np.exp(-k * TIMES)
        total += norm(at["gain"] * x + offset, 0.1).logpdf(SEEN[name]).sum()
    return total


SOLVERS = [gn.Native(), gn.NativeStiff(), gn.FixedGrid(), pytest.param(gn.Stiff(), marks=pytest.mark.slow)]


def likelihood(problem, at):
    parts, status = problem.log_likelihood({name: jnp.asarray(value) for name, value in at.items()})
    assert int(status) == 0
    return float(parts.sum()) - 8 * np.log(4.2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_density_is_that_of_an_independent_reference(solver):
    found = likelihood(gn.bind(model(solver=solver), data()).tightly_solved(), AT)
    assert found == pytest.approx(expected(AT), abs=1e-5)


def test_gradients_are_those_of_differences():
    problem = gn.bind(model(), data()).tightly_solved()
    u = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in AT.items()})
    _, gradient, _ = value_and_grad(problem, u)
    for i in range(u.size):
        up, down = (log_density(problem, u.at[i].add(h))[0] for h in (1e-5, -1e-5))
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-5)


def test_slopes_of_residuals_are_their_derivatives():
    problem = gn.bind(model(), data())
    assert_slopes_are_derivatives(problem)


def test_an_experiment_can_begin_at_rest_under_other_conditions():
    done = dict(data().done)
    inputs = dict(done["control"].inputs)
    before = {"k": lambda p: 2.0 * p.low, "feed": 0.5}
    done["control"] = gn.Experiment(inputs=inputs, before=before, at_rest=True)
    problem = gn.bind(model(), data().with_experiments(done)).tightly_solved()
    starts = {"control": 0.5 / (2.0 * AT["low"]), "treated": 2.0 * AT["start"]}
    assert likelihood(problem, AT) == pytest.approx(expected(AT, starts), abs=1e-5)
    u = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in AT.items()})
    _, gradient, _ = value_and_grad(problem, u)
    at = [p.name for p in problem.layout.parameters].index("low")
    up, down = (log_density(problem, u.at[at].add(h))[0] for h in (1e-5, -1e-5))
    assert float(gradient[at]) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-5)


def test_what_is_measured_when_something_happens_can_be_what_comes_after():
    def first(after):
        event = gn.Event(0.0, {"x": lambda t, x, p: x.x + 1.0})
        problem = gn.bind(model(), data(events=[event], measured_after=after))
        values = problem.completed({name: jnp.asarray(value) for name, value in AT.items()})
        return float(problem.predictions(problem.solve(values), values)[0][0]) * 4.2

    assert first(False) == pytest.approx(1.1 * 2.0 + 0.07)
    assert first(True) == pytest.approx(1.1 * 3.0 + 0.07)


def test_mistakes_are_refused():
    done = dict(data().done)
    done["control"] = gn.Experiment(inputs={**done["control"].inputs, "k": lambda p: p.lower})
    with pytest.raises(ModelError, match="'lower'"):
        gn.bind(model(), data().with_experiments(done))
    done["control"] = gn.Experiment(inputs={**done["control"].inputs, "k": gn.Steps([0.0], [1.0])})
    with pytest.raises(ModelError, match="changes over time in another"):
        gn.bind(model(), data().with_experiments(done))


def test_a_fit_searches_all_that_is_unknown_and_nothing_else():
    """Inputs that follow from parameters are none themselves."""
    problem = gn.bind(model(), data())
    assert sorted(problem.path_positions) == list(range(problem.size))
    found = gn.fit(model(), data(), method=gn.Laplace(draws=100), progress=False)
    for name in ("low", "high", "start", "gain"):
        assert 0.01 < float(found.draws[name].mean()) < 20.0
    assert "low" in str(found.equations())
