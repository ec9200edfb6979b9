"""Probabilities of forms against brute force: the evidence of each of the 2^K sets of acting terms by quadrature."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import gpnode as gn
from gpnode.inference.stopping.statistics import bulk_ess

PRIOR = gn.priors.SpikeAndSlab(expected_terms=1.0, spike_std=0.02, slab_stds=(0.5, 2.0))
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def problem_of(path, terms, noise_std, count, end, seed):
    """A model whose terms alone are unknown, and measurements of ``path``."""
    times = np.linspace(0.0, end, count)
    values = path(times) + noise_std * np.random.default_rng(seed).normal(size=count)
    library = sum(terms[1:], terms[0])
    model = gn.Model(
        gn.Dictionary(["x"], library, prior=PRIOR),
        initial={"x": float(path(0.0))},
        kernel=None,
        noise=gn.Noise(std=noise_std, relative=False),
        scales={"x": 1.0},
        time_unit=1.0,
    )
    return model, gn.Observations({"x": (times, values)}, start=0.0)


def power(n):
    return gn.term(f"x^{n}", lambda x: x.x**n)


def decay(t):
    return np.exp(-0.4 * np.asarray(t))


def growth(t):
    return 1.0 / (1.0 + 4.0 * np.exp(-0.9 * np.asarray(t)))


PROBLEMS = {
    "constant or linear": (decay, (power(0), power(1)), 0.15, 8, 2.0),
    "linear or quadratic": (decay, (power(1), power(2)), 0.1, 10, 3.0),
    "quadratic or cubic": (decay, (power(2), power(3)), 0.05, 10, 2.0),
    "growth of three terms": (growth, (power(0), power(1), power(2)), 0.1, 12, 5.0),
    "growth seen early": (growth, (power(1), power(2), power(3)), 0.1, 8, 2.0),
    "nothing acts": (lambda t: 1.0 + 0.0 * np.asarray(t), (power(1), power(2)), 0.1, 8, 1.0),
}


def exact_probabilities(model, data):
    """Probability of every set of acting terms, by Gauss-Hermite quadrature about the maximum of each."""
    problem = gn.bind(model, data).tightly_solved()
    block = problem.dynamics.block
    size = len(block.groups)
    log_likelihood = jax.jit(jax.vmap(lambda coef: jnp.sum(problem.log_likelihood({"coef": coef})[0])))
    spike, *slabs = np.sqrt(np.asarray(block.variances))
    b = float(block.inclusion_prior.concentration0[0])

    def log_prior(coef, acts):
        normal = [-0.5 * (coef / s) ** 2 - np.log(s * np.sqrt(2 * np.pi)) for s in (spike, *slabs)]
        slab = np.logaddexp.reduce(normal[1:], axis=0) - np.log(len(slabs))
        return np.where(acts, slab, normal[0]).sum(axis=-1)

    evidences = {}
    for acts in itertools.product((False, True), repeat=size):
        on = np.array(acts)

        def log_joint(coef, on=on):
            values = np.asarray(log_likelihood(jnp.asarray(coef)))
            return np.where(np.isfinite(values), values, -1e10) + log_prior(coef, on)

        def negative(coef, log_joint=log_joint):
            return -float(log_joint(coef[None])[0])

        best = min(
            (
                scipy.optimize.minimize(negative, s * on, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8})
                for s in (0.01, 0.3, -0.3, -1.0)
            ),
            key=lambda fit: fit.fun,
        ).x
        steps = 1e-4 * np.eye(size)
        hessian = np.array(
            [
                [
                    (negative(best + a + c) - negative(best + a - c) - negative(best - a + c) + negative(best - a - c))
                    / 4e-8
                    for a in steps
                ]
                for c in steps
            ]
        )
        root = np.linalg.cholesky(np.linalg.inv(hessian))
        z = np.array(list(itertools.product(NODES, repeat=size)))
        weights = np.prod(list(itertools.product(WEIGHTS, repeat=size)), axis=1)
        points = best + z @ root.T
        log_terms = log_joint(points) + 0.5 * (z**2).sum(axis=1) + np.log(weights)
        log_evidence = scipy.special.logsumexp(log_terms) + np.linalg.slogdet(root)[1]
        k = on.sum()
        evidences[acts] = log_evidence + scipy.special.betaln(1 + k, b + size - k) - scipy.special.betaln(1, b)
    total = scipy.special.logsumexp(list(evidences.values()))
    return {acts: float(np.exp(e - total)) for acts, e in evidences.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_probabilities_of_forms_are_those_of_brute_force(name):
    model, data = problem_of(*PROBLEMS[name], seed=1)
    exact = exact_probabilities(model, data)
    posterior = gn.fit(model, data, method=gn.Lifted(draws=8000, warmup=400, chains=4), seed=0, progress=False)
    acting = posterior.draws["coef.acting"].to_numpy()[:, :, 0]  # chain, draw, term
    for acts, probability in exact.items():
        # Given coefficients and inclusion, indicators are independent: their product has less Monte Carlo error.
        values = np.prod(np.where(acts, acting, 1.0 - acting), axis=-1)
        error = values.std() / np.sqrt(max(bulk_ess(values), 1.0))
        assert abs(values.mean() - probability) < 4.0 * error + 0.005, (acts, values.mean(), probability, error)


@pytest.mark.slow
def test_the_equation_as_written_has_the_most_probable_form():
    model, data = problem_of(growth, (power(0), power(1), power(2)), 0.01, 25, 8.0, seed=0)
    posterior = gn.fit(model, data, method=gn.Lifted(draws=500, warmup=200, chains=2), seed=0, progress=False)
    found = posterior.equations()
    best = found.systems[0]
    assert best.terms == {"x": ("x^1", "x^2")}
    assert best.probability > 0.8
    terms = {t.term: t for t in found.equations[0].terms}
    assert [t for t, estimate in terms.items() if estimate.likely] == ["x^1", "x^2"]
    assert terms["x^1"].low < 0.9 < terms["x^1"].high
    assert terms["x^2"].low < -0.9 < terms["x^2"].high
    assert terms["x^0"].probability < 0.3
    assert "most probable forms" in str(found)
