"""Covariances in linear time against dense ones."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.problem.evaluation import value_and_grad
from support.densities import points, rotation_model

*MORE, LAST = (kernel() for kernel in kernels.KERNELS.values() if kernel().in_linear_time)
QUASISEPARABLE = [
    *(pytest.param(kernel, marks=pytest.mark.slow) for kernel in MORE),
    LAST,
    kernels.Matern32() + kernels.Matern12(),
]


@pytest.mark.parametrize("kernel", QUASISEPARABLE, ids=lambda k: k.describe()["kind"])
def test_linear_time_gives_the_dense_density(decay_data, kernel):
    problem = gn.bind(rotation_model(kernel=kernel), decay_data)
    at = jnp.asarray(points(problem.size)[0])
    observables = tuple(dataclasses.replace(o, dense_limit=1) for o in problem.observables)
    blocks = tuple(dataclasses.replace(m, lags=None) for m in problem.measured)
    other = dataclasses.replace(problem, observables=observables, measured=blocks)
    dense, linear = (jax.jit(lambda at, p=p: p.value_and_grad(at))(at) for p in (problem, other))
    assert float(linear[0]) == pytest.approx(float(dense[0]), rel=1e-11)
    assert np.allclose(linear[1], dense[1], rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_linear_time_is_taken_for_long_series_of_kernels_that_allow_it():
    """A dense covariance of this length would take 3 GB."""
    t = np.linspace(0.0, 10.0, 20_000)
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


def test_a_series_too_long_for_a_matrix_is_refused_before_it_takes_memory():
    """With what to do instead, which is taken."""
    times = np.linspace(0.0, 10.0, 4001)
    data = gn.Observations({"x": (times, np.exp(-0.3 * times))})
    decay = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)})
    with pytest.raises(gn.ModelError, match=r"'x' has 4001 measurements.*Matern32\(\).*kernel=None"):
        gn.bind(gn.Model(decay), data)
    assert gn.bind(gn.Model(decay, kernel=gn.kernels.Matern32()), data).measured[0].lags is None
