"""What the data did for each number, and what the Gaussian process did for the fit."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import compiled_for_few_calls, computing
from gpnode.inference.sampled import pick_evenly
from gpnode.problem.density import Problem
from gpnode.problem.factorisation import factorise
from gpnode.results.posterior import Posterior

_PRIOR_DRAWS = 2000
_AUDITED_DRAWS = 200


@dataclass(frozen=True)
class Shares:
    """Where the variation of one measured variable comes from, as parts of one; medians over draws.

    ``ode`` is explained by the equations, ``process`` by the Gaussian process on top of them,
    ``noise`` by neither. A path that misses the data has a negative ``ode``.
    """

    ode: float
    process: float
    noise: float


@computing()
def process_shares(posterior: Posterior) -> dict[str, Shares]:
    """How much of each measured variable the equations explain, and how much the Gaussian process absorbs."""
    problem = posterior.problem
    if problem is None:
        return {}
    chosen = pick_evenly(posterior.solved.unconstrained, _AUDITED_DRAWS)
    if not len(chosen):
        return {}
    sums = np.asarray(_sums_of_squares(problem, jnp.asarray(chosen)))  # draws, observables, 3
    by_variable = {}
    for c, observable in enumerate(problem.observables):
        total, missed, left = sums[:, c].T
        shares = np.median(np.stack([total - missed, missed - left, left]) / total, axis=1)
        by_variable[observable.variable] = Shares(*(float(s) for s in shares))
    return by_variable


@eqx.filter_jit
def _sums_of_squares(problem: Problem, draws: Array) -> Array:
    """Of each observable (draws, observables, 3): the data about their mean, about the path, about path and process."""

    def one(u: Array) -> Array:
        values = problem.constrain(u)
        residuals, _ = problem.residuals(problem.solve(values))
        sums = jnp.zeros((len(problem.observables), 3))
        for block, residual in zip(problem.measured, residuals, strict=True):
            observable = problem.observables[block.observable]
            left = residual
            if observable.kernel is not None:
                # What the process leaves is the noise's share of the covariance applied to the weights.
                weights = factorise(observable.noisy_cov(values, block.gp_times)).inverse @ residual
                left = residual - observable.signal_cov(values, block.gp_times, block.gp_times) @ weights
            centred = block.y - jnp.mean(block.y)
            sums = sums.at[block.observable].add(jnp.stack([centred @ centred, residual @ residual, left @ left]))
        return sums

    return jax.lax.map(one, draws)


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
