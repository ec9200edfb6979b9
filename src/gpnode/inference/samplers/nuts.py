"""The No-U-Turn sampler.

Trees, dual averaging and the warm-up schedule are numpyro's. What is ours is the leaf: it
carries the status of its solve, so that every divergence knows whether a failed solve caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpyro.infer.hmc_util import IntegratorState, build_tree, euclidean_kinetic_energy, warmup_adapter

from gpnode.inference.checks import Check
from gpnode.inference.samplers.base import Sampler
from gpnode.inference.stopping.statistics import e_bfmi
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem

if TYPE_CHECKING:
    import xarray as xr

BFMI_LIMIT = 0.3
"""Below this energy fraction of missing information, chains do not explore the tails."""
DEPTH_SHARE_LIMIT = 0.05
"""Part of draws that may stop at the deepest tree before it is worth a remark."""


class State(NamedTuple):
    """Everything needed to go on: a chain is a fold of :func:`step` over states."""

    z: Array
    log_density: Array
    gradient: Array
    adapt: Any
    key: Array
    step: Array


class Transition(NamedTuple):
    """What one step leaves behind. ``failure`` is the status of the failed solve, if one ended the path."""

    draw: Array
    log_density: Array
    energy: Array
    accept_prob: Array
    step_size: Array
    tree_depth: Array
    num_steps: Array
    diverging: Array
    failure: Array
    warming: Array


def _potential(problem: Problem, whitening: Whitening, z: Array) -> tuple[Array, Array, Array]:
    value, gradient, status = problem.value_and_grad(whitening.point(z))
    return -value, -(whitening.scale_tril.T @ gradient), status.astype(int)


def leapfrog(potential: Callable[[Array], tuple[Array, Array, Array]]) -> Callable[..., IntegratorState]:
    """Integrator for numpyro's trees, on a potential that gives its value, gradient and the solve's status."""

    def step(size: Array, inverse_mass: Array, at: Any) -> IntegratorState:
        (z, _), r, _, gradient = at
        r = r - 0.5 * size * gradient
        z = z + size * (inverse_mass @ r)
        energy, gradient, status = potential(z)
        return IntegratorState((z, status), r - 0.5 * size * gradient, energy, gradient)

    return step


@dataclass(frozen=True)
class NUTS(Sampler):
    """The No-U-Turn sampler, with a dense metric.

    ``draws`` per chain are made; by default 500, and while chains do not agree twice as many, up to six times, of
    which the second half is kept.
    Of chains that had to be longer than others, draws are thinned to equally many.
    Where the search finds several maxima they share the ``chains``, two at least in each.
    A larger ``target_accept`` means smaller steps: fewer divergences, more work.

    >>> careful = gn.NUTS(target_accept=0.95)
    """

    name: ClassVar[str] = "nuts"
    alternative: ClassVar[str] = "the default method, "
    least: ClassVar[Mapping[str, int]] = {**Sampler.least, "max_depth": 1}

    warmup: int = 800
    target_accept: float = 0.9
    max_depth: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must lie between 0 and 1; got {self.target_accept}.")

    def _adapter(self) -> tuple[Any, Any]:
        return warmup_adapter(self.warmup, dense_mass=True, target_accept_prob=self.target_accept)

    def init(self, problem: Problem, whitening: Whitening, z: Array, key: Array) -> State:
        potential, gradient, _ = _potential(problem, whitening, z)
        key, adapt_key = jax.random.split(key)
        adapt_init, _ = self._adapter()
        adapt = adapt_init(IntegratorState(z, jnp.zeros_like(z), potential, gradient), adapt_key, jnp.asarray(0.1))
        return State(z, -potential, -gradient, adapt, key, jnp.asarray(0))

    def step(self, problem: Problem, whitening: Whitening, state: State) -> tuple[State, Transition]:
        """One transition; while warming up, the step size and the metric adapt."""
        key, momentum_key, tree_key = jax.random.split(state.key, 3)
        adapt = state.adapt
        momentum = adapt.mass_matrix_sqrt @ jax.random.normal(momentum_key, state.z.shape)

        tree = build_tree(
            leapfrog(lambda z: _potential(problem, whitening, z)),
            euclidean_kinetic_energy,
            IntegratorState((state.z, jnp.asarray(0)), momentum, -state.log_density, -state.gradient),
            adapt.inverse_mass_matrix,
            adapt.step_size,
            tree_key,
            max_tree_depth=self.max_depth,
        )
        z, _ = tree.z_proposal
        accept_prob = tree.sum_accept_probs / tree.num_proposals
        moved = IntegratorState(z, momentum, tree.z_proposal_pe, tree.z_proposal_grad)
        _, adapt_update = self._adapter()
        adapted = jax.lax.cond(
            state.step < self.warmup,
            lambda a: adapt_update(state.step, accept_prob, moved, a),
            lambda a: a,
            adapt,
        )
        # A failed solve has infinite energy and so ends the tree as a divergence, at one of its ends.
        failure = jnp.where(tree.diverging, jnp.maximum(tree.z_left[1], tree.z_right[1]), 0)
        transition = Transition(
            draw=whitening.point(z),
            log_density=-tree.z_proposal_pe,
            energy=tree.z_proposal_energy,
            accept_prob=accept_prob,
            step_size=adapt.step_size,
            tree_depth=jnp.asarray(tree.depth),
            num_steps=tree.num_proposals,
            diverging=tree.diverging,
            failure=failure,
            warming=state.step < self.warmup,
        )
        return State(z, -tree.z_proposal_pe, -tree.z_proposal_grad, adapted, key, state.step + 1), transition

    def blank(self, size: int) -> Transition:
        number, count, no = jnp.zeros(()), jnp.zeros((), dtype=int), jnp.asarray(False)
        return Transition(jnp.zeros(size), number, number, number, number, count, count, no, count, no)

    def checks(self, stats: xr.Dataset, details: Mapping[str, Any]) -> list[Check]:
        deep = float((stats["tree_depth"] >= self.max_depth).mean())
        # Files of earlier versions lack it; their draws are all there.
        mixing = details.get("e_bfmi")
        mixing = e_bfmi(stats["energy"].to_numpy()) if mixing is None else mixing
        return [
            Check(
                "paths long enough",
                True if deep < DEPTH_SHARE_LIMIT else None,
                f"{deep:.1%} of draws stopped at the longest path allowed",
            ),
            Check(
                "energy explored",
                mixing >= BFMI_LIMIT,
                f"E-BFMI {mixing:.2f}, limit {BFMI_LIMIT}",
                "The density has tails too heavy for the sampler: try the default method, or priors with lighter "
                "tails.",
            ),
        ]
