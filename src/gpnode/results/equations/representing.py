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

    def likelihoods(most: int) -> tuple[list[Values], np.ndarray]:
        """Of up to so many draws, spread over all."""
        chosen = np.linspace(0, len(draws) - 1, min(most, len(draws))).astype(int)
        some = [{name: value[i] for name, value in values.items()} for i in chosen]
        return some, np.array([float(_log_likelihood(problem, one | scales)) for one in some])

    _, likely = likelihoods(_COMPARED)
    solved = likely[np.isfinite(likely)]
    if not solved.size or float(_log_likelihood(problem, mean)) >= np.median(solved):
        return Representative(mean, True)
    some, likely = likelihoods(_CHOSEN_FROM)
    return Representative(some[int(np.argmax(likely))], False)


@eqx.filter_jit
def _constrain(problem: Problem, draws: Array) -> Values:
    return jax.vmap(problem.constrain)(draws)


@eqx.filter_jit
def _log_likelihood(problem: Problem, values: Values) -> Array:
    parts, status = problem.log_likelihood(values)
    total = jnp.sum(parts)
    return jnp.where((status == Status.OK) & jnp.isfinite(total), total, -jnp.inf)
