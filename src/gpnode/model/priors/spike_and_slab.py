"""A prior over which terms act: each coefficient is all but zero, or of ordinary size, and it is inferred which."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from gpnode.errors import ModelError
from gpnode.model.priors.distributions import unconstraining_transform
from gpnode.model.priors.parameters import Block, Components, Conditional, Parameter, Values
from gpnode.model.priors.sparsity import COEFFICIENT_PRIORS, CoefficientPrior
from gpnode.tracing.arrays import at_once


@COEFFICIENT_PRIORS.add
class SpikeAndSlab(CoefficientPrior):
    """Spike and slab: a term acts, or it does not, and how many act is uncertain, too.

    ``theta_m ~ N(0, spike_std^2)`` with probability ``1 - pi``, and from a slab with probability ``pi``: a mixture of
    normals about zero with standard deviations ``slab_stds``, which stands for a heavy-tailed slab. ``pi``, one for
    each equation, has a Beta(1, b) prior with ``expected_terms`` acting terms on average. Which terms act is integrated
    out while sampling; given coefficients and ``pi`` its probability is exact.

    Parameters
    ----------
    expected_terms
        Acting terms in an equation, on average over the prior.
    spike_std
        Of coefficients of terms that do not act, in scaled units: far below what can be seen in data.
    slab_stds
        Of coefficients of terms that act, each with the same weight. They reach far up: coefficients are scaled by the
        largest values of all states, and those of a product are large where its factors never are at the same time.

    Examples
    --------
    >>> sparse = gn.Dictionary(["x"], gn.polynomial(3), prior=gn.SpikeAndSlab(expected_terms=2.0))
    """

    name: ClassVar[str] = "spike-and-slab"

    expected_terms: float = 1.0
    spike_std: float = 0.001
    slab_stds: tuple[float, ...] = eqx.field(static=True, default=(0.25, 1.0, 4.0, 16.0, 64.0))

    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        equations = sorted(set(groups))
        sizes = np.array([groups.count(equation) for equation in equations])
        if not (self.expected_terms > 0 and 0 < self.spike_std < min(self.slab_stds)):
            raise ModelError(
                "expected_terms and spike_std must be positive, and spike_std smaller than all of slab_stds; got "
                f"{self.expected_terms:g}, {self.spike_std:g} and {self.slab_stds}."
            )
        # With fewer candidates than twice the terms expected, any number of acting terms is as likely.
        b = np.maximum(sizes / self.expected_terms - 1.0, 1.0)
        variances = np.array([self.spike_std**2, *(s**2 for s in self.slab_stds)])
        prior = at_once(dist.Beta, np.ones(len(equations)), b)
        return SpikeAndSlabBlock(prior, jnp.asarray(variances), name, tuple(equations.index(g) for g in groups))


class SpikeAndSlabBlock(Block):
    """Coefficients (M,) under ``name``, and ``name.inclusion`` (groups,), the probability that a term acts.

    ``variances`` (components,) has the spike's first.
    """

    inclusion_prior: dist.Distribution
    variances: Array
    name: str = eqx.field(static=True)
    groups: tuple[int, ...] = eqx.field(static=True)

    def parameters(self) -> tuple[Parameter, ...]:
        unit = unconstraining_transform(dist.Normal(0.0, 1.0))
        shape = self.inclusion_prior.batch_shape
        return (
            Parameter(unit, self.name, (len(self.groups),)),
            Parameter(unconstraining_transform(self.inclusion_prior), f"{self.name}.inclusion", shape),
        )

    def log_prior(self, values: Values) -> Array:
        inclusion = jnp.sum(self.inclusion_prior.log_prob(values[f"{self.name}.inclusion"]))
        return inclusion + jnp.sum(jax.nn.logsumexp(self._mixture(values).log_joint(values[self.name]), axis=-1))

    def draw(self, key: Array) -> Values:
        inclusion_key, component_key, coef_key = jax.random.split(key, 3)
        values = {f"{self.name}.inclusion": self.inclusion_prior.sample(inclusion_key)}
        mixture = self._mixture(values)
        std = mixture.std[jax.random.categorical(component_key, mixture.log_weights, axis=-1)]
        return values | {self.name: std * jax.random.normal(coef_key, std.shape)}

    def conditional(self, values: Values, key: Array) -> Conditional:
        mixture = self._mixture(values)
        std = mixture.std[jax.random.categorical(key, mixture.log_joint(values[self.name]), axis=-1)]
        return Conditional({self.name: jnp.zeros(std.shape)}, {self.name: std}, exact=True)

    def search_ranges(self) -> dict[str, tuple[float, float]]:
        # Most draws are all but zero.
        return {self.name: (0.0, 1.0)}

    tells_acting: ClassVar[bool] = True

    def acting(self, values: Values) -> Array:
        """Probability that each term acts (M,), given its coefficient and how many do in its equation."""
        log_joint = self._mixture(values).log_joint(values[self.name])
        return 1.0 - jnp.exp(log_joint[:, 0] - jax.nn.logsumexp(log_joint, axis=-1))

    def components(self, values: Values) -> tuple[str, Components] | None:
        return self.name, self._mixture(values)

    def _mixture(self, values: Values) -> Components:
        """Of each coefficient, the spike first."""
        inclusion = values[f"{self.name}.inclusion"]
        # A product with zeros and ones, because the gradient of an indexing is slow.
        member = jnp.asarray(np.eye(len(inclusion))[list(self.groups)])
        slabs = self.variances.size - 1
        acts = jnp.broadcast_to(jnp.log(inclusion / slabs)[:, None], (len(inclusion), slabs))
        log_weights = member @ jnp.concatenate([jnp.log1p(-inclusion)[:, None], acts], axis=1)
        return Components(log_weights, jnp.sqrt(self.variances))
