"""The density under test against an independent computation, and its gradient against differences.

Every dynamics kind, kernel, coefficient prior and solver takes part.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn
from gpnode.model import priors
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import log_density, value_and_grad
from gpnode.solvers import ALL_SOLVERS
from support import reference as ref

TIGHT = {
    gn.Native: gn.Native(tolerance=1e-10),
    gn.NativeStiff: gn.NativeStiff(rtol=1e-11, atol=1e-11),
    gn.FixedGrid: gn.FixedGrid(),
    gn.Adaptive: gn.Adaptive(rtol=1e-12, atol=1e-12),
    gn.Stiff: gn.Stiff(rtol=1e-11, atol=1e-11, max_steps=20_000),
}


def tight(model: gn.Model, data: gn.Observations):
    """The bound problem, on a grid so fine that the solver's error is below the test's."""
    problem = gn.bind(model, data)
    return problem.with_steps(np.full((len(problem.experiments), problem.measured_times.shape[1] - 1), 40))


def check(problem, expected, points):
    """Values to 1e-8 and gradients to 1e-5, at every point."""
    for u in points:
        value, gradient, status = value_and_grad(problem, jnp.asarray(u))
        assert int(status) == 0
        wanted = expected(u)
        assert float(value) == pytest.approx(wanted, rel=1e-8, abs=1e-8)
        step = 1e-5
        for i in range(u.size):
            e = np.zeros(u.size)
            e[i] = step
            up, down = (float(log_density(problem, jnp.asarray(u + s * e))[0]) for s in (1, -1))
            scale = max(1.0, np.abs(gradient).max())
            assert float(gradient[i]) == pytest.approx((up - down) / (2 * step), abs=1e-5 * scale)


def points(size: int, centre=0.0, spread=0.2, count=3):
    rng = np.random.default_rng(size)
    return [np.broadcast_to(centre, size) + spread * rng.normal(size=size) for _ in range(count)]


# -- the model of most tests: a damped rotation with unknown rates -----------------------------


def rotation(t, x, p):
    return {"x": -p.a * x.x - p.w * x.y / 6.0 + 0.05 * jnp.sin(t), "y": p.w * 6.0 * x.x - p.a * x.y}


ROTATION_PRIORS = {"a": gn.LogNormal(-1.5, 0.5), "w": gn.Normal(1.0, 0.3)}


def rotation_model(**options) -> gn.Model:
    initial = {"x": gn.Normal(3.0, 1.0), "y": 0.0}
    return gn.Model(gn.KnownForm(["x", "y"], rotation, ROTATION_PRIORS), initial=initial, **options)


def read(problem, u, table):
    """Named values and the summed log prior from a vector, by the table of reference priors."""
    values, total = {}, 0.0
    for name, where in problem.layout.slices().items():
        pairs = [table[name](v) for v in u[where]]
        values[name] = np.array([v for v, _ in pairs])
        total += sum(lp for _, lp in pairs)
    assert set(values) == set(table)
    return {n: v if v.size > 1 else v[0] for n, v in values.items()}, total


def likelihood(data, scale, values, solution, covariances):
    """Sum over blocks; ``solution(times)`` gives user-unit states by name."""
    total = 0.0
    end = max(s.times[-1] for s in data.series) - 0.0
    for s in data.series:
        t = s.times / end
        cov = covariances[s.variable](values, np.abs(np.subtract.outer(t, t)))
        cov = cov + values[f"{s.variable}.noise_var"] * np.eye(t.size)
        cov = cov + 1e-10 * np.diag(cov).mean() * np.eye(t.size)
        mean = solution(s.times)[s.variable] / scale[s.variable]
        total += ref.block_log_density(s.values / scale[s.variable], mean, cov)
    return total


def rotation_reference(problem, data, covariances, hyper):
    table = {
        "a": ref.positive(stats.lognorm(0.5, scale=np.exp(-1.5))),
        "w": ref.real(1.0, 0.3),
        "x.initial": ref.real(3.0, 1.0),
        **hyper,
        "x.noise_var": ref.LOGNORMAL,
        "y.noise_var": ref.LOGNORMAL,
    }
    scale = {v: np.abs(data.values_of(v)).max() for v in data.variables}

    def expected(u):
        values, total = read(problem, u, table)
        a, w = values["a"], values["w"]

        def solution(times):
            slopes = lambda t, x: [-a * x[0] - w * x[1] / 6 + 0.05 * np.sin(t), 6 * w * x[0] - a * x[1]]
            found = ref.path(slopes, [values["x.initial"], 0.0], 0.0, times)
            return {"x": found[:, 0], "y": found[:, 1]}

        return total + likelihood(data, scale, values, solution, covariances)

    return expected


def kernel_tables(kinds):
    """Reference covariance and priors for {variable: kernel class name}."""
    covariances, hyper = {}, {}
    for variable, kind in kinds.items():
        function, table = ref.KERNELS[kind]
        hyper |= {f"{variable}.kernel.{n}": prior for n, prior in table.items()}
        covariances[variable] = lambda v, d, f=function, names=tuple(table), x=variable: f(
            {n: v[f"{x}.kernel.{n}"] for n in names}, d
        )
    return covariances, hyper


PAIRS = list(zip(kernels.ALL_KERNELS[::2], kernels.ALL_KERNELS[1::2], strict=True))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: "-".join(k.__name__ for k in p))
def test_every_kernel(decay_data, pair):
    chosen = dict(zip(("x", "y"), pair, strict=True))
    problem = tight(rotation_model(kernel={v: k() for v, k in chosen.items()}), decay_data)
    covariances, hyper = kernel_tables({v: k.__name__ for v, k in chosen.items()})
    check(problem, rotation_reference(problem, decay_data, covariances, hyper), points(problem.size))


def test_sum_product_and_fixed_hyperparameters(decay_data):
    # Priors of sums and products carry the letters of their parts.
    combined = {
        "x": kernels.SquaredExponential() + kernels.Matern12(variance=0.3),
        "y": kernels.Matern32() * kernels.Periodic(variance=1.0, length_scale=2.0),
    }
    problem = tight(rotation_model(kernel=combined), decay_data)
    hyper = {
        "x.kernel.a.variance": ref.LOGNORMAL,
        "x.kernel.a.length_scale": ref.LENGTH,
        "x.kernel.b.length_scale": ref.LENGTH,
        "y.kernel.a.variance": ref.LOGNORMAL,
        "y.kernel.a.length_scale": ref.LENGTH,
        "y.kernel.b.period": ref.PERIOD,
    }

    def cov_x(v, d):
        first = {"variance": v["x.kernel.a.variance"], "length_scale": v["x.kernel.a.length_scale"]}
        second = {"variance": 0.3, "length_scale": v["x.kernel.b.length_scale"]}
        return ref.squared_exponential(first, d) + ref.matern12(second, d)

    def cov_y(v, d):
        first = {"variance": v["y.kernel.a.variance"], "length_scale": v["y.kernel.a.length_scale"]}
        second = {"variance": 1.0, "length_scale": 2.0, "period": v["y.kernel.b.period"]}
        return ref.matern32(first, d) * ref.periodic(second, d)

    expected = rotation_reference(problem, decay_data, {"x": cov_x, "y": cov_y}, hyper)
    check(problem, expected, points(problem.size))


def test_paper_convention_of_the_squared_exponential(decay_data):
    model = rotation_model(kernel=kernels.SquaredExponential(halved=False))
    problem = tight(model, decay_data)
    covariances = {
        v: lambda h, d, x=v: h[f"{x}.kernel.variance"] * np.exp(-((d / h[f"{x}.kernel.length_scale"]) ** 2))
        for v in ("x", "y")
    }
    hyper = kernel_tables({"x": "SquaredExponential", "y": "SquaredExponential"})[1]
    check(problem, rotation_reference(problem, decay_data, covariances, hyper), points(problem.size, count=1))


@pytest.mark.parametrize("kind", ALL_SOLVERS, ids=lambda s: s.__name__)
def test_every_solver_without_gaussian_process(decay_data, kind):
    problem = tight(rotation_model(kernel=None), decay_data).with_solver(TIGHT[kind])
    zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
    check(problem, rotation_reference(problem, decay_data, zero, {}), points(problem.size, count=2))


def test_log_transform_noise_std_and_experiments(positive_data):
    model = gn.Model(
        gn.KnownForm(
            ["x"],
            lambda t, x, p: {"x": p.r * x.x * (1 - x.x / p.K)},
            {"r": gn.Uniform(0.1, 2.0), "K": gn.LogNormal(np.log(50.0), 0.5)},
        ),
        initial={"x": {"low": gn.LogNormal(np.log(2.0), 0.5), "high": gn.Around(0.7)}},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-2.0, 1.0)),
        transform=gn.Log(),
    )
    first = {s.experiment: s.values[0] for s in positive_data.series}
    centre = np.array([0.0, np.log(50), np.log(2), np.log(first["high"]), -2.0])
    problem = tight(model, positive_data)
    table = {
        "r": ref.uniform(0.1, 2.0),
        "K": ref.positive(stats.lognorm(0.5, scale=50.0)),
        "x.initial.low": ref.positive(stats.lognorm(0.5, scale=2.0)),
        "x.initial.high": ref.positive(stats.lognorm(0.7, scale=first["high"])),
        "x.noise_std": ref.positive(stats.lognorm(1.0, scale=np.exp(-2.0))),
    }

    def expected(u):
        v, total = read(problem, u, table)
        for s in positive_data.series:
            x0 = v[f"x.initial.{s.experiment}"]
            mean = v["K"] / (1 + (v["K"] / x0 - 1) * np.exp(-v["r"] * s.times))  # the closed form
            total += stats.norm.logpdf(np.log(s.values), np.log(mean), v["x.noise_std"]).sum()
        return total

    check(problem, expected, points(problem.size, centre))


# -- dictionaries ----------------------------------------------------------------------------

TERMS = ["1", "x", "y", "x*y", "x^2", "y^2"]
TRUE = np.array([[0.0, -0.2, -1 / 6, 0, 0, 0], [0, 6.0, -0.2, 0, 0, 0]])


def dictionary_reference(problem, data, prior_table, sparse, fixed=None, free=None):
    """Reference for a full quadratic dictionary with prior terms given by ``sparse(values)``."""
    scale = {v: np.abs(data.values_of(v)).max() for v in data.variables}
    unit_time = float(problem.scaling.time_unit)
    sx, sy = scale["x"], scale["y"]
    size = np.array([1, sx, sy, sx * sy, sx**2, sy**2])
    unit = np.array([[sx], [sy]]) / unit_time / size
    free = np.ones((2, 6), dtype=bool) if free is None else free
    _, hyper = kernel_tables({"x": "SquaredExponential", "y": "SquaredExponential"})
    table = {
        "coef": lambda u: (u, 0.0),
        **prior_table,
        "x.initial": ref.real(3.0, 1.0),
        **hyper,
        "x.noise_var": ref.LOGNORMAL,
        "y.noise_var": ref.LOGNORMAL,
    }
    covariances, _ = kernel_tables({"x": "SquaredExponential", "y": "SquaredExponential"})

    def expected(u):
        values, total = read(problem, u, table)
        matrix = np.zeros((2, 6)) if fixed is None else fixed.copy()
        matrix[free] = values["coef"] * unit[free]

        def solution(times):
            def slopes(t, x):
                a, b = x
                return matrix @ [1, a, b, a * b, a * a, b * b]

            found = ref.path(slopes, [values["x.initial"], 0.0], 0.0, times)
            return {"x": found[:, 0], "y": found[:, 1]}

        return total + sparse(values) + likelihood(data, scale, values, solution, covariances)

    centre = np.zeros(problem.size)
    centre[: free.sum()] = (TRUE / unit)[free]
    return expected, centre


def dictionary_model(**options) -> gn.Model:
    return gn.Model(
        gn.Dictionary(["x", "y"], gn.polynomial(2), **options), initial={"x": gn.Normal(3.0, 1.0), "y": 0.0}
    )


def horseshoe_cases():
    n = 21  # measurements
    per_equation = lambda v: np.repeat(v["coef.tau"], 6)
    shared = lambda v: np.full(12, v["coef.tau"])
    tau = {"coef.tau": ref.half_cauchy(11 / 1 / np.sqrt(n))}
    tau3 = {"coef.tau": ref.half_cauchy(3 / 9 / np.sqrt(n))}
    slab = {"coef.slab_var": ref.inverse_gamma(1.0, 1.0)}
    slab4 = {"coef.slab_var": ref.inverse_gamma(4.0, 2.0)}
    finnish = lambda f, floor=0.02: lambda v: ref.horseshoe_log_density(v["coef"], f(v), v["coef.slab_var"], floor)
    yield "finnish", priors.FinnishHorseshoe(), tau | slab, finnish(per_equation)
    yield "finnish-options", priors.FinnishHorseshoe(3, 4.0, 2.0, True, 0.05), tau3 | slab4, finnish(shared, 0.05)
    plain = lambda v: ref.horseshoe_log_density(v["coef"], per_equation(v), None)
    yield "horseshoe", priors.Horseshoe(), tau, plain
    yield "laplace", priors.Laplace(0.7), {}, lambda v: stats.laplace.logpdf(v["coef"], 0, 0.7).sum()
    yield "gaussian", priors.Gaussian(0.7), {}, lambda v: stats.norm.logpdf(v["coef"], 0, 0.7).sum()


CASES = {name: rest for name, *rest in horseshoe_cases()}


@pytest.mark.parametrize("name", CASES)
def test_every_coefficient_prior(decay_data, name):
    prior, table, sparse = CASES[name]
    problem = tight(dictionary_model(prior=prior), decay_data)
    # Independent priors are sampled in units of their own width.
    width = {"laplace": 0.7 * np.sqrt(2), "gaussian": 0.7}.get(name, 1.0)
    table = {**table, "coef": lambda u: (width * u, np.log(width))}
    expected, centre = dictionary_reference(problem, decay_data, table, sparse)
    centre[:12] /= width
    if "coef.tau" in table:
        centre[problem.layout.slices()["coef.tau"]] = -1.0
    check(problem, expected, points(problem.size, centre, 0.02))


def test_every_coefficient_prior_is_tested():
    assert {type(case[0]) for case in CASES.values()} == set(priors.ALL_COEFFICIENT_PRIORS)


def test_fixed_and_forbidden_terms(decay_data):
    fixed, forbidden = {("x", "x"): -0.2, ("y", "x"): 6.0}, [("y", "x*y"), ("x", "1")]
    model = dictionary_model(prior=priors.Gaussian(1.0), fixed=fixed, forbidden=forbidden)
    free = np.ones((2, 6), dtype=bool)
    known = np.zeros((2, 6))
    known[0, 1], known[1, 1] = -0.2, 6.0
    free[0, 1] = free[1, 1] = free[1, 3] = free[0, 0] = False
    problem = tight(model, decay_data)
    sparse = lambda v: stats.norm.logpdf(v["coef"]).sum()
    expected, centre = dictionary_reference(problem, decay_data, {}, sparse, known, free)
    check(problem, expected, points(problem.size, centre, 0.02))


def test_gray_box_is_the_sum_of_its_parts(decay_data):
    gray = gn.Sum(
        known=gn.KnownForm(["x", "y"], rotation, ROTATION_PRIORS),
        missing=gn.Dictionary(["y"], gn.polynomial(1, constant=False), inputs=["x", "y"], prior=priors.Gaussian(1.0)),
    )
    model = gn.Model(gray, initial={"x": gn.Normal(3.0, 1.0), "y": 0.0}, kernel=None)
    problem = tight(model, decay_data)
    scale = {v: np.abs(decay_data.values_of(v)).max() for v in ("x", "y")}
    unit = scale["y"] / float(problem.scaling.time_unit) / np.array([scale["x"], scale["y"]])
    table = {
        "known.a": ref.positive(stats.lognorm(0.5, scale=np.exp(-1.5))),
        "known.w": ref.real(1.0, 0.3),
        "missing.coef": ref.real(0.0, 1.0),
        "x.initial": ref.real(3.0, 1.0),
        "x.noise_var": ref.LOGNORMAL,
        "y.noise_var": ref.LOGNORMAL,
    }

    def expected(u):
        values, total = read(problem, u, table)
        a, w, (cx, cy) = values["known.a"], values["known.w"], values["missing.coef"] * unit

        def solution(times):
            def slopes(t, x):
                first = -a * x[0] - w * x[1] / 6 + 0.05 * np.sin(t)
                return [first, 6 * w * x[0] - a * x[1] + cx * x[0] + cy * x[1]]

            found = ref.path(slopes, [values["x.initial"], 0.0], 0.0, times)
            return {"x": found[:, 0], "y": found[:, 1]}

        zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
        return total + likelihood(decay_data, scale, values, solution, zero)

    check(problem, expected, points(problem.size, spread=0.05))


def test_many_parameters_use_the_reverse_sweep_and_agree(decay_data, monkeypatch):
    problem = tight(rotation_model(kernel=None), decay_data)
    zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
    monkeypatch.setattr("gpnode.solvers.base._FORWARD_LIMIT", 0)
    # Another name of the experiment keeps the version compiled with the forward sweep out of the way.
    reverse = dataclasses.replace(problem, states=("x", "y"), experiments=("reverse",))
    check(reverse, rotation_reference(problem, decay_data, zero, {}), points(problem.size, count=1))


QUASISEPARABLE = [
    pytest.param(kernels.Matern12(), marks=pytest.mark.slow),
    pytest.param(kernels.Matern32(), marks=pytest.mark.slow),
    kernels.Matern52(),
    kernels.Matern32() + kernels.Matern12(),
]


@pytest.mark.parametrize("kernel", QUASISEPARABLE, ids=lambda k: k.describe()["kind"])
def test_linear_time_gives_the_dense_density(decay_data, kernel, monkeypatch):
    problem = gn.bind(rotation_model(kernel=kernel), decay_data)
    at = jnp.asarray(points(problem.size)[0])
    # Compiled by themselves: what gpnode keeps compiled does not know of the limit.
    dense = jax.jit(lambda at: problem.value_and_grad(at))(at)
    monkeypatch.setattr("gpnode.problem.covariance.DENSE_LIMIT", 1)
    other = gn.bind(rotation_model(kernel=kernel), decay_data)
    linear = jax.jit(lambda at: other.value_and_grad(at))(at)
    assert float(linear[0]) == pytest.approx(float(dense[0]), rel=1e-11)
    assert np.allclose(linear[1], dense[1], rtol=1e-8, atol=1e-8)


def test_linear_time_is_taken_for_long_series_of_kernels_that_allow_it():
    """A dense covariance of this length would take 20 GB."""
    t = np.linspace(0.0, 10.0, 50_000)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)}),
        initial={"x": 1.0},
        kernel=kernels.Matern32(),
    )
    problem = gn.bind(model, gn.Observations({"x": (t, np.exp(-0.3 * t))}))
    value, gradient, status = value_and_grad(problem, jnp.zeros(problem.size))
    assert int(status) == 0
    assert np.isfinite(value)
    assert np.abs(gradient).min() > 0
