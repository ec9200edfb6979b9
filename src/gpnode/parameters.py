"""Named parameters and the unconstrained vector the samplers move in.

A *block* owns some named parameters and their joint prior. A :class:`Layout` strings the
parameters of several blocks together into one unconstrained vector, and back.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import biject_to, constraints, transforms

Values = dict[str, Array]
"""Parameter values by name, in the model's internal (scaled) units."""


def together(function: Callable[..., Array], things: Sequence[Any], *arguments: Sequence[Array]) -> list[Array]:
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
    found: dict[int, Array] = {}
    for _, members in kinds:
        own = [[given[i] for i in members] for given in (things, *arguments)]
        if len(members) == 1:
            found[members[0]] = function(*(given[0] for given in own))
        else:
            stacked = (jax.tree.map(lambda *numbers: jnp.stack(numbers), *given) for given in own)
            found |= dict(zip(members, jax.vmap(function)(*stacked), strict=True))
    return [found[i] for i in range(len(things))]


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

    @abstractmethod
    def conditional(self, values: Values, key: Array) -> Conditional:
        """The prior of what moves the path as normal distributions, given the block's other values.

        Scales that are integrated out elsewhere are drawn. Where the prior is not normal in
        unconstrained coordinates, a normal distribution near it.
        """


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
        parts = together(lambda prior, value: prior.log_prob(value), self.dists, [values[n] for n in self.names])
        return sum(map(jnp.sum, parts), jnp.zeros(()))

    def draw(self, key: Array) -> Values:
        keys = jax.random.split(key, max(len(self.names), 1))
        drawn = together(lambda prior, key: prior.sample(key), self.dists, list(keys)[: len(self.names)])
        return dict(zip(self.names, drawn, strict=True))

    def conditional(self, values: Values, key: Array) -> Conditional:
        near = {name: _normal_near(prior) for name, prior in self.priors.items()}
        return Conditional(
            {name: centre for name, (centre, _) in near.items()},
            {name: width for name, (_, width) in near.items()},
            exact=all(isinstance(p, dist.Normal | dist.LogNormal) for p in self.dists),
        )


def _normal_near(prior: dist.Distribution) -> tuple[Array, Array]:
    """Centre and width of a prior in unconstrained coordinates; exact for normal and log-normal ones."""
    ones = jnp.ones(prior.batch_shape)
    if prior.support is constraints.real:
        return 0.0 * ones, ones
    if isinstance(prior, dist.LogNormal):
        return prior.loc * ones, prior.scale * ones
    if prior.support is constraints.positive or prior.support is constraints.nonnegative:
        centre, width = centre_and_width(prior)
        var = jnp.log1p((width / centre) ** 2)
        return jnp.log(centre) - 0.5 * var, jnp.sqrt(var)
    return 0.0 * ones, 1.8 * ones  # the width of a uniform variable on the logistic scale


def unconstraining_transform(prior: dist.Distribution) -> transforms.Transform:
    """Map from the real line to the prior's support, scaled so that one unit is one prior width.

    Without the scaling a parameter known to lie near 30,000 would put very different
    lengths side by side in one vector.
    """
    support = prior.support
    if support is constraints.real:
        loc, scale = centre_and_width(prior)
        return transforms.AffineTransform(loc, scale)
    return biject_to(support)


def centre_and_width(prior: dist.Distribution) -> tuple[Array, Array]:
    """Mean and standard deviation of a prior, or 0 (1 for positive ones) and 1 where it has none."""
    ones = jnp.ones(prior.batch_shape)
    neutral = 1.0 if prior.support is constraints.positive else 0.0
    try:
        loc, scale = prior.mean * ones, jnp.sqrt(prior.variance) * ones
    except NotImplementedError:
        return neutral * ones, ones
    return jnp.where(jnp.isfinite(loc), loc, neutral), jnp.where(jnp.isfinite(scale) & (scale > 0), scale, 1.0)


class Layout(eqx.Module):
    """How the parameters of several blocks lie in one unconstrained vector."""

    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int:
        return sum(p.size for p in self.parameters)

    def slices(self) -> dict[str, slice]:
        """Where each parameter lies in the unconstrained vector."""
        found, offset = {}, 0
        for p in self.parameters:
            found[p.name] = slice(offset, offset + p.size)
            offset += p.size
        return found

    def constrain(self, unconstrained: Array) -> tuple[Values, Array]:
        """Values by name, and the log Jacobian of the map. ``unconstrained`` has shape (size,)."""
        found, log_jacobians = self._transformed(unconstrained, self.parameters)
        values = {p.name: value for p, value in zip(self.parameters, found, strict=True)}
        return values, sum(map(jnp.sum, log_jacobians), jnp.zeros(()))

    def log_jacobian(self, unconstrained: Array, names: tuple[str, ...]) -> Array:
        """Log Jacobian of the map for the parameters named."""
        _, found = self._transformed(unconstrained, tuple(p for p in self.parameters if p.name in names))
        return sum(map(jnp.sum, found), jnp.zeros(()))

    def _transformed(self, unconstrained: Array, chosen: tuple[Parameter, ...]) -> tuple[list[Array], list[Array]]:
        """Values of the parameters ``chosen``, and the log Jacobians of their maps."""
        slices = self.slices()
        raw = [unconstrained[slices[p.name]].reshape(p.shape) for p in chosen]
        maps = [p.transform for p in chosen]
        values = together(lambda transform, x: transform(x), maps, raw)
        return values, together(lambda transform, x, y: transform.log_abs_det_jacobian(x, y), maps, raw, values)

    def unconstrain(self, values: Mapping[str, Array]) -> Array:
        """The vector whose :meth:`constrain` gives ``values``."""
        return jnp.concatenate(
            [jnp.zeros(0)] + [jnp.ravel(p.transform.inv(jnp.asarray(values[p.name]))) for p in self.parameters]
        )
