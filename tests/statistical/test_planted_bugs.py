"""Eight mistakes, planted one by one: a fit must then disagree with a posterior computed without gpnode."""

from __future__ import annotations

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import optimize, stats

import gpnode as gn
from gpnode.inference.stopping.statistics import bulk_ess
from gpnode.model.observation import kernels
from gpnode.model.observation.noise import Noise
from gpnode.model.priors import parameters
from gpnode.problem import binding, layout, measuring
from gpnode.problem import observables as likelihood
from gpnode.problem.covariance import RELATIVE_JITTER
from gpnode.problem.observables import Observable

# Decay x' = -k x with a Gaussian process and noise, and steady growth y' = c with noise alone.
K, C, X0, Y0 = 0.5, 1.5, 8.0, -2.0
PRIORS = {"k": (-0.5, 0.5), "variance": (-4.0, 0.6), "length_scale": (-1.5, 0.5), "noise": (-4.5, 0.4)}
GROWTH, INITIAL, Y_NOISE = (1.0, 2.0), (7.0, 2.0), (-2.0, 0.3)
NAMES = ["k", "c", "x.initial", "x.kernel.variance", "x.kernel.length_scale", "x.noise_std", "y.noise_std"]


def times() -> tuple[np.ndarray, np.ndarray]:
    return np.linspace(0.0, 5.0, 30), np.linspace(0.2, 4.6, 9)


def measurements() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    tx, ty = times()
    lag = np.subtract.outer(tx, tx) / 0.8
    process = np.linalg.cholesky(0.6 * np.exp(-0.5 * lag**2) + 1e-9 * np.eye(tx.size)) @ rng.normal(size=tx.size)
    return X0 * np.exp(-K * tx) + process + 0.1 * rng.normal(size=tx.size), Y0 + C * ty + 0.3 * rng.normal(size=ty.size)


def fitted() -> gn.Posterior:
    tx, ty = times()
    x, y = measurements()
    field = gn.KnownForm(
        ["x", "y"],
        lambda t, s, p: {"x": -p.k * s.x, "y": p.c},
        {"k": gn.LogNormal(*PRIORS["k"]), "c": gn.Normal(*GROWTH)},
    )
    kernel = kernels.SquaredExponential(
        variance=gn.LogNormal(*PRIORS["variance"]), length_scale=gn.LogNormal(*PRIORS["length_scale"])
    )
    model = gn.Model(
        field,
        initial={"x": gn.Normal(*INITIAL), "y": Y0},
        kernel={"x": kernel, "y": None},
        noise={"x": gn.Noise(std=gn.LogNormal(*PRIORS["noise"])), "y": gn.Noise(std=gn.LogNormal(*Y_NOISE))},
    )
    data = gn.Observations({"x": (tx, x), "y": (ty, y)}, start=0.0)
    return gn.fit(model, data, method=gn.NUTS(warmup=400, draws=1000, chains=2), seed=3, progress=False)


def log_posterior(u: np.ndarray) -> np.ndarray:
    """Of vectors (n, 7) in the order of NAMES, logarithms in place of positive numbers, in scaled units."""
    tx, ty = times()
    x, y = measurements()
    x_unit, y_unit, length = np.abs(x).max(), np.abs(y).max(), 5.0
    log_k, c, x0, log_var, log_len, log_noise, log_y_noise = u.T
    value = stats.norm(*GROWTH).logpdf(c) + stats.norm(*INITIAL).logpdf(x0) + stats.norm(*Y_NOISE).logpdf(log_y_noise)
    for name, log in (("k", log_k), ("variance", log_var), ("length_scale", log_len), ("noise", log_noise)):
        value = value + stats.norm(*PRIORS[name]).logpdf(log)
    y_path = Y0 + c[:, None] * ty
    value += stats.norm(0.0, np.exp(log_y_noise)[:, None]).logpdf((y - y_path) / y_unit).sum(axis=1)
    residual = (x - x0[:, None] * np.exp(-np.exp(log_k)[:, None] * tx)) / x_unit
    square = np.subtract.outer(tx, tx) ** 2 / length**2
    cov = np.exp(log_var)[:, None, None] * np.exp(-0.5 * square / np.exp(2 * log_len)[:, None, None])
    cov += (np.exp(2 * log_noise) * (1 + RELATIVE_JITTER))[:, None, None] * np.eye(tx.size)
    factor = np.linalg.cholesky(cov)
    white = np.linalg.solve(factor, residual[..., None])[..., 0]
    return value - 0.5 * (white**2).sum(axis=1) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)


