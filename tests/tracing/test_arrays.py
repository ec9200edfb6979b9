"""Operations by NumPy against JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from gpnode.tracing.arrays import at_once

X = np.linspace(-1.5, 2.5, 6).reshape(2, 3)

FUNCTIONS = {
    "arithmetic": lambda x: x**3 / (1.0 + x**2) - jnp.exp(-x) * jnp.tanh(x) + jnp.sqrt(jnp.abs(x)) ** 0.5,
    "choices": lambda x: jnp.where((x > 0) & ~(x > 2), jnp.log1p(jnp.abs(x)), jnp.minimum(x, -1.0)),
    "not numbers": lambda x: jnp.where(jnp.isfinite(jnp.log(x)), 1, 0),
    "reductions": lambda x: jnp.stack([x.sum(axis=1), x.prod(axis=1), x.max(axis=1), x.min(axis=1)]),
    "truths": lambda x: jnp.stack([(x > 0).all(axis=0), (x > 0).any(axis=0)]),
    "moves": lambda x: jnp.concatenate([x.T[::-1], jnp.broadcast_to(x[:1, 1:], (3, 2))], axis=1)[:, 1:4:2],
    "pieces": lambda x: jnp.stack(jnp.split(x, 3, axis=1))[..., 0].reshape(-1),
    "counting": lambda x: jnp.arange(3) * x + jnp.eye(3)[:2].astype(int),
    "indices": lambda x: x.at[0, 1].set(7.0)[np.array([1, 0]), np.array([2, 1])],
    "integers": lambda x: jnp.sign(jnp.arange(-2, 4).reshape(2, 3) // 2) + jnp.round(x).astype(int),
    "what NumPy lacks": lambda x: jax.nn.logsumexp(x, axis=0) + jax.scipy.special.gammaln(3.0 + x[0]),
    "inner functions": lambda x: jax.jit(lambda y: jax.vmap(jnp.cumsum)(y))(x) + jax.jvp(jnp.sin, (x,), (x,))[1],
    "matrices": lambda x: x @ x.T,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_those_of_jax(name):
    wanted, found = jax.jit(FUNCTIONS[name])(X), at_once(FUNCTIONS[name], X)
    assert found.dtype == wanted.dtype
    assert np.allclose(found, wanted, rtol=1e-14, atol=1e-15, equal_nan=True)


def test_structures_come_back_whole():
    prior = at_once(dist.Beta, np.ones(2), np.array([2.0, 3.0]))
    assert np.allclose(prior.mean, [1 / 3, 1 / 4])
    assert at_once(lambda named: {k: v + 1 for k, v in named.items()}, {"b": 1.0, "a": 2.0}) == {"a": 3.0, "b": 2.0}


def test_it_follows_a_caller_that_is_traced():
    outer = jax.jit(lambda x: at_once(lambda y: y * x, jnp.ones(3)) + at_once(jnp.sin, x))
    assert np.allclose(outer(2.0), 2.0 + np.sin(2.0))
    assert np.isclose(jax.grad(lambda x: at_once(jnp.sin, x))(0.5), np.cos(0.5))
