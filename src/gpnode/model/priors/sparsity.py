"""Priors for dictionary coefficients.

Coefficients live on scaled states and scaled time (see :mod:`gpnode.data.scaling`), so one
prior suits them all.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import (
    HalfCauchy,
    InverseGamma,
    Normal,
)
from numpyro.distributions import Laplace as _LaplaceDistribution

from gpnode._registry import Registry
from gpnode.errors import ModelError
from gpnode.model.priors.distributions import unconstraining_transform
from gpnode.model.priors.parameters import Block, Conditional, Independent, Parameter, Values

# Local scales are integrated out on these nodes of log(lambda); the half-Cauchy density is
# smooth there, so the trapezoid rule converges geometrically and 81 nodes are plenty.
_LOG_LOCAL_SCALE = np.linspace(-10.0, 10.0, 81)
_BOUNDS = (1e-30, 1e30)  # of global scales and slab variances


class CoefficientPrior(eqx.Module):
    """How a dictionary's free coefficients are shrunk."""

    name: ClassVar[str]
    """What the prior is called in files."""

    @abstractmethod
    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        """The prior over ``len(groups)`` coefficients, ``groups[m]`` being the equation of the m-th."""

    def describe(self) -> dict[str, object]:
        """Settings, for records."""
        return {"kind": self.name, **vars(self)}


class FinnishHorseshoe(CoefficientPrior):
    """Regularised horseshoe: strong shrinkage of small coefficients, a slab for large ones.

    ``theta_m ~ N(0, c^2 tau^2 lambda_m^2 / (c^2 + tau^2 lambda_m^2))`` with half-Cauchy local
    scales ``lambda_m``, a half-Cauchy global scale ``tau`` of scale
    ``tau0 = m0 / (M - m0) / sqrt(N)`` (M coefficients, N measurements), and
    ``c^2 ~ InverseGamma(nu/2, nu s^2/2)``. The local scales are integrated out numerically.

    Parameters
    ----------
    expected_terms
        ``m0``, the anticipated number of active terms; by default M - 1.
    slab_dof, slab_scale
        ``nu`` and ``s`` of the slab.
    shared
        One ``tau`` for all equations instead of one per equation.
    floor
        Smallest standard deviation of a coefficient, in scaled units. The integrated density
        has a logarithmic spike at zero that no gradient-based sampler can follow; the floor rounds it.

    Examples
    --------
    >>> sparse = gn.Dictionary(["x"], gn.polynomial(3), prior=gn.FinnishHorseshoe(expected_terms=2.0))
    """

    name: ClassVar[str] = "finnish-horseshoe"

    expected_terms: float | None = None
    slab_dof: float = 1.0
    slab_scale: float = 1.0
    shared: bool = False
    floor: float = 0.02

    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        return _bind_horseshoe(self, name, groups, num_observations, slab=(self.slab_dof, self.slab_scale))


class Horseshoe(CoefficientPrior):
    """The horseshoe without a slab: large coefficients are left alone.

    >>> sparse = gn.Dictionary(["x"], gn.polynomial(3), prior=gn.Horseshoe())
    """

    name: ClassVar[str] = "horseshoe"

    expected_terms: float | None = None
    shared: bool = False
    floor: float = 0.02

    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        return _bind_horseshoe(self, name, groups, num_observations, slab=None)


class Laplace(CoefficientPrior):
    """Double-exponential prior with a fixed scale (the Bayesian lasso)."""

    name: ClassVar[str] = "laplace"

    scale: float = 1.0

    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        prior = _LaplaceDistribution(0.0, self.scale).expand([len(groups)])
        return Independent({name: prior})


class Gaussian(CoefficientPrior):
    """Normal prior with a fixed scale: shrinkage without sparsity."""

    name: ClassVar[str] = "gaussian"

    scale: float = 1.0

    def bind(self, name: str, groups: tuple[int, ...], num_observations: int) -> Block:
        return Independent({name: Normal(0.0, self.scale).expand([len(groups)])})


COEFFICIENT_PRIORS: Registry[CoefficientPrior] = Registry(
    "coefficient prior", FinnishHorseshoe, Horseshoe, Laplace, Gaussian
)