@pytest.fixture(scope="module")
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Draws (n, 7) in user units and logarithms of positive numbers, with weights: importance sampling by hand."""
    guess = np.array([np.log(K), C, X0, -4.0, -1.8, -4.4, -2.5])
    found = optimize.minimize(lambda u: -log_posterior(u[None])[0], guess, method="BFGS")
    centre, cov = found.x, found.hess_inv
    for _ in range(4):  # each round learns from the one before
        proposal = stats.multivariate_t(centre, 1.2 * cov, df=8, seed=5)
        draws = proposal.rvs(16_000)
        log_weights = log_posterior(draws) - proposal.logpdf(draws)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        centre = weights @ draws
        cov = np.cov(draws.T, aweights=weights)
    x, y = measurements()
    shift = np.array([0, 0, 0, 2 * np.log(np.abs(x).max()), np.log(5.0), *np.log([np.abs(x).max(), np.abs(y).max()])])
    assert 1.0 / (weights**2).sum() > 2000
    return draws + shift, weights


def disagreements(posterior: gn.Posterior, reference: tuple[np.ndarray, np.ndarray]) -> list[str]:
    """Numbers whose mean or spread is off by more than Monte Carlo error can explain."""
    draws, weights = reference
    effective = 1.0 / (weights**2).sum()
    found = []
    for i, name in enumerate(NAMES):
        own = posterior.draws[name].to_numpy()
        own = own if name in ("c", "x.initial") else np.log(own)
        mean = weights @ draws[:, i]
        spread = np.sqrt(weights @ (draws[:, i] - mean) ** 2)
        fewest = min(bulk_ess(own), bulk_ess((own - own.mean()) ** 2))
        error = np.sqrt(1.0 / fewest + 1.0 / effective)
        if abs(own.mean() - mean) > 5.0 * spread * error or abs(np.log(own.std() / spread)) > 5.0 * error:
            found.append(f"{name}: {own.mean():.3f} ± {own.std():.3f}, wanted {mean:.3f} ± {spread:.3f}")
    return found


# -- the mistakes ----------------------------------------------------------------------------


def half_dropped(patch):
    patch.setattr(kernels.SquaredExponential, "shape", lambda self, h, lag: jnp.exp(-((lag / h["length_scale"]) ** 2)))


def variance_for_std(patch):
    def scaled_var(self, values, prefix, unit, level):
        return values[f"{prefix}.{self.kind}"]

    patch.setattr(Noise, "scaled_var", scaled_var)


def prior_off_by_a_square_root(patch):
    def log_prior(self, values):
        priors = [dist.LogNormal(p.loc, jnp.sqrt(p.scale)) if isinstance(p, dist.LogNormal) else p for p in self.dists]
        return sum((p.log_prob(values[n]) for n, p in zip(self.names, priors, strict=True)), jnp.zeros(()))

    patch.setattr(parameters.Independent, "log_prior", log_prior)


def missing_jacobian(patch):
    right = layout.Layout.constrain
    patch.setattr(layout.Layout, "constrain", lambda self, u: (right(self, u)[0], jnp.zeros(())))


def shifted_times(patch):
    right = measuring.Measurements

    def shifted(rows, **others):
        last = 37  # rows of all times together, of which each measurement now looks at the next
        return right(rows=jnp.minimum(rows + 1, last), **others)

    patch.setattr(measuring, "Measurements", shifted)


def wrong_scaling_back(patch):
    right = Observable.report

    def report(self, values):
        found = right(self, values)
        return {n: v / self.unit if n.endswith("noise_std") else v for n, v in found.items()}

    patch.setattr(Observable, "report", report)


def swapped_states(patch):
    right = binding.bind_observable

    def observable(model, data, variable, scaling):
        found = right(model, data, variable, scaling)
        return likelihood.Observable(**{**vars(found), "state": 1 - found.state})

    patch.setattr(binding, "bind_observable", observable)


def noise_omitted(patch):
    def diagonal(self, values, block, std):
        t = block.gp_times
        return 1e-6 * self.signal_cov(values, t[:1], t[:1])[0, 0] * jnp.ones(t.size)

    patch.setattr(Observable, "_diagonal", diagonal)


BUGS = [
    half_dropped,
    variance_for_std,
    prior_off_by_a_square_root,
    missing_jacobian,
    shifted_times,
    wrong_scaling_back,
    swapped_states,
    noise_omitted,
]


@contextmanager
def planted(bug):
    """Compiled code would not notice the mistake, nor, after it, that it is gone."""
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        jax.clear_caches()
        yield
    jax.clear_caches()


@pytest.mark.slow
def test_a_fit_agrees_with_a_posterior_computed_by_hand(reference):
    assert disagreements(fitted(), reference) == []


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_caught(reference, bug):
    with planted(bug):
        try:
            posterior = fitted()
        except (gn.GpnodeError, FloatingPointError):
            return  # so wrong that it says so
        assert disagreements(posterior, reference) != []
