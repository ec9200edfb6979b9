"""The No-U-Turn sampler as a kernel: ``init`` and ``step``, pure functions of a state.

Trees, dual averaging and the warm-up schedule are numpyro's. What is ours is the leaf: it
carries the status of its solve, so that every divergence knows whether a failed solve caused it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpyro.infer.hmc_util import IntegratorState, build_tree, euclidean_kinetic_energy, warmup_adapter

from gpnode._config import compiled_for_few_calls
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem


@dataclass(frozen=True)
class NUTS:
    """Settings of the No-U-Turn sampler.

    ``draws`` per chain are kept; by default 1000, and up to forty times as many while chains do not agree.
    Of chains that had to be longer than others, draws are thinned to equally many.
    Where the search finds several modes they share the ``chains``, two at least in each.
    A larger ``target_accept`` means smaller steps: fewer divergences, more work.
    """

    draws: int | None = None
    warmup: int = 800
    chains: int = 4
    target_accept: float = 0.9
    max_depth: int = 10

    def __post_init__(self) -> None:
        for name, least in (("draws", 4), ("warmup", 20), ("chains", 1), ("max_depth", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}.")
        if not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must lie between 0 and 1; got {self.target_accept}.")


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

    @classmethod
    def blank(cls, size: int) -> Transition:
        """Of a step not yet taken, with draws (size,)."""
        number, count = jnp.zeros(()), jnp.zeros((), dtype=int)
        return cls(jnp.zeros(size), number, number, number, number, count, count, jnp.asarray(False), count)


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


def _adapter(settings: NUTS) -> tuple[Any, Any]:
    return warmup_adapter(settings.warmup, dense_mass=True, target_accept_prob=settings.target_accept)


@compiled_for_few_calls
def init(problem: Problem, whitening: Whitening, z: Array, key: Array, settings: NUTS) -> State:
    """The state before the first step."""
    potential, gradient, _ = _potential(problem, whitening, z)
    key, adapt_key = jax.random.split(key)
    adapt_init, _ = _adapter(settings)
    adapt = adapt_init(IntegratorState(z, jnp.zeros_like(z), potential, gradient), adapt_key, jnp.asarray(0.1))
    return State(z, -potential, -gradient, adapt, key, jnp.asarray(0))


def step(problem: Problem, whitening: Whitening, state: State, settings: NUTS) -> tuple[State, Transition]:
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
        max_tree_depth=settings.max_depth,
    )
    z, _ = tree.z_proposal
    accept_prob = tree.sum_accept_probs / tree.num_proposals
    moved = IntegratorState(z, momentum, tree.z_proposal_pe, tree.z_proposal_grad)
    _, adapt_update = _adapter(settings)
    adapted = jax.lax.cond(
        state.step < settings.warmup,
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
    )
    return State(z, -tree.z_proposal_pe, -tree.z_proposal_grad, adapted, key, state.step + 1), transition
