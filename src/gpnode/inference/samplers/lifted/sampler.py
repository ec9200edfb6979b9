"""The default sampler: what moves the path, and the hyperparameters, take turns.

Parameters of the equations and unknown initial values move on the lifted surface
(:mod:`.surface`), given covariances and prior scales. Hyperparameters (Gaussian process, noise, global scales
of the horseshoe) move by NUTS given the path, which then costs no solve.
Local scales of the horseshoe, integrated out elsewhere, are drawn anew before each move of the path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.inference.checks import Check
from gpnode.inference.samplers.base import Sampler
from gpnode.inference.samplers.lifted.adaptation import (
    Moments,
    State,
    StepSize,
    bounded_scale_tril,
    learn_scale_tril,
)
from gpnode.inference.samplers.lifted.moves import move_hyper, move_path
from gpnode.inference.samplers.lifted.settings import Adaptation, Landing, Moves
from gpnode.inference.starting.settings import Piloting
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem

if TYPE_CHECKING:
    import xarray as xr

ACCEPT_LIMIT = 0.2
"""A chain that accepts less hardly moves."""


class Transition(NamedTuple):
    """What one step leaves behind.

    ``landed`` is the part of moves whose rotations could be completed and retraced, ``failure``
    the status of a failed solve that stopped one.
    """

    draw: Array
    log_density: Array
    accept_prob: Array
    step_size: Array
    num_steps: Array
    landed: Array
    diverging: Array
    failure: Array
    warming: Array


@dataclass(frozen=True)
class Lifted(Sampler):
    """The default sampler. Step sizes find themselves while warming up.

    ``draws`` per chain are made; by default 500, and while chains do not agree twice as many, up to six times, of
    which the second half is kept.
    Of chains that had to be longer than others, draws are thinned to equally many.
    Where the search finds several maxima they share the ``chains``, two at least in each, so that there may be more;
    where equations alone cannot follow the data, so do the places, three at most, in which short pilot chains ended.

    >>> longer = gn.Lifted(draws=2000, chains=8)
    """

    name: ClassVar[str] = "lifted"
    needs_normal_noise: ClassVar[bool] = True

    moves: Moves = field(default_factory=Moves)
    landing: Landing = field(default_factory=Landing)
    adaptation: Adaptation = field(default_factory=Adaptation)
    piloting: Piloting = field(default_factory=Piloting)

    def init(self, problem: Problem, whitening: Whitening, z: Array, key: Array) -> State:
        hyper = problem.hyper_positions
        # Curvature of the hyperparameters given the path: what the normal approximation says with the path held fixed.
        scale_tril = jnp.zeros((0, 0))
        if hyper.size:
            scale_tril = bounded_scale_tril(whitening.curvature[hyper][:, hyper], self.adaptation.widest)
        angle, turn, stride = (StepSize(jnp.log(size), jnp.log(size)) for size in self.moves.first_sizes)
        nowhere, none = jnp.asarray(-jnp.inf), jnp.asarray(0)
        learning = angle, turn, stride, scale_tril, Moments.none(hyper.size)
        return State(whitening.point(z), *learning, key, none, nowhere, nowhere, jnp.zeros(()), none)

    def step(self, problem: Problem, whitening: Whitening, state: State) -> tuple[State, Transition]:
        """One round: local scales, path, hyperparameters."""
        moves, targets = self.moves, self.adaptation
        key, jitter_key, small_key, path_key, hyper_key = jax.random.split(state.key, 5)
        warming = state.step < self.warmup
        jitter = jax.random.uniform(jitter_key, (3,), minval=moves.jitter[0], maxval=moves.jitter[1])
        sizes = [jnp.exp(jnp.where(warming, s.log, s.mean)) for s in (state.angle, state.turn, state.stride)]
        small = jax.random.bernoulli(small_key, moves.small_chance)
        angle, turn, stride = jitter * jnp.where(small, moves.small_factor, 1.0) * jnp.stack(sizes)
        angle = jnp.minimum(angle, turn)
        rotations = jnp.clip(jnp.round(turn / angle), 1, moves.most_rotations).astype(int)

        u, moved = move_path(problem, state.unconstrained, path_key, angle, rotations, moves, self.landing)
        hyper = move_hyper(
            problem, state.hyper_scale_tril, u, hyper_key, stride, moves.hyper_depth, targets.hyper_accept
        )
        u = hyper.unconstrained

        def adapt(old: StepSize, excess: Array, bounds: tuple[float, float]) -> StepSize:
            new = old.adapted(excess, state.step, self.warmup, bounds)
            return jax.tree.map(lambda a, b: jnp.where(warming & ~small, a, b), new, old)

        transition = Transition(
            draw=u,
            log_density=hyper.log_density,
            accept_prob=moved.accept_prob,
            step_size=angle,
            num_steps=rotations,
            landed=moved.landed,
            diverging=hyper.diverging | (moved.energy_error > moves.divergence),
            failure=moved.failure,
            warming=warming,
        )
        scale_tril, moments = learn_scale_tril(state, u[problem.hyper_positions], self.warmup, targets)
        after = state._replace(
            unconstrained=u,
            hyper_scale_tril=scale_tril,
            hyper_moments=moments,
            angle=adapt(state.angle, moved.landed - targets.landed, moves.angle_bounds),
            turn=adapt(state.turn, moved.accept_prob - targets.path_accept, moves.turn_bounds),
            stride=adapt(state.stride, hyper.accept_prob - targets.hyper_accept, moves.stride_bounds),
            key=key,
        )
        return after.after_round(hyper.log_density, transition.diverging, self.warmup, targets), transition

    def blank(self, size: int) -> Transition:
        number, count, no = jnp.zeros(()), jnp.zeros((), dtype=int), jnp.asarray(False)
        return Transition(jnp.zeros(size), number, number, number, count, number, no, count, no)

    def pilot(self) -> Lifted:
        return self

    def for_steps(self) -> Sampler:
        return dataclasses.replace(super().for_steps(), piloting=Piloting())  # type: ignore[call-arg]

    def checks(self, stats: xr.Dataset, details: Mapping[str, Any]) -> list[Check]:
        landed = stats["landed"].to_numpy().mean(axis=1)
        accept = stats["accept_prob"].to_numpy().mean(axis=1)
        return [
            Check(
                "moves completed",
                bool(accept.min() > ACCEPT_LIMIT),
                f"{1 - landed.mean():.0%} of moves could not be completed or retraced; "
                f"lowest acceptance of a chain {accept.min():.0%}, limit {ACCEPT_LIMIT:.0%}",
                "A chain hardly moves: tighten the priors, or look at the data for values no path can reach.",
            )
        ]
