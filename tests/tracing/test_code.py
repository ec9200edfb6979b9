"""Every kind of operation in scalar code against array code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpnode.solvers import FixedGrid, Native, Status, unsupported
from support.pendulum import PARAMS, TIMES, X0

FIELDS = {
    "powers": lambda t, x, p: jnp.stack([x[0] ** 2 * p["b"] - x[1] ** -1 + 3.0, x[0] ** 0.5 * p["a"][0]]),
    "transcendental": lambda t, x, p: jnp.stack([jnp.exp(-x[0]) * jnp.sin(x[1] + t), jnp.log1p(x[0] ** 2) - x[1]]),
    "saturation": lambda t, x, p: jnp.stack([jax.nn.sigmoid(x[0]) - jnp.tanh(p["b"] * x[1]), x[0] / (1.0 + x[1] ** 2)]),
    "matrix": lambda t, x, p: jnp.outer(p["a"][:2], x) @ x - p["b"] * x,
    "einsum": lambda t, x, p: jnp.einsum("i,j,j->i", x, x, p["a"][1:]),
    "branches": lambda t, x, p: jnp.where(x > 0.5, -p["b"] * x, p["a"][:2] * x**2),
    "extremes": lambda t, x, p: jnp.stack([jnp.maximum(x[0], x[1]) - x[0], jnp.clip(x[1], 0.1, 0.5) * p["b"]]),
    "reductions": lambda t, x, p: jnp.stack([jnp.sum(x * p["a"][1:]), jnp.prod(x) - jnp.mean(x)]),
    "indexing": lambda t, x, p: jnp.zeros(2).at[1].set(x[0] * p["a"][2]).at[0].set(-x[1]),
    "rearranged": lambda t, x, p: jnp.concatenate([x[::-1], p["a"]])[:2] * jnp.roll(x, 1),
    "inner jit": lambda t, x, p: jax.jit(lambda y: y * p["b"] - y**3)(x),
    "special": lambda t, x, p: jnp.stack([jax.scipy.special.erf(x[0]) - x[1], jnp.arctan2(x[0], x[1])]),
}


@pytest.fixture(scope="module")
def all_fields():
    """Paths and Jacobians of all the fields side by side, by native and by array code: compiling once is enough."""

    def all_operations(t, x, p):
        return jnp.concatenate([field(t, x[2 * i : 2 * i + 2], p) for i, field in enumerate(FIELDS.values())])

    starts = jnp.tile(X0, len(FIELDS))
    every = tuple(range(starts.size))
    return [
        s.solve_with_jacobian(all_operations, PARAMS, starts, TIMES, every)
        for s in (Native(tolerance=1.0), FixedGrid())
    ]


@pytest.mark.parametrize("name", FIELDS)
def test_every_kind_of_operation(all_fields, name):
    (native, by_native), (array, by_array) = all_fields
    at = slice(2 * list(FIELDS).index(name), 2 * list(FIELDS).index(name) + 2)
    assert int(native.status) == int(array.status) == Status.OK
    assert np.abs(array.xs[-1, at] - X0).max() > 1e-3
    assert np.allclose(native.xs[:, at], array.xs[:, at], rtol=1e-12, atol=1e-13)
    assert np.allclose(by_native[:, at], by_array[:, at], rtol=1e-9, atol=1e-11)


def test_a_system_too_large_for_scalar_code_is_refused():
    reason = unsupported(lambda t, x, p: p["m"] @ jnp.tanh(x), {"m": jnp.zeros((120, 120))}, 120)
    assert reason is not None
    assert "Jacobian" in reason


def test_numbers_cut_to_integers_are_refused():
    reason = unsupported(lambda t, x, p: x.astype(int) * p["k"], {"k": jnp.ones(())}, 1)
    assert reason is not None
    assert "from float64 into int64" in reason
