"""Comparing models by how well each measurement is predicted from all the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from gpnode._threads import one_blas_thread
from gpnode.errors import ModelError
from gpnode.inference.stopping.statistics import arviz
from gpnode.problem.binding import data_fingerprint
from gpnode.problem.density import Problem
from gpnode.problem.factorisation import factorise
from gpnode.results.posterior import Posterior

_MOST_DRAWS = 1000


@one_blas_thread()
def pointwise_log_density(posterior: Posterior) -> np.ndarray:
    """Log density (chains, draws, measurements) of each measurement given the others and the parameters.

    Measurements of one variable are correlated through the Gaussian process; leaving one out of
    a normal density has a closed form in the inverse covariance.
    """
    if posterior.problem is None:
        raise ModelError("comparing models needs them: load the posterior with Posterior.load(path, model=...).")
    draws = posterior.solved.unconstrained
    step = max(1, draws.shape[0] * draws.shape[1] // _MOST_DRAWS)
    kept = draws[:, ::step]
    found = _pointwise(posterior.problem, jnp.asarray(kept.reshape(-1, kept.shape[-1])))
    return np.asarray(found).reshape(*kept.shape[:2], -1)


@eqx.filter_jit
def _pointwise(problem: Problem, draws: Array) -> Array:
    def one(u: Array) -> Array:
        values = problem.constrain(u)
        residuals, _ = problem.residuals(problem.solve(values))
        found = []
        for block, residual in zip(problem.measured, residuals, strict=True):
            observable = problem.observables[block.observable]
            if observable.kernel is None:
                precision = jnp.full(residual.shape, 1.0 / observable.noise_var(values))
                surprise = residual
            else:
                inverse = factorise(observable.noisy_cov(values, block.gp_times)).inverse
                precision = jnp.diag(inverse)
                surprise = (inverse @ residual) / precision
            found.append(0.5 * (jnp.log(precision / (2.0 * jnp.pi)) - precision * surprise**2))
        return jnp.concatenate(found)

    return jax.lax.map(one, draws)


def _with_likelihood(posterior: Posterior) -> Any:
    values = pointwise_log_density(posterior)
    # arviz reads the length of the chains off the posterior; which variable it holds does not matter.
    return arviz().from_dict(posterior={"total": values.sum(axis=2)}, log_likelihood={"measurements": values})


def loo(posterior: Posterior) -> Any:
    """Expected log density of a measurement left out, by Pareto-smoothed importance sampling (arviz ``ELPDData``)."""
    return arviz().loo(_with_likelihood(posterior), pointwise=True)


def compare(posteriors: Mapping[str, Posterior]) -> pd.DataFrame:
    """Models fitted to the same data, best first, with differences and their standard errors."""
    fingerprints = {data_fingerprint(p.data) for p in posteriors.values()}
    if len(fingerprints) > 1:
        raise ModelError("these posteriors come from different data and cannot be compared.")
    return arviz().compare({name: _with_likelihood(p) for name, p in posteriors.items()}, ic="loo")
