"""The default sampler: what moves the path, and what does not, take turns.

Parameters of the equations and unknown initial values move on the lifted surface
(:mod:`.lifted`), given covariances and prior scales. Everything else (Gaussian-process
parameters, noise, global scales of the horseshoe) moves by NUTS given the path, which then costs no solve.
Local scales of the horseshoe, integrated out elsewhere, are drawn anew before each move of the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpyro.infer.hmc_util import IntegratorState, build_tree, euclidean_kinetic_energy

from gpnode._config import compiled_for_few_calls
from gpnode.inference.samplers.lifted import surface as lifted
from gpnode.inference.samplers.lifted.conditioning import hyper_given_path, path_given_hyper, split, whiteners_of
from gpnode.inference.samplers.nuts import leapfrog
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem

# Where all is normal, the end of a turn by a right angle is independent of its start.
_ANGLES, _TURNS, _STRIDES = (0.02, 1.6), (0.05, 1.6), (1e-3, 10.0)
_MOST_ROTATIONS = 24
_ROTATIONS_A_ROUND = 4
# A rotation may be as large as still lands. Small rotations do not make long turns acceptable, because the drift of
# the area element does not depend on them: turns are like steps of a random walk, best when many are refused.
_LANDED, _PATH_ACCEPT, _HYPER_ACCEPT = 0.95, 0.4, 0.85
# Every so often a round takes small steps: in narrow places the usual ones fail, and a chain would stay for long.
_SMALL_CHANCE, _SMALL = 0.2, 0.25
_HYPER_DEPTH = 4
# A chain whose mean log density, over about so many rounds, has risen by so many standard deviations (of a normal
# distribution's log density) since it found its step sizes is elsewhere, and finds them anew.
_MEMORY, _CLIMBED = 50, 3.0
# So is one of which more than this part of the rounds diverges; but chains may go to and fro for ever.
_TOO_MANY, _MOST_RETUNED = 0.05, 3
_WIDEST = 1.0  # on the unconstrained scale, which is a logarithm for all that is positive
_DIVERGENCE = 1000.0
_OLD_WEIGHT = 10.0  # in points


@dataclass(frozen=True)
class Lifted:
    """Settings of the default sampler. Step sizes find themselves while warming up.

    ``draws`` per chain are kept; by default 1000, and up to forty times as many while chains do not agree.
    Of chains that had to be longer than others, draws are thinned to equally many.
    Where the search finds several modes they share the ``chains``, two at least in each, so that there may be more;
    where equations alone cannot follow the data, so do the places, three at most, in which short pilot chains ended.
    """

    draws: int | None = None
    warmup: int = 400
    chains: int = 4

    def __post_init__(self) -> None:
        for name, least in (("draws", 4), ("warmup", 20), ("chains", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}.")


class Size(NamedTuple):
    """A step size finding itself: its logarithm now, and the mean of it over the second half of the warm-up."""

    log: Array
    mean: Array

    def adapted(self, excess: Array, step: Array, warmup: int, bounds: tuple[float, float]) -> Size:
        """Larger if ``excess`` of success over the target is positive; changes die down."""
        log = jnp.clip(self.log + excess / jnp.sqrt(4.0 + step), *(jnp.log(b) for b in bounds))
        late = jnp.maximum(step - warmup // 2, 0)
        return Size(log, self.mean + (log - self.mean) / (1.0 + late))


class Moments(NamedTuple):
    """Of points (size,) so far: how many, their mean, and sums of products of deviations from it (size, size)."""

    number: Array
    mean: Array
    products: Array

    def with_point(self, point: Array) -> Moments:
        number = self.number + 1
        before = point - self.mean
        mean = self.mean + before / number
        return Moments(number, mean, self.products + jnp.outer(before, point - mean))

    def scale_tril(self, old: Array) -> Array:
        """Square root of the covariance, with some weight on the ``old`` one, for few points know little."""
        total = self.products + _OLD_WEIGHT * old @ old.T
        values, vectors = jnp.linalg.eigh(total / (self.number + _OLD_WEIGHT))
        return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


class State(NamedTuple):
    """Everything needed to go on. ``angle``, ``turn`` and ``stride`` are step sizes.

    ``hyper_scale_tril`` is the shape of moves of the hyperparameters, ``hyper_moments`` what a better one is made of.
    ``step`` counts rounds since the warm-up began, ``level`` is the mean log density of late, ``tuned_at`` what it was
    when step sizes had been found, ``diverging`` the part of rounds of late that diverged, ``retuned`` how often that
    was too many.
    """

    unconstrained: Array
    angle: Size
    turn: Size
    stride: Size
    hyper_scale_tril: Array
    hyper_moments: Moments
    key: Array
    step: Array
    level: Array
    tuned_at: Array
    diverging: Array
    retuned: Array

    def after_round(self, log_density: Array, diverged: Array, warmup: int) -> State:
        """After a round. The warm-up begins again if the chain has climbed, or come to a narrower place.

        Both happen a finite number of times. Draws made meanwhile are kept like others; chains that have climbed do
        not agree until such draws are left out.
        """
        first = (self.step == 0) & jnp.isneginf(self.tuned_at)
        level = jnp.where(first, log_density, self.level + (log_density - self.level) / _MEMORY)
        margin = _CLIMBED * jnp.sqrt(0.5 * self.unconstrained.size)
        climbed = (self.step >= warmup) & (level > self.tuned_at + margin)
        tuned = self.step == warmup - 1
        diverging = jnp.where(self.step < warmup, 0.0, self.diverging + (diverged - self.diverging) / _MEMORY)
        narrower = (diverging > _TOO_MANY) & (self.retuned < _MOST_RETUNED)
        return self._replace(
            step=jnp.where(climbed | narrower, 0, self.step + 1),
            level=level,
            tuned_at=jnp.where(climbed | tuned, jnp.maximum(self.tuned_at, level), self.tuned_at),
            diverging=diverging,
            retuned=self.retuned + narrower,
        )


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

    @classmethod
    def blank(cls, size: int) -> Transition:
        """Of a step not yet taken, with draws (size,)."""
        number, count = jnp.zeros(()), jnp.zeros((), dtype=int)
        return cls(jnp.zeros(size), number, number, number, count, number, jnp.asarray(False), count)


@compiled_for_few_calls
def init(problem: Problem, whitening: Whitening, z: Array, key: Array, settings: Lifted) -> State:
    """The state before the first step."""
    _, rest = split(problem)
    # Curvature of the rest given the path: what the normal approximation says with the path held fixed.
    hyper_scale_tril = _bounded_scale_tril(whitening.curvature[rest][:, rest]) if rest.size else jnp.zeros((0, 0))
    angle, turn, stride = (Size(jnp.log(size), jnp.log(size)) for size in (0.2, 1.0, 0.5))
    nowhere = jnp.asarray(-jnp.inf)
    moments = _no_moments(rest.size)
    none = jnp.asarray(0)
    sizes = angle, turn, stride, hyper_scale_tril, moments
    return State(whitening.point(z), *sizes, key, none, nowhere, nowhere, jnp.zeros(()), none)


def _no_moments(size: int) -> Moments:
    return Moments(jnp.zeros(()), jnp.zeros(size), jnp.zeros((size, size)))


def _bounded_scale_tril(precision: Array) -> Array:
    """Square root of the inverse, but no wider than priors are: a flat spot at the mode says nothing of its edge."""
    values, vectors = jnp.linalg.eigh(precision)
    return vectors / jnp.sqrt(jnp.maximum(values, _WIDEST**-2))


def step(problem: Problem, whitening: Whitening, state: State, settings: Lifted) -> tuple[State, Transition]:
    """One round: local scales, path, rest."""
    key, jitter_key, small_key, path_key, hyper_key = jax.random.split(state.key, 5)
    warming = state.step < settings.warmup
    jitter = jax.random.uniform(jitter_key, (3,), minval=0.7, maxval=1.1)
    sizes = [jnp.exp(jnp.where(warming, own.log, own.mean)) for own in (state.angle, state.turn, state.stride)]
    small = jax.random.bernoulli(small_key, _SMALL_CHANCE)
    angle, turn, stride = jitter * jnp.where(small, _SMALL, 1.0) * jnp.stack(sizes)
    angle = jnp.minimum(angle, turn)
    rotations = jnp.clip(jnp.round(turn / angle), 1, _MOST_ROTATIONS).astype(int)

    u, moved = _move_path(problem, state.unconstrained, path_key, angle, rotations)
    u, tree_accept, value, hyper_diverging = _move_hyper(problem, state.hyper_scale_tril, u, hyper_key, stride)

    def adapt(old: Size, excess: Array, bounds: tuple[float, float], wanted: Any = True) -> Size:
        new = old.adapted(excess, state.step, settings.warmup, bounds)
        return jax.tree.map(lambda a, b: jnp.where(warming & wanted, a, b), new, old)

    transition = Transition(
        draw=u,
        log_density=value,
        accept_prob=moved.accept_prob,
        step_size=angle,
        num_steps=rotations,
        landed=moved.landed,
        diverging=hyper_diverging | (moved.energy_error > _DIVERGENCE),
        failure=moved.failure,
    )
    hyper_scale_tril, moments = _learn_scale_tril(state, u[split(problem)[1]], settings.warmup)
    moved_on = state._replace(
        unconstrained=u,
        hyper_scale_tril=hyper_scale_tril,
        hyper_moments=moments,
        angle=adapt(state.angle, moved.landed - _LANDED, _ANGLES, ~small),
        turn=adapt(state.turn, moved.accept_prob - _PATH_ACCEPT, _TURNS, ~small),
        stride=adapt(state.stride, tree_accept - _HYPER_ACCEPT, _STRIDES, ~small),
        key=key,
    )
    return moved_on.after_round(value, transition.diverging, settings.warmup), transition


def _learn_scale_tril(state: State, rest: Array, warmup: int) -> tuple[Array, Moments]:
    """Spread of the rest, made anew from the points since the last time after an eighth, a quarter, half a warm-up."""
    old, moments = state.hyper_scale_tril, state.hyper_moments.with_point(rest)
    ends = jnp.any(state.step + 1 == jnp.asarray([warmup // 8, warmup // 4, warmup // 2]))
    learned = ends & (moments.number > rest.size)
    begin_again = ends | (state.step + 1 >= warmup)
    scale_tril = jax.lax.cond(learned, lambda: moments.scale_tril(old), lambda: old)
    return scale_tril, jax.tree.map(
        lambda new, none: jnp.where(begin_again, none, new), moments, _no_moments(rest.size)
    )


def _move_path(problem: Problem, u: Array, key: Array, angle: Array, rotations: Array) -> tuple[Array, lifted.Moved]:
    """As many moves as make a round worth its overhead; where turns must be short, that is several.

    Acceptance and landing are averages over the moves.
    """
    moves = jnp.maximum(1, _ROTATIONS_A_ROUND // rotations)
    whiteners = whiteners_of(problem, u)  # covariances stay as they are meanwhile

    def move(i: Array, carry: tuple[Array, lifted.Moved]) -> tuple[Array, lifted.Moved]:
        u, total = carry
        scale_key, move_key = jax.random.split(jax.random.fold_in(key, i))
        surface, x, place = path_given_hyper(problem, u, whiteners, scale_key)
        moved = lifted.move(surface, surface.point(x), move_key, angle, rotations)
        return place(moved.x), lifted.Moved(
            moved.x,
            total.accept_prob + moved.accept_prob / moves,
            jnp.maximum(total.energy_error, moved.energy_error),
            total.landed + moved.landed / moves,
            jnp.maximum(total.failure, moved.failure),
        )

    where, _ = split(problem)
    nothing = lifted.Moved(u[where], jnp.zeros(()), jnp.asarray(-jnp.inf), jnp.zeros(()), jnp.asarray(0))
    return jax.lax.fori_loop(0, moves, move, (u, nothing))


def _move_hyper(
    problem: Problem, scale_tril: Array, u: Array, key: Array, size: Array
) -> tuple[Array, Array, Array, Array]:
    """New vector, acceptance, log density of the posterior there, and whether the tree diverged."""
    _, where = split(problem)
    log_density = hyper_given_path(problem, u)
    if not where.size:
        return u, jnp.asarray(_HYPER_ACCEPT), log_density(u), jnp.asarray(False)

    def place(z: Array) -> Array:
        return u.at[where].add(scale_tril @ z)

    def potential(z: Array) -> tuple[Array, Array, Array]:
        value, gradient = jax.value_and_grad(lambda z: log_density(place(z)))(z)
        sound = jnp.isfinite(value)
        slope = jnp.where(sound & jnp.isfinite(gradient), -gradient, 0.0)
        return jnp.where(sound, -value, jnp.inf), slope, jnp.asarray(0)

    momentum_key, tree_key = jax.random.split(key)
    here = jnp.zeros(where.size)
    energy, gradient, status = potential(here)
    momentum = jax.random.normal(momentum_key, here.shape)
    tree = build_tree(
        leapfrog(potential),
        euclidean_kinetic_energy,
        IntegratorState((here, status), momentum, energy, gradient),
        jnp.eye(where.size),
        size,
        tree_key,
        max_tree_depth=_HYPER_DEPTH,
    )
    z, _ = tree.z_proposal
    return place(z), tree.sum_accept_probs / tree.num_proposals, -tree.z_proposal_pe, tree.diverging