class HorseshoeBlock(Block):
    """Coefficients with their global scales and slab; local scales are integrated out.

    Parameters named after ``name``: the coefficients themselves (M,), ``name.tau`` (one per
    group of coefficients) and, with a slab, ``name.slab_var``.
    """

    tau_prior: dist.Distribution
    slab_prior: dist.Distribution | None
    floor: float
    name: str = eqx.field(static=True)
    groups: tuple[int, ...] = eqx.field(static=True)

    def parameters(self) -> tuple[Parameter, ...]:
        unit = unconstraining_transform(Normal(0.0, 1.0))
        parameters = [
            Parameter(unit, self.name, (len(self.groups),)),
            Parameter(unconstraining_transform(self.tau_prior), f"{self.name}.tau", self.tau_prior.batch_shape),
        ]
        if self.slab_prior is not None:
            parameters.append(Parameter(unconstraining_transform(self.slab_prior), f"{self.name}.slab_var"))
        return tuple(parameters)

    def log_prior(self, values: Values) -> Array:
        tau, coef = values[f"{self.name}.tau"], values[self.name]
        total = jnp.sum(self.tau_prior.log_prob(tau))
        if self.slab_prior is not None:
            total += self.slab_prior.log_prob(values[f"{self.name}.slab_var"])
        return total + jnp.sum(jax.nn.logsumexp(self._log_joint(values, coef), axis=-1))

    def draw(self, key: Array) -> Values:
        key_tau, key_slab, key_node, key_coef = jax.random.split(key, 4)
        values = {f"{self.name}.tau": self.tau_prior.sample(key_tau)}
        if self.slab_prior is not None:
            values[f"{self.name}.slab_var"] = self.slab_prior.sample(key_slab)
        m = len(self.groups)
        node = jax.random.categorical(key_node, _log_node_weights(), shape=(m,))
        var = self._coefficient_var(values)[jnp.asarray(self.groups), node]
        values[self.name] = jnp.sqrt(var) * jax.random.normal(key_coef, (m,))
        return values

    def conditional(self, values: Values, key: Array) -> Conditional:
        coef = values[self.name]
        node = jax.random.categorical(key, self._log_joint(values, coef), axis=-1)
        var = self._coefficient_var(values)[jnp.asarray(self.groups), node]
        return Conditional({self.name: jnp.zeros(coef.size)}, {self.name: jnp.sqrt(var)}, exact=True)

    def search_ranges(self) -> dict[str, tuple[float, float]]:
        # Draws are too heavy-tailed to tell a width.
        return {self.name: (0.0, 1.0), f"{self.name}.tau": (float(np.log(0.3)), 1.0)}

    def _coefficient_var(self, values: Values) -> Array:
        """Prior variance of each group's coefficients at each node; shape (groups, nodes)."""
        # Beyond these bounds nothing changes but that numbers overflow.
        tau = jnp.clip(values[f"{self.name}.tau"], *_BOUNDS)
        free_var = (tau[:, None] * np.exp(_LOG_LOCAL_SCALE)) ** 2
        if self.slab_prior is None:
            return free_var + self.floor**2
        slab_var = jnp.clip(values[f"{self.name}.slab_var"], *_BOUNDS)
        return slab_var / (1.0 + slab_var / free_var) + self.floor**2

    def _log_joint(self, values: Values, coef: Array) -> Array:
        """log p(theta_m, lambda at node); shape (M, nodes)."""
        var = self._coefficient_var(values)
        # A product with zeros and ones, because the gradient of an indexing is slow.
        member = np.eye(len(var))[list(self.groups)]
        log_height = member @ (_log_node_weights() - 0.5 * jnp.log(2.0 * jnp.pi * var))
        return log_height - 0.5 * coef[:, None] ** 2 * (member @ (1.0 / var))


def _log_node_weights() -> np.ndarray:
    """Half-Cauchy probabilities of the nodes: density of log(lambda) times the spacing, normalised."""
    log_density = _LOG_LOCAL_SCALE - np.log1p(np.exp(2.0 * _LOG_LOCAL_SCALE))
    return log_density - np.logaddexp.reduce(log_density)


def _bind_horseshoe(
    prior: FinnishHorseshoe | Horseshoe,
    name: str,
    groups: tuple[int, ...],
    num_observations: int,
    slab: tuple[float, float] | None,
) -> HorseshoeBlock:
    m = len(groups)
    expected = max(m - 1.0, 0.5) if prior.expected_terms is None else float(prior.expected_terms)
    if not 0 < expected < m:
        raise ModelError(f"expected_terms must lie between 0 and the number of coefficients, {m}; got {expected:g}.")
    tau0 = expected / (m - expected) / np.sqrt(num_observations)
    groups = tuple(0 for _ in groups) if prior.shared else tuple(sorted(set(groups)).index(g) for g in groups)
    slab_prior = None if slab is None else InverseGamma(slab[0] / 2.0, slab[0] / 2.0 * slab[1] ** 2)
    return HorseshoeBlock(HalfCauchy(tau0).expand([max(groups) + 1]), slab_prior, prior.floor, name, groups)
