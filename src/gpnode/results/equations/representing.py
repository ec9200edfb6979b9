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

_COMPARED_DRAWS = 200


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
    chosen = np.linspace(0, len(draws) - 1, min(_COMPARED_DRAWS, len(draws))).astype(int)
    others = [{name: value[i] for name, value in values.items()} for i in chosen]
    # One set of scales for all, so that paths alone are compared.
    scales = {name: value for name, value in mean.items() if name not in problem.path_names}
    likely = np.array([float(_log_likelihood(problem, candidate | scales)) for candidate in [mean, *others]])
    if likely[0] >= np.median(likely[1:]):
        return Representative(mean, True)
    return Representative(others[int(np.argmax(likely[1:]))], False)


@eqx.filter_jit
def _constrain(problem: Problem, draws: Array) -> Values:
    return jax.vmap(problem.constrain)(draws)


@eqx.filter_jit
def _log_likelihood(problem: Problem, values: Values) -> Array:
    parts, status = problem.log_likelihood(values)
    total = jnp.sum(parts)
    return jnp.where((status == Status.OK) & jnp.isfinite(total), total, -jnp.inf)
