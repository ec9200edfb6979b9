"""The order of parameters."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

import gpnode as gn
from support.known import DATA, known


def test_order_of_parameters_survives_compilation():
    """JAX sorts dictionaries; parameters named out of alphabetical order must not be swapped."""
    f = lambda t, x, p: {"x": -p.zeta * x.x + p.alpha}
    model = gn.Model(known(f=f, prior={"zeta": gn.Uniform(0.0, 1.0), "alpha": gn.Uniform(10.0, 20.0)}), kernel=None)
    problem = gn.bind(model, DATA)
    u = jnp.arange(problem.size, dtype=float) / 10
    inside = eqx.filter_jit(lambda p, v: p.constrain(v))(problem, u)
    outside = problem.constrain(u)
    assert {n: float(v) for n, v in inside.items()} == {n: float(v) for n, v in outside.items()}
    assert list(problem.dims()) == ["zeta", "alpha", "x.initial", "x.noise_additive", "x.noise_proportional"]
