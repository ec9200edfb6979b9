"""The start ladder over many data sets."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.starting.search import find_candidates
from gpnode.inference.starting.settings import Search
from gpnode.studies import glycolysis, predator_prey


def misses(study, model, seeds):
    """Data seeds whose best candidate strays from the true path by more than twice the noise."""
    missed = []
    for seed in seeds:
        data = study.simulate(seed)
        problem = gn.bind(model, data)
        best = find_candidates(problem, jax.random.key(seed), Search(), lambda what: None).candidates[0]
        paths = problem.solve(problem.constrain(jnp.asarray(best.unconstrained)))
        for block in problem.measured:
            observable = problem.observables[block.observable]
            times = np.asarray(problem.scaling.user_time(problem.nodes[0][block.rows]))
            path = np.asarray(paths.xs[0, block.rows, observable.state] * problem.scaling.state_scale[observable.state])
            truth = study.true_path(np.clip(times, 0.0, study.END))[:, observable.state]
            if np.sqrt(np.mean((path - truth) ** 2)) > 2.0 * study.noise_std()[observable.state]:
                missed.append((seed, observable.variable))
    return missed


LADDERS = [(predator_prey, predator_prey.dictionary), (glycolysis, glycolysis.model)]


@pytest.mark.slow
def test_start_ladder_finds_the_basin():
    assert misses(predator_prey, predator_prey.dictionary(), range(1)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("study", "model"), LADDERS, ids=["dictionary", "glycolysis"])
def test_start_ladder_finds_the_basin_19_times_in_20(study, model):
    missed = misses(study, model(), range(20))
    assert len({seed for seed, _ in missed}) <= 1, missed
