"""Doses, inputs, conditions and events: densities against paths solved piece by piece by scipy."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline
from scipy.stats import lognorm, norm

import gpnode as gn
from gpnode.problem.evaluation import log_density, value_and_grad
from support.slopes import assert_slopes_are_derivatives

TIMES = np.array([0.0, 0.7, 1.5, 2.0, 3.1, 4.0, 5.0, 6.5, 8.0])


def two_pools(t, x, p):
    return {"a": -p.k * x.a * p.u, "b": p.k * x.a * p.u - p.m * x.b**1.2}


def model(**settings):
    priors = {"k": gn.LogNormal(-0.5, 0.5), "m": gn.LogNormal(-1.0, 0.5), "u": gn.Given()}
    initial = {"a": 2.0, "b": gn.LogNormal(0.0, 0.3)}
    settings = {"initial": initial, "kernel": None, "noise": gn.Noise(std=0.1)} | settings
    return gn.Model(gn.KnownForm(["a", "b"], two_pools, priors), **settings)


def given_more(a=0.0, b=0.0):
    return lambda x, p: x + np.array([a, b])


def halved(t, x, p):
    return 0.5 * x.b + p.m * t


# What is done, and the same in terms of a reference that knows no more than: u(t), rate of a(t), and jumps.
LIGHT = np.array([[1.0, 0.4], [2.5, 1.6], [4.0, 1.0], [6.0, 0.7]])


def smooth_light(t):
    """A monotone cubic after Fritsch and Carlson, whose slopes are weighted harmonic means."""
    h, d = np.diff(LIGHT[:, 0]), np.diff(LIGHT[:, 1]) / np.diff(LIGHT[:, 0])
    slopes = np.zeros(len(LIGHT))
    for i in range(1, len(LIGHT) - 1):
        if d[i - 1] * d[i] > 0:
            w1, w2 = 2 * h[i] + h[i - 1], h[i] + 2 * h[i - 1]
            slopes[i] = (w1 + w2) / (w1 / d[i - 1] + w2 / d[i])
    for end, (h0, h1, d0, d1) in ((0, (h[0], h[1], d[0], d[1])), (-1, (h[-1], h[-2], d[-1], d[-2]))):
        slope = ((2 * h0 + h1) * d0 - h0 * d1) / (h0 + h1)
        if np.sign(slope) != np.sign(d0):
            slope = 0.0
        elif np.sign(d0) != np.sign(d1) and abs(slope) > 3 * abs(d0):
            slope = 3 * d0
        slopes[end] = slope
    return float(CubicHermiteSpline(LIGHT[:, 0], LIGHT[:, 1], slopes)(np.clip(t, LIGHT[0, 0], LIGHT[-1, 0])))


DONE = {
    "condition": (gn.Experiment(inputs={"u": 0.8}), lambda t: 0.8, lambda t: 0.0, []),
    "steps": (
        gn.Experiment(inputs={"u": gn.Steps(*LIGHT.T)}),
        lambda t: LIGHT[max(int(np.searchsorted(LIGHT[:, 0], t, side="right")) - 1, 0), 1],
        lambda t: 0.0,
        [],
    ),
    "lines": (
        gn.Experiment(inputs={"u": gn.Lines(*LIGHT.T)}),
        lambda t: float(np.interp(t, *LIGHT.T)),
        lambda t: 0.0,
        [],
    ),
    "smooth": (gn.Experiment(inputs={"u": gn.Smooth(*LIGHT.T)}), smooth_light, lambda t: 0.0, []),
    "doses": (
        gn.Experiment(inputs={"u": 1.0}, doses=[gn.Dose("a", 1.5, time=1.5, every=2.5, count=3), gn.Dose("b", 0.4)]),
        lambda t: 1.0,
        lambda t: 0.0,
        [(0.0, given_more(b=0.4)), *((t, given_more(a=1.5)) for t in (1.5, 4.0, 6.5))],
    ),
    "infusion": (
        gn.Experiment(inputs={"u": 1.0}, doses=[gn.Dose("a", 3.0, time=1.0, duration=2.0, every=3.0, count=2)]),
        lambda t: 1.0,
        lambda t: 1.5 if 1.0 <= t < 3.0 or 4.0 <= t < 6.0 else 0.0,
        [],
    ),
    "events": (
        gn.Experiment(
            inputs={"u": 1.2},
            doses=[gn.Dose("b", 0.7, time=3.1)],
            events=[gn.Event(3.1, {"b": halved}), gn.Event(5.5, {"a": 1.0, "b": lambda t, x, p: x.a + p.u})],
        ),
        lambda t: 1.2,
        lambda t: 0.0,
        [
            (3.1, lambda x, p: np.array([x[0], 0.5 * x[1] + p["m"] * 3.1 + 0.7])),
            (5.5, lambda x, p: np.array([1.0, x[0] + 1.2])),
        ],
    ),
}
BREAKS = np.unique([*LIGHT[:, 0], 0.0, 1.0, 1.5, 3.0, 3.1, 4.0, 5.5, 6.0, 6.5, 8.0])


def reference_path(name, p):
    """States (times, 2), just before jumps where times coincide."""
    _, u, rate, jumps = DONE[name]
    x, found = np.array([2.0, p["b0"]]), {}
    for begin, end in itertools.pairwise(BREAKS):
        found[begin] = x
        for time, change in jumps:
            if time == begin:
                x = change(x, p)

        def slopes(t, x, middle=0.5 * (begin + end)):
            at = middle if name in ("steps", "infusion") else t
            flow = p["k"] * x[0] * u(at)
            return [rate(at) - flow, flow - p["m"] * max(x[1], 0.0) ** 1.2]

        inner = np.union1d(TIMES[(begin < TIMES) & (end > TIMES)], [end])
        path = solve_ivp(slopes, (begin, end), x, t_eval=inner, rtol=1e-11, atol=1e-12).y.T
        found |= dict(zip(inner, path, strict=True))
        x = path[-1]
    found[BREAKS[-1]] = x
    return np.stack([found[t] for t in TIMES])


def observed(name, *, of=("a", "b")):
    path = reference_path(name, {"k": 0.7, "m": 0.4, "b0": 1.1})
    noisy = path + 0.1 * np.random.default_rng(3).normal(size=path.shape)
    data = gn.Observations({s: (TIMES, noisy[:, i]) for i, s in enumerate(("a", "b")) if s in of})
    return data.with_experiments(DONE[name][0])


SOLVERS = {
    "native": gn.Native(tolerance=1e-10),
    "native-stiff": gn.NativeStiff(rtol=1e-10, atol=1e-10),
    "fixed-grid": gn.FixedGrid(),
    "adaptive": gn.Adaptive(rtol=1e-9, atol=1e-9),
}


def reference_density(name, data, theta):
    """Of log k, log m and log b0, on the scale of the unconstrained vector."""
    p = dict(zip(("k", "m", "b0"), np.exp(theta), strict=True))
    path = reference_path(name, p)
    scales = [np.abs(data.values_of(s)).max() for s in ("a", "b")]
    misfit = sum(
        norm.logpdf(data.values_of(s), path[:, i], 0.1 * scales[i]).sum() + TIMES.size * np.log(scales[i])
        for i, s in enumerate(("a", "b"))
    )
    priors = [(0.5, -0.5), (0.5, -1.0), (0.3, 0.0)]
    prior = sum(
        lognorm.logpdf(v, s=s, scale=np.exp(c)) + np.log(v) for v, (s, c) in zip(p.values(), priors, strict=True)
    )
    return misfit + prior


@pytest.mark.parametrize("name", DONE)
@pytest.mark.parametrize(
    "solver", ["native", *(pytest.param(s, marks=pytest.mark.slow) for s in ("native-stiff", "fixed-grid"))]
)
def test_density_and_gradient_are_those_of_an_independent_reference(name, solver):
    data = observed(name)
    problem = gn.bind(model(solver=SOLVERS[solver]), data)
    if solver == "fixed-grid":
        from gpnode.problem.grid import with_steps

        problem = with_steps(problem, np.full(np.diff(problem.measured_times, axis=1).shape, 60))
    theta = np.log([0.65, 0.45, 1.2])
    values = {"k": 0.65, "m": 0.45, "b.initial": 1.2}
    u = problem.layout.unconstrain({n: jnp.asarray(v) for n, v in values.items()})
    value, gradient, status = value_and_grad(problem, u)
    assert int(status) == 0
    ahead = problem.layout.unconstrain({n: jnp.asarray(v * np.e) for n, v in values.items()})
    widths = np.asarray(ahead - u)  # of the unconstrained vector, for one of logarithms
    expected = reference_density(name, data, theta) - np.log(widths).sum()
    assert float(value) == pytest.approx(expected, rel=1e-8 if solver == "native" else 1e-7)
    step = 1e-5
    slopes = [
        (reference_density(name, data, theta + step * e) - reference_density(name, data, theta - step * e)) / (2 * step)
        for e in np.eye(3)
    ]
    assert np.allclose(gradient * widths, slopes, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["events", *(pytest.param(n, marks=pytest.mark.slow) for n in ("doses", "lines"))])
def test_slopes_of_residuals_are_their_derivatives(name):
    assert_slopes_are_derivatives(gn.bind(model(), observed(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", DONE)
def test_native_and_array_code_agree(name):
    data = observed(name)
    native, array = (gn.bind(model(solver=SOLVERS[s]), data) for s in ("native", "adaptive"))
    rng = np.random.default_rng(0)
    for _ in range(1000):
        u = jnp.asarray(rng.normal(size=native.size))
        assert float(log_density(native, u)[0]) == pytest.approx(float(log_density(array, u)[0]), rel=1e-6)


def test_experiments_have_doses_and_conditions_of_their_own():
    path = {name: reference_path(name, {"k": 0.7, "m": 0.4, "b0": 1.1}) for name in ("doses", "condition")}
    data = gn.Observations.from_experiments(
        {name: {"a": (TIMES, one[:, 0]), "b": (TIMES, one[:, 1])} for name, one in path.items()}
    ).with_experiments({name: DONE[name][0] for name in path})
    problem = gn.bind(model(initial={"a": 2.0, "b": 1.1}, solver=gn.Native(tolerance=1e-9)), data)
    values = problem.constrain(problem.layout.unconstrain({"k": jnp.asarray(0.7), "m": jnp.asarray(0.4)}))
    residuals, status = problem.residuals(problem.solve(values), values)
    assert int(status) == 0
    assert np.abs(np.concatenate(residuals)).max() < 1e-7


def test_observables_see_what_is_given():
    data = observed("lines", of=("a",))
    reading = gn.Observable(lambda t, x, p: p.gain * p.u * x.b, {"gain": 2.0})
    path = reference_path("lines", {"k": 0.7, "m": 0.4, "b0": 1.1})
    light = np.array([DONE["lines"][1](t) for t in TIMES])
    both = {"a": (TIMES, data.values_of("a")), "glow": (TIMES, 2.0 * light * path[:, 1])}
    data = gn.Observations(both).with_experiments(DONE["lines"][0])
    problem = gn.bind(model(initial={"a": 2.0, "b": 1.1}, observables={"glow": reading}), data)
    values = problem.constrain(problem.layout.unconstrain({"k": jnp.asarray(0.7), "m": jnp.asarray(0.4)}))
    residuals, _ = problem.residuals(problem.solve(values), values)
    assert np.abs(residuals[1]).max() < 1e-5


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (gn.Experiment(), "does not give 'u'"),
        (gn.Experiment(inputs={"u": 1.0, "v": 2.0}), "gives 'v', which no equation takes"),
        (gn.Experiment(inputs={"u": 1.0}, doses=[gn.Dose("c", 1.0)]), "'c', which is not a state"),
        (gn.Experiment(inputs={"u": 1.0}, doses=[gn.Dose("a", 1.0, time=-1.0)]), "dose at -1, before it starts"),
        (gn.Experiment(inputs={"u": 1.0}, events=[gn.Event(1.0, {"a": lambda t, x, p: p.q})]), "unknown name"),
    ],
)
def test_mistakes_are_named(done, words):
    with pytest.raises(gn.GpnodeError, match=words):
        gn.bind(model(), observed("condition").with_experiments(done))


@pytest.mark.parametrize("unit", [1.5, 0.7, 3.3, 49.0])
def test_nothing_is_left_out_whatever_the_unit_of_time(unit):
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(0.0, 1.0)})
    times = np.array([0.0, 5.0, 10.0, 11.0, 15.0])
    data = gn.Observations({"x": (times, [3.0, 2.0, 1.0, 4.0, 2.0])})
    for time in (5.0, 10.0, 11.0):
        done = data.with_experiments(gn.Experiment(doses=[gn.Dose("x", 1.0, time=time)]))
        problem = gn.bind(gn.Model(form, initial={"x": 3.0}, time_unit=unit), done)
        assert np.count_nonzero(problem.actions) == 1
