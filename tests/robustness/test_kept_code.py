"""Compiled code is kept between runs, so it must not depend on the process that compiles it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest
from numpyro import distributions as dist

from gpnode.model.priors.ordering import sort_numbers

LOWERED = """
import hashlib
import equinox as eqx
import jax.numpy as jnp
import gpnode as gn
from gpnode.problem.evaluation import value_and_grad
field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.Uniform(0.1, 2.0)})
data = gn.Observations({"x": ([0.0, 1.0, 2.0, 3.0], [5.0, 3.0, 2.0, 1.5])})
problem = gn.bind(gn.Model(field, initial={"x": gn.TruncatedNormal(5.0, 1.0, low=0.0)}), data)
lowered = eqx.filter_jit(value_and_grad.__wrapped__).lower(problem, jnp.zeros(problem.size))
print(hashlib.sha256(lowered.as_text().encode()).hexdigest())
"""


@pytest.mark.slow
def test_code_is_the_same_in_every_process():
    found = [
        subprocess.run(
            [sys.executable, "-c", LOWERED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("3", "4")  # in which unsorted numbers come in different orders
    ]
    assert found[0] == found[1]


PRIORS = [
    dist.Normal(1.0, 2.0),
    dist.LogNormal(0.5, 0.3),
    dist.Uniform(0.1, 2.0),
    dist.Gamma(2.0, 3.0),
    dist.TruncatedNormal(1.0, 2.0, low=0.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_an_orderly_distribution_is_the_same_distribution(prior):
    found = sort_numbers({"prior": prior})["prior"]
    assert isinstance(found, type(prior))
    assert sort_numbers(found) is found
    copies = [found, pickle.loads(pickle.dumps(found)), jax.tree.map(lambda leaf: leaf, found)]
    for own in copies:
        assert type(own) is type(found)
        assert float(own.log_prob(0.7)) == float(prior.log_prob(0.7))
        key = jax.random.key(0)
        assert np.array_equal(own.sample(key), prior.sample(key))
    assert len(jax.tree.leaves(found)) == len(jax.tree.leaves(prior))
