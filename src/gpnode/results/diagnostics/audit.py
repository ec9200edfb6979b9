"""What the data did for each number."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from gpnode._config import compiled_for_few_calls
from gpnode.problem.density import Problem
from gpnode.results.posterior import Posterior

_PRIOR_DRAWS = 2000


def widths_against_prior(posterior: Posterior) -> dict[str, float]:
    """Interquartile range of each number over that of its prior: near one, the data said nothing about it.

    Coefficients of a dictionary and the scales of their prior are left out: there the probability that a
    term is active says what the data did.
    """
    problem = posterior.problem
    if problem is None:
        return {}
    moving = problem.dynamics.parameter_names
    left_out = {name for name, dims in problem.dynamics.dims().items() if dims or name not in moving}
    scalars = {name: draws for name, draws in posterior.scalars() if name not in left_out}
    prior = _prior_draws(problem, tuple(scalars), jax.random.key(0))
    ratios = {}
    for name, draws in scalars.items():
        if name in prior:
            width = np.subtract(*np.quantile(draws, [0.75, 0.25]))
            ratios[name] = float(width / np.subtract(*np.quantile(np.asarray(prior[name]), [0.75, 0.25])))
    return ratios


@compiled_for_few_calls
def _prior_draws(problem: Problem, wanted: tuple[str, ...], key: Array) -> dict[str, Array]:
    """Of the numbers wanted; nothing is compiled for the others."""

    def one(key: Array) -> dict[str, Array]:
        path_key, hyper_key = jax.random.split(key)
        drawn = problem.report(problem.draw_path_prior(path_key, problem.hyper_block.draw(hyper_key)))
        return {name: drawn[name] for name in wanted if name in drawn}

    return jax.vmap(one)(jax.random.split(key, _PRIOR_DRAWS))
