"""The numbers that equations are written with: means over draws, or one draw where means do not fit the data.

Draws may lie on a curved surface, whose centre is not on it: means over draws then give a path that no draw has.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import computing
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.results.posterior import Posterior
from gpnode.solvers import Status

_COMPARED, _CHOSEN_FROM = 200, 1000  # draws


@dataclass(frozen=True)
class Representative:
    """Parameters in internal units that stand for all draws of a form: their mean, or the most likely of them."""

    values: Values
    is_mean: bool


@computing()
def represent(posterior: Posterior, draws: np.ndarray, written: dict[str, np.ndarray]) -> Representative:
    """What the equations of these ``draws`` (indices over all chains) are written with.

    ``written`` holds 1 for the coefficients that are written and 0 for the others, by name and in the order in which
    they are sampled. Means are taken unless their path is less likely than that of half the draws; then the most likely
    draw is.
    """
    problem = posterior.problem
    assert problem is not None  # the caller has asked
    flat = posterior.unconstrained.reshape(-1, posterior.unconstrained.shape[-1])
    values = {name: np.asarray(value)[draws] for name, value in _constrain(problem, jnp.asarray(flat)).items()}
    values |= {name: values[name] * mask for name, mask in written.items()}
    mean = {name: value.mean(axis=0) for name, value in values.items()}
    # One set of scales for all, so that paths alone are compared.
    scales = {name: value for name, value in mean.items() if name not in problem.path_names}

    def likelihoods(most: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Of up to so many draws, spread over all: which, how likely they are, and how likely their mean is."""
        chosen = np.linspace(0, len(draws) - 1, min(most, len(draws))).astype(int)
        rows = np.resize(chosen, most)  # as many for every form, so that one compiled function is enough
        some = {name: np.concatenate([value[rows], mean[name][None]]) for name, value in values.items()}
        paths = {name: jnp.asarray(value) for name, value in some.items() if name not in scales}
        likely = np.asarray(_log_likelihoods(problem, jnp.arange(most + 1), paths, scales))
        return chosen, likely[: chosen.size], float(likely[-1])

    _, likely, likely_mean = likelihoods(_COMPARED)
    solved = likely[np.isfinite(likely)]
    if not solved.size or likely_mean >= np.median(solved):
        return Representative(mean, True)
    chosen, likely, _ = likelihoods(_CHOSEN_FROM)
    best = chosen[int(np.argmax(likely))]
    return Representative({name: value[best] for name, value in values.items()}, False)


@eqx.filter_jit
def _constrain(problem: Problem, draws: Array) -> Values:
    return jax.vmap(problem.constrain)(draws)


@eqx.filter_jit
def _log_likelihoods(problem: Problem, rows: Array, paths: Values, scales: Values) -> Array:
    """For the ``rows`` of what moves the path (draws, ...), with the same scales."""

    def one(row: Array) -> Array:
        parts, status = problem.log_likelihood({name: value[row] for name, value in paths.items()} | scales)
        total = jnp.sum(parts)
        return jnp.where((status == Status.OK) & jnp.isfinite(total), total, -jnp.inf)

    return jax.lax.map(one, rows)
