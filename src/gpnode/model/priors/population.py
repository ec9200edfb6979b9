"""Parameters that differ between experiments, as individuals of one population do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import biject_to, constraints, transforms

from gpnode.errors import ModelError
from gpnode.model.priors.distributions import (
    centre_and_width,
    describe_hyper,
    lowest,
    unconstraining_transform,
    write_prior,
)
from gpnode.model.priors.parameters import Block, Conditional, Parameter, Values

_FEWEST = 2  # experiments, to tell a spread


class Population:
    """A parameter with a value of its own in each experiment, all from one population.

    Parameters
    ----------
    typical
        Prior of what is typical: the median of the population. If it allows positive values alone, individuals are
        log-normal about it, else normal.
    spread
        Prior of how far individuals differ: a standard deviation, of logarithms if they are log-normal.

    Examples
    --------
    >>> rates = gn.Population(gn.LogNormal(0.0, 1.0), spread=gn.HalfNormal(0.5))
    """

    def __init__(self, typical: Any, spread: Any = None) -> None:
        self.typical = typical
        self.spread = dist.HalfNormal(0.5) if spread is None else spread
        for what, prior in (("typical", self.typical), ("spread", self.spread)):
            if not isinstance(prior, dist.Distribution) or prior.batch_shape or prior.event_shape:
                raise ModelError(f"{what} of a population must be a prior for one number; got {prior!r:.80}.")
        if not lowest(self.spread) >= 0:
            raise ModelError("spread of a population must be positive: give a prior such as HalfNormal(0.5).")

    @property
    def is_positive(self) -> bool:
        """Whether individuals are log-normal."""
        return lowest(self.typical) >= 0

    def __repr__(self) -> str:
        return f"Population({write_prior(self.typical)}, spread={write_prior(self.spread)})"

    def describe(self) -> dict[str, Any]:
        """Settings, for records and the fingerprint."""
        return {"population": describe_hyper(self.typical), "spread": describe_hyper(self.spread)}


class Each:
    """A parameter with a value of its own in each experiment, all with the same ``prior`` and otherwise apart.

    >>> rates = gn.Each(gn.LogNormal(0.0, 1.0))
    """

    def __init__(self, prior: Any) -> None:
        if not isinstance(prior, dist.Distribution) or prior.batch_shape or prior.event_shape:
            raise ModelError(f"Each(...) takes a prior for one number; got {prior!r:.80}.")
        self.prior = prior

    def __repr__(self) -> str:
        return f"Each({write_prior(self.prior)})"

    def describe(self) -> dict[str, Any]:
        """Settings, for records and the fingerprint."""
        return {"each": describe_hyper(self.prior)}


class IndividualBlock(Block):
    """Values of ``name``, one for each of ``count`` experiments."""

    name: eqx.AbstractVar[str]
    count: eqx.AbstractVar[int]

    @abstractmethod
    def draw_individual(self, values: Values, key: Array) -> Array:
        """One more."""


class EachBlock(IndividualBlock):
    """Values of ``name`` (experiments,) that are independent of each other."""

    prior: dist.Distribution
    name: str = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def parameters(self) -> tuple[Parameter, ...]:
        return (Parameter(unconstraining_transform(self.prior), self.name, (self.count,)),)

    def log_prior(self, values: Values) -> Array:
        return jnp.sum(self.prior.log_prob(values[self.name]))

    def draw(self, key: Array) -> Values:
        return {self.name: self.prior.sample(key, (self.count,))}

    def draw_individual(self, values: Values, key: Array) -> Array:
        return self.prior.sample(key)


class PopulationBlock(IndividualBlock):
    """Values of ``name`` (experiments,), with ``name.typical`` and ``name.spread``.

    Individuals lie in the unconstrained vector as they are, not as deviations: the data of an experiment tell them
    apart from the rest. Given the other two they are normal there.
    """

    typical: dist.Distribution
    spread: dist.Distribution
    positive: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def parameters(self) -> tuple[Parameter, ...]:
        return (
            Parameter(self._transform(), self.name, (self.count,)),
            Parameter(unconstraining_transform(self.typical), f"{self.name}.typical"),
            Parameter(unconstraining_transform(self.spread), f"{self.name}.spread"),
        )

    def _affine(self) -> tuple[Array, Array]:
        """Centre and width of individuals on the scale on which they are normal, as the prior has what is typical."""
        centre, width = centre_and_width(self.typical)
        return (jnp.log(centre), jnp.ones(())) if self.positive else (centre, width)

    def _transform(self) -> transforms.Transform:
        affine = transforms.AffineTransform(*self._affine())
        if not self.positive:
            return affine
        return transforms.ComposeTransform([affine, biject_to(constraints.positive)])

    def _centre(self, values: Values) -> Array:
        typical = values[f"{self.name}.typical"]
        return jnp.log(typical) if self.positive else typical

    def log_prior(self, values: Values) -> Array:
        typical, spread = values[f"{self.name}.typical"], values[f"{self.name}.spread"]
        kind = dist.LogNormal if self.positive else dist.Normal
        individuals = kind(self._centre(values), spread).log_prob(values[self.name])
        return self.typical.log_prob(typical) + self.spread.log_prob(spread) + jnp.sum(individuals)

    def draw(self, key: Array) -> Values:
        typical_key, spread_key, key = jax.random.split(key, 3)
        values = {
            f"{self.name}.typical": self.typical.sample(typical_key),
            f"{self.name}.spread": self.spread.sample(spread_key),
        }
        keys = jax.random.split(key, self.count)
        return values | {self.name: jax.vmap(lambda key: self.draw_individual(values, key))(keys)}

    def draw_individual(self, values: Values, key: Array) -> Array:
        """One more of the population."""
        at = self._centre(values) + values[f"{self.name}.spread"] * jax.random.normal(key)
        return jnp.exp(at) if self.positive else at

    def conditional(self, values: Values, key: Array) -> Conditional:
        middle, unit = self._affine()
        centre = (self._centre(values) - middle) / unit
        width = values[f"{self.name}.spread"] / unit
        each = jnp.ones(self.count)
        return Conditional({self.name: centre * each}, {self.name: width * each}, exact=True)


def population_block(name: str, population: Population | Each, experiments: tuple[str, ...]) -> IndividualBlock:
    """The block of one parameter, with a value for each of the ``experiments``."""
    if isinstance(population, Each):
        prior = jax.tree.map(lambda number: jnp.asarray(number, dtype=float), population.prior)
        return EachBlock(prior=prior, name=name, count=len(experiments))
    if len(experiments) < _FEWEST:
        raise ModelError(f"{name!r} is from a population, of which one experiment says nothing. Give a prior for it.")
    typical, spread = (
        jax.tree.map(lambda number: jnp.asarray(number, dtype=float), prior)
        for prior in (population.typical, population.spread)
    )
    return PopulationBlock(
        typical=typical, spread=spread, positive=population.is_positive, name=name, count=len(experiments)
    )
