"""Whole posteriors of the lifted sampler against NUTS, and against its own prior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gpnode as gn

TIMES = np.linspace(0.0, 4.0, 12)


def small_dictionary() -> gn.Model:
    """Three terms, one unknown start; scales are fixed, so that the prior does not look at the data."""
    prior = gn.FinnishHorseshoe(expected_terms=1.0, slab_scale=0.5, slab_dof=4.0)
    return gn.Model(
        gn.Dictionary(["x"], gn.polynomial(2), prior=prior),
        initial={"x": gn.Normal(1.0, 0.2)},
        kernel=gn.kernels.SquaredExponential(variance=gn.LogNormal(-4.0, 0.5), length_scale=gn.LogNormal(-1.0, 0.3)),
        noise=gn.Noise(std=gn.LogNormal(-3.0, 0.3)),
        scales={"x": 2.0},
        time_unit=1.0,
    )


def simulate(model: gn.Model, key):
    """A prior draw whose path can be solved, as unconstrained vector, and data made from it."""
    problem = gn.bind(model, gn.Observations({"x": (TIMES, 1.0 + TIMES)}, start=0.0))
    for attempt in range(1000):
        path_key, hyper_key, noise_key = jax.random.split(jax.random.fold_in(key, attempt), 3)
        truth = problem.draw_path_prior(path_key, problem.hyper_block.draw(hyper_key))
        values = problem.constrain(truth)
        paths = problem.solve(values)
        if int(paths.status.max()) == 0 and float(jnp.abs(paths.xs).max()) < 1e3:
            break
    block, observable = problem.measured[0], problem.observables[0]
    root = jnp.linalg.cholesky(observable.noisy_cov(values, block))
    y = paths.xs[0, block.rows, 0] + root @ jax.random.normal(noise_key, (TIMES.size,))
    return problem, truth, gn.Observations({"x": (TIMES, np.asarray(2.0 * y))}, start=0.0)


@pytest.mark.slow
def test_agrees_with_a_long_run_of_nuts():
    model = small_dictionary()
    _, _, data = simulate(model, jax.random.key(8))
    reference = gn.fit(model, data, method=gn.NUTS(draws=5000, target_accept=0.98), seed=1, progress=False)
    lifted_fit = gn.fit(model, data, method=gn.Lifted(draws=5000), seed=2, progress=False)
    assert float(reference.stats["diverging"].mean()) < 0.002
    assert reference.diagnose().converged
    assert lifted_fit.diagnose().converged
    for name, values in dict(reference.scalars()).items():
        other = dict(lifted_fit.scalars())[name]
        for functional in (np.mean, np.std, lambda v: np.quantile(v, 0.05), lambda v: np.quantile(v, 0.95)):
            parts = [np.array([functional(p) for c in v for p in np.split(np.asarray(c), 5)]) for v in (values, other)]
            error = np.sqrt(sum(p.var(ddof=1) / p.size for p in parts))
            assert abs(parts[0].mean() - parts[1].mean()) < 5.0 * error, name


@pytest.mark.slow
def test_ranks_of_prior_draws_are_uniform():
    """Simulation-based calibration: among draws of the posterior, the truth may rank anywhere."""
    model, ranks = small_dictionary(), []
    for i in range(80):
        problem, truth, data = simulate(model, jax.random.key(i))
        posterior = gn.fit(model, data, method=gn.Lifted(draws=600, warmup=300, chains=2), seed=i, progress=False)
        draws = posterior.unconstrained.reshape(-1, problem.size)[::20]
        ranks.append((draws < np.asarray(truth)).mean(axis=0))
    bins = np.stack([np.histogram(r, bins=8, range=(0.0, 1.0))[0] for r in np.array(ranks).T])
    p_values = stats.chisquare(bins, axis=1).pvalue
    assert p_values.min() > 0.01 / len(p_values), bins
