"""Named parameters, and blocks of them that share a joint prior."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import transforms

from gpnode.model.priors.distributions import normal_near, unconstraining_transform

Values = dict[str, Array]
"""Parameter values by name, in the model's internal (scaled) units."""


def map_grouped(function: Callable[..., Array], things: Sequence[Any], *arguments: Sequence[Array]) -> list[Array]:
    """``function(thing, *arguments)`` for each thing; those that differ in their numbers alone are done at once.

    One operation on fifteen numbers is compiled, and runs, in far less time than fifteen on one.
    """
    kinds: list[tuple[Any, list[int]]] = []
    for i, thing in enumerate(things):
        leaves, structure = jax.tree.flatten(thing)
        kind = (structure, [jnp.shape(number) for number in (*leaves, *(a[i] for a in arguments))])
        members = next((members for other, members in kinds if other == kind), None)
        if members is None:
            kinds.append((kind, [i]))
        else:
            members.append(i)
    results: dict[int, Array] = {}
    for _, members in kinds:
        columns = [[column[i] for i in members] for column in (things, *arguments)]
        if len(members) == 1:
            results[members[0]] = function(*(column[0] for column in columns))
        else:
            stacked = (jax.tree.map(lambda *numbers: jnp.stack(numbers), *column) for column in columns)
            results |= dict(zip(members, jax.vmap(function)(*stacked), strict=True))
    return [results[i] for i in range(len(things))]


class Parameter(eqx.Module):
    """One named parameter: its shape and the map from the unconstrained line to its support."""

    transform: transforms.Transform
    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Conditional(NamedTuple):
    """Normal distributions in unconstrained coordinates, by parameter name: the prior itself if ``exact``."""

    centre: Values
    width: Values
    exact: bool


class Components(NamedTuple):
    """A mixture of normal distributions about zero for each of M coefficients.

    ``log_weights`` (M, components) are those of each coefficient, ``std`` (components,) are shared by all.
    """

    log_weights: Array
    std: Array

    def log_joint(self, coef: Array) -> Array:
        """Log density of coefficients (M,) and of their components (M, components)."""
        log_height = self.log_weights - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(self.std)
        return log_height - 0.5 * (coef[:, None] / self.std) ** 2


class Block(eqx.Module):
    """Parameters that share a joint prior. Subclasses are final."""

    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of this block, in order."""

    @abstractmethod
    def log_prior(self, values: Values) -> Array:
        """Log prior density of this block's constrained values; a scalar."""

    @abstractmethod
    def draw(self, key: Array) -> Values:
        """One draw from the prior."""

    def conditional(self, values: Values, key: Array) -> Conditional:
        """The prior of what moves the path as normal distributions, given the block's other values.

        Scales that are integrated out elsewhere are drawn. Where the prior is not normal in unconstrained
        coordinates, a normal distribution near it, which samplers correct for. A block that knows nothing better has
        standard normal ones.
        """
        shapes = {p.name: p.shape for p in self.parameters()}
        centre = {name: jnp.zeros(shape) for name, shape in shapes.items()}
        return Conditional(centre, {name: jnp.ones(shape) for name, shape in shapes.items()}, exact=False)

    def components(self, values: Values) -> tuple[str, Components] | None:
        """The name of coefficients whose prior is a mixture, and that mixture given the block's other values."""
        return None

    tells_acting: ClassVar[bool] = False
    """Whether :meth:`acting` says anything."""

    def acting(self, values: Values) -> Array:
        """Probability that the term of each coefficient (M,) acts, given ``values``."""
        raise NotImplementedError("this prior does not say which terms act; see tells_acting.")

    def search_ranges(self) -> dict[str, tuple[float, float]]:
        """Centre and width, in unconstrained coordinates, for a search: only where prior draws cannot tell them."""
        return {}


class Independent(Block):
    """Parameters with a prior distribution each."""

    names: tuple[str, ...] = eqx.field(static=True)
    dists: tuple[dist.Distribution, ...]

    def __init__(self, priors: Mapping[str, dist.Distribution]) -> None:
        # Not kept as a dict: JAX sorts the keys of dicts, and the order of parameters must not change.
        self.names = tuple(priors)
        self.dists = tuple(priors.values())

    @property
    def priors(self) -> dict[str, dist.Distribution]:
        return dict(zip(self.names, self.dists, strict=True))

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(Parameter(unconstraining_transform(p), name, p.batch_shape) for name, p in self.priors.items())

    def log_prior(self, values: Values) -> Array:
        parts = map_grouped(lambda prior, value: prior.log_prob(value), self.dists, [values[n] for n in self.names])
        return sum(map(jnp.sum, parts), jnp.zeros(()))

    def draw(self, key: Array) -> Values:
        keys = jax.random.split(key, max(len(self.names), 1))
        drawn = map_grouped(lambda prior, key: prior.sample(key), self.dists, list(keys)[: len(self.names)])
        return dict(zip(self.names, drawn, strict=True))

    def conditional(self, values: Values, key: Array) -> Conditional:
        near = {name: normal_near(prior) for name, prior in self.priors.items()}
        return Conditional(
            {name: centre for name, (centre, _) in near.items()},
            {name: width for name, (_, width) in near.items()},
            exact=all(isinstance(p, dist.Normal | dist.LogNormal) for p in self.dists),
        )
