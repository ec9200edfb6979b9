"""Whole densities again by :mod:`support.reference`, for a damped rotation and a dictionary."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn
from gpnode.problem.evaluation import log_density, value_and_grad
from gpnode.problem.grid import with_steps
from support import reference as ref


def tight(model: gn.Model, data: gn.Observations):
    """The bound problem, on a grid so fine that the solver's error is below the test's."""
    problem = gn.bind(model, data)
    return with_steps(problem, np.full((len(problem.experiments), problem.measured_times.shape[1] - 1), 40))


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


def rotation(t, x, p):
    return {"x": -p.a * x.x - p.w * x.y / 6.0 + 0.05 * jnp.sin(t), "y": p.w * 6.0 * x.x - p.a * x.y}


ROTATION_PRIORS = {"a": gn.LogNormal(-1.5, 0.5), "w": gn.Normal(1.0, 0.3)}


def rotation_model(**options) -> gn.Model:
    initial = {"x": gn.Normal(3.0, 1.0), "y": 0.0}
    return gn.paper_priors(gn.Model(gn.KnownForm(["x", "y"], rotation, ROTATION_PRIORS), initial=initial, **options))


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
    sought = gn.Dictionary(["x", "y"], gn.polynomial(2), **options)
    return gn.paper_priors(gn.Model(sought, initial={"x": gn.Normal(3.0, 1.0), "y": 0.0}))
