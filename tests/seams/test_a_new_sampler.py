"""A sampler of thirty lines goes through fit, checkpoint, resume and verdict; nothing else knows of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.formats.problem_toml import read_problem, write_problem
from gpnode.inference.checks import Check
from gpnode.inference.samplers.base import Sampler, Transition
from gpnode.inference.samplers.registry import METHODS
from support.small_problems import decay_data, decay_model


class State(NamedTuple):
    z: jax.Array
    log_density: jax.Array
    key: jax.Array
    step: jax.Array


@METHODS.add
@dataclass(frozen=True)
class Metropolis(Sampler):
    """Random-walk Metropolis in whitened coordinates."""

    name: ClassVar[str] = "metropolis"
    size: float = 0.9

    def init(self, problem, whitening, z, key):
        return State(z, problem.log_density(whitening.point(z))[0], key, jnp.asarray(0))

    def step(self, problem, whitening, state):
        key, walk_key, accept_key = jax.random.split(state.key, 3)
        z = state.z + self.size * jax.random.normal(walk_key, state.z.shape)
        value, status = problem.log_density(whitening.point(z))
        accepted = jnp.log(jax.random.uniform(accept_key)) < value - state.log_density
        z, value = jnp.where(accepted, z, state.z), jnp.where(accepted, value, state.log_density)
        warming, no = state.step < self.warmup, jnp.asarray(False)
        transition = Transition(whitening.point(z), value, no, status.astype(int), warming)
        return State(z, value, key, state.step + 1), transition

    def checks(self, stats, details):
        return [Check("walked", True, f"steps of {self.size:g}")]


LONG = Metropolis(draws=20_000, warmup=200, chains=2)


@pytest.fixture(scope="module")
def posterior():
    return gn.fit(decay_model(), decay_data(), method=LONG, progress=False)


@pytest.mark.slow
def test_its_draws_are_those_of_the_posterior(posterior):
    reference = gn.fit(decay_model(), decay_data(), method=gn.Lifted(draws=2000, chains=2), progress=False)
    for name in ("rate", "x.initial"):
        ours, theirs = (p.draws[name].to_numpy() for p in (posterior, reference))
        assert ours.mean() == pytest.approx(theirs.mean(), abs=0.15 * theirs.std())
        assert ours.std() == pytest.approx(theirs.std(), rel=0.15)


def test_the_verdict_speaks_of_it(posterior):
    verdict = posterior.diagnose()
    assert verdict.converged
    assert "walked: steps of 0.9" in str(verdict)
    short = gn.fit(decay_model(), decay_data(), method=dataclasses.replace(LONG, draws=60), progress=False)
    assert "Run longer: method=Metropolis(draws=120)" in str(short.diagnose())


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path):
    method = Metropolis(draws=40, warmup=20, chains=2)
    shorter = dataclasses.replace(method, draws=25)
    gn.fit(decay_model(), decay_data(), method=shorter, checkpoint=tmp_path, progress=False)
    assert gn.open_checkpoint(tmp_path, decay_model(), decay_data()).record.method == "metropolis"
    resumed = gn.fit(decay_model(), decay_data(), method=method, checkpoint=tmp_path, progress=False)
    whole = gn.fit(decay_model(), decay_data(), method=method, progress=False)
    assert np.array_equal(resumed.unconstrained, whole.unconstrained)


def test_files_and_problems_name_it(posterior, tmp_path):
    posterior.save(tmp_path / "posterior.nc")
    assert gn.Posterior.load(tmp_path / "posterior.nc").record.sampler() == LONG
    decay_data().to_long()[["time", "value"]].rename(columns={"value": "x"}).to_csv(tmp_path / "data.csv", index=False)
    content = {"data": {"file": "data.csv"}, "model": {"degree": 1}, "sampler": {"method": "metropolis", "size": 0.3}}
    write_problem(content, tmp_path / "problem.toml")
    assert read_problem(tmp_path / "problem.toml").method == Metropolis(size=0.3)
