"""Distributions whose numbers are in order are the same distributions."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from numpyro import distributions as dist

from gpnode.model.priors.ordering import sort_numbers

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
