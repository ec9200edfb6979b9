"""Starts that several tests of inference set out from."""

from __future__ import annotations

import jax
import pytest

import gpnode as gn
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.start import Start
from support.small_problems import decay_data, decay_model, on_the_edge


@pytest.fixture(scope="session")
def data() -> gn.Observations:
    return decay_data()


@pytest.fixture(scope="session")
def start(data) -> Start:
    return find_start(gn.bind(decay_model(), data), jax.random.key(0), gn.Laplace(), lambda what: None)


@pytest.fixture(scope="session")
def running_apart() -> Start:
    return find_start(gn.bind(*on_the_edge()), jax.random.key(0), gn.Laplace(), lambda stage: None)
