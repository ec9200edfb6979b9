"""Five mistakes in what is measured, done, and different: densities and gradients must then disagree with closed forms.

Each is planted in the code under test. The same comparison passes without it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions as dist
from scipy.stats import halfnorm, lognorm, norm

import gpnode as gn
from gpnode.model.priors import population
from gpnode.problem import driving, grid, layout
from gpnode.problem.observables import Observable
from support.references import assert_density_is

TIMES = np.array([0.5, 1.0, 2.0, 2.0, 3.0, 3.0, 4.5])  # twice at 2 and at 3
NOISE = 0.2
LIMIT = 0.9


class Comparison(NamedTuple):
    """A problem, where to look at it, and what its density is there."""

    problem: object
    point: dict
    reference: object


def prior_of(rate: float) -> float:
    return lognorm(0.5, scale=np.exp(-0.5)).logpdf(rate)


def scatter(path: np.ndarray) -> np.ndarray:
    return path + NOISE * np.random.default_rng(1).normal(size=path.size)


def decay(priors=None, delays=(), **settings) -> gn.Model:
    priors = {"k": gn.LogNormal(-0.5, 0.5)} if priors is None else priors
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, priors, delays=delays)
    noise = gn.Noise(std=NOISE, relative=False)
    return gn.Model(form, initial={"x": 3.0}, kernel=None, noise=noise, solver=gn.Native(tolerance=1e-10), **settings)


def log_likelihood(data: gn.Observations, path: np.ndarray) -> float:
    """Of one series, in scaled units."""
    scale = np.abs(data.values_of("x")).max()
    return norm(path / scale, NOISE / scale).logpdf(data.values_of("x") / scale).sum()


def dosed(k: float, when: float) -> np.ndarray:
    after = when < TIMES  # what is measured at the time of a dose is measured before it
    return 3.0 * np.exp(-k * TIMES) + np.where(after, 2.0 * np.exp(-k * (TIMES - when)), 0.0)


def a_dose() -> Comparison:
    """At a time at which there is a measurement, too."""
    data = gn.Observations({"x": (TIMES, scatter(dosed(0.6, 2.0)))}, start=0.0)
    data = data.with_experiments(gn.Experiment(doses=[gn.Dose("x", 2.0, time=2.0)]))
    return Comparison(
        gn.bind(decay(), data), {"k": 0.55}, lambda at: log_likelihood(data, dosed(at["k"], 2.0)) + prior_of(at["k"])
    )


def a_late_dose() -> Comparison:
    """After a delay that is inferred."""
    data = gn.Observations({"x": (TIMES, scatter(dosed(0.6, 1.4)))}, start=0.0)
    data = data.with_experiments(gn.Experiment(doses=[gn.Dose("x", 2.0, time=1.0, delay="lag")]))
    model = decay({"k": gn.LogNormal(-0.5, 0.5), "lag": gn.LogNormal(-0.5, 0.5)}, delays=["lag"])

    def reference(at):
        return log_likelihood(data, dosed(at["k"], 1.0 + at["lag"])) + prior_of(at["k"]) + prior_of(at["lag"])

    return Comparison(gn.bind(model, data), {"k": 0.55, "lag": 0.45}, reference)


def a_limit() -> Comparison:
    """Below which nothing is told but that it is below."""
    values = scatter(3.0 * np.exp(-0.6 * TIMES))
    cells = np.array([v if v > LIMIT else f"<{LIMIT}" for v in values], dtype=object)
    below = values <= LIMIT
    assert 1 < below.sum() < TIMES.size - 1
    data = gn.Observations({"x": (TIMES, cells)}, start=0.0)
    scale = values[~below].max()

    def reference(at):
        path = 3.0 * np.exp(-at["k"] * TIMES)
        told = norm(path / scale, NOISE / scale).logpdf(values / scale)
        return np.where(below, norm(path, NOISE).logcdf(LIMIT), told).sum() + prior_of(at["k"])

    return Comparison(gn.bind(decay(), data), {"k": 0.55}, reference)


def a_population() -> Comparison:
    """Of three, one of which was measured at other times than the rest."""
    rates = np.array([0.4, 0.6, 0.9])
    runs = {str(i): {"x": (TIMES, scatter(3.0 * np.exp(-k * TIMES)))} for i, k in enumerate(rates)}
    data = gn.Observations.from_experiments(runs, start=0.0)
    model = decay({"k": gn.Population(gn.LogNormal(-0.5, 0.5), gn.HalfNormal(0.4))})
    scale = np.abs(data.values_of("x")).max()

    def reference(at):
        total = prior_of(at["k.typical"]) + halfnorm(scale=0.4).logpdf(at["k.spread"])
        for k, series in zip(at["k"], data.series, strict=True):
            total += lognorm(at["k.spread"], scale=at["k.typical"]).logpdf(k)
            total += norm(3.0 * np.exp(-k * TIMES) / scale, NOISE / scale).logpdf(series.values / scale).sum()
        return total

    point = {"k": np.array([0.45, 0.62, 0.8]), "k.typical": 0.7, "k.spread": 0.35}
    return Comparison(gn.bind(model, data), point, reference)


def replicates() -> Comparison:
    """Two at the same time, twice."""
    data = gn.Observations({"x": (TIMES, scatter(3.0 * np.exp(-0.6 * TIMES)))}, start=0.0)
    return Comparison(
        gn.bind(decay(), data),
        {"k": 0.55},
        lambda at: log_likelihood(data, 3.0 * np.exp(-at["k"] * TIMES)) + prior_of(at["k"]),
    )


# -- the mistakes ----------------------------------------------------------------------------


def jump_before_the_node(patch):
    right = grid._measured_rows

    def rows(problem):
        """Of times that are there twice, the second."""
        among = np.asarray(problem.measured_times)
        return [
            np.searchsorted(among[block.experiment], among[block.experiment][first], side="right") - 1
            for block, first in zip(problem.measured, right(problem), strict=True)
        ]

    patch.setattr(grid, "_measured_rows", rows)


def lag_sensitivity_dropped(patch):
    patch.setattr(driving._ActedOn, "jump", lambda self, t, x, params, action: self._after(t, x, params, action))


def censored_as_observed(patch):
    def densities(self, values, block, residual, std):
        return dist.Normal(0.0, jnp.sqrt(self.noise_var(values, block.level, std))).log_prob(residual)

    patch.setattr(Observable, "_independent_densities", densities)


def jacobian_of_a_population_missing(patch):
    right = layout.Layout.constrain

    def constrain(self, unconstrained):
        values, log_jacobian = right(self, unconstrained)
        individuals = tuple(p.name for p in self.parameters if p.shape)
        return values, log_jacobian - self.log_jacobian(unconstrained, individuals)

    patch.setattr(layout.Layout, "constrain", constrain)


def logarithms_of_individuals_taken_for_individuals(patch):
    def log_prior(self, values):
        typical, spread = values[f"{self.name}.typical"], values[f"{self.name}.spread"]
        individuals = dist.Normal(jnp.log(typical), spread).log_prob(jnp.log(values[self.name]))
        return self.typical.log_prob(typical) + self.spread.log_prob(spread) + jnp.sum(individuals)

    patch.setattr(population.PopulationBlock, "log_prior", log_prior)


def replicate_counted_once(patch):
    right = Observable._independent_densities

    def densities(self, values, block, residual, std):
        again = jnp.diff(block.gp_times, prepend=-1.0) == 0.0
        return jnp.where(again, 0.0, right(self, values, block, residual, std))

    patch.setattr(Observable, "_independent_densities", densities)


BUGS = {
    jump_before_the_node: a_dose,
    lag_sensitivity_dropped: a_late_dose,
    censored_as_observed: a_limit,
    jacobian_of_a_population_missing: a_population,
    logarithms_of_individuals_taken_for_individuals: a_population,
    replicate_counted_once: replicates,
}


@contextmanager
def planted(bug):
    """Compiled code would not notice the mistake, nor, after it, that it is gone."""
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        jax.clear_caches()
        yield
    jax.clear_caches()


@pytest.mark.slow
@pytest.mark.parametrize("compared", dict.fromkeys(BUGS.values()), ids=lambda compared: compared.__name__)
def test_densities_and_gradients_are_those_of_closed_forms(compared):
    assert_density_is(*compared())


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_caught(bug):
    with planted(bug), pytest.raises(AssertionError):
        assert_density_is(*BUGS[bug]())
