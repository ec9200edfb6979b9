"""What the lifted sampler learns while it warms up: step sizes, and the shape of hyperparameter moves."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.inference.samplers.lifted.settings import Adaptation


class StepSize(NamedTuple):
    """A step size finding itself: its logarithm now, and the mean of it over the second half of the warm-up."""

    log: Array
    mean: Array

    def adapted(self, excess: Array, step: Array, warmup: int, bounds: tuple[float, float]) -> StepSize:
        """Larger if ``excess`` of success over the target is positive; changes die down."""
        log = jnp.clip(self.log + excess / jnp.sqrt(4.0 + step), *(jnp.log(b) for b in bounds))
        late = jnp.maximum(step - warmup // 2, 0)
        return StepSize(log, self.mean + (log - self.mean) / (1.0 + late))


class Moments(NamedTuple):
    """Of points (size,) so far: how many, their mean, and sums of products of deviations from it (size, size)."""

    number: Array
    mean: Array
    products: Array

    @classmethod
    def none(cls, size: int) -> Moments:
        """Of no points yet."""
        return cls(jnp.zeros(()), jnp.zeros(size), jnp.zeros((size, size)))

    def with_point(self, point: Array) -> Moments:
        number = self.number + 1
        before = point - self.mean
        mean = self.mean + before / number
        return Moments(number, mean, self.products + jnp.outer(before, point - mean))

    def scale_tril(self, old: Array, old_weight: float) -> Array:
        """Square root of the covariance, in which the ``old`` one counts for so many points."""
        total = self.products + old_weight * old @ old.T
        values, vectors = jnp.linalg.eigh(total / (self.number + old_weight))
        return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


class State(NamedTuple):
    """Everything needed to go on. ``angle``, ``turn`` and ``stride`` are step sizes.

    ``hyper_scale_tril`` is the shape of moves of the hyperparameters, ``hyper_moments`` what a better one is made of.
    ``step`` counts rounds since the warm-up began, ``level`` is the mean log density of late, ``tuned_at`` what it was
    when step sizes had been found, ``diverging`` the part of rounds of late that diverged, ``retuned`` how often that
    was too many.
    """

    unconstrained: Array
    angle: StepSize
    turn: StepSize
    stride: StepSize
    hyper_scale_tril: Array
    hyper_moments: Moments
    key: Array
    step: Array
    level: Array
    tuned_at: Array
    diverging: Array
    retuned: Array

    def after_round(self, log_density: Array, diverged: Array, warmup: int, settings: Adaptation) -> State:
        """The warm-up begins again if the chain has climbed, or come to a narrower place.

        Both happen a finite number of times, and no draw from before is kept.
        """
        first = (self.step == 0) & jnp.isneginf(self.tuned_at)
        level = jnp.where(first, log_density, self.level + (log_density - self.level) / settings.memory)
        margin = settings.climbed * jnp.sqrt(0.5 * self.unconstrained.size)
        climbed = (self.step >= warmup) & (level > self.tuned_at + margin)
        tuned = self.step == warmup - 1
        diverging = jnp.where(self.step < warmup, 0.0, self.diverging + (diverged - self.diverging) / settings.memory)
        narrower = (diverging > settings.diverging) & (self.retuned < settings.most_retuned)
        return self._replace(
            step=jnp.where(climbed | narrower, 0, self.step + 1),
            level=level,
            tuned_at=jnp.where(climbed | tuned, jnp.maximum(self.tuned_at, level), self.tuned_at),
            diverging=diverging,
            retuned=self.retuned + narrower,
        )


def learn_scale_tril(state: State, hyper: Array, warmup: int, settings: Adaptation) -> tuple[Array, Moments]:
    """Shape of hyperparameter moves, made anew from the points since the last time when a window ends."""
    old, moments = state.hyper_scale_tril, state.hyper_moments.with_point(hyper)
    ends = jnp.any(state.step + 1 == jnp.asarray([warmup // divisor for divisor in settings.windows]))
    learned = ends & (moments.number > hyper.size)
    begin_again = ends | (state.step + 1 >= warmup)
    scale_tril = jax.lax.cond(learned, lambda: moments.scale_tril(old, settings.old_weight), lambda: old)
    none = Moments.none(hyper.size)
    return scale_tril, jax.tree.map(lambda new, empty: jnp.where(begin_again, empty, new), moments, none)


def bounded_scale_tril(precision: Array, widest: float) -> Array:
    """Square root of the inverse, but no wider than priors are."""
    values, vectors = jnp.linalg.eigh(precision)
    return vectors / jnp.sqrt(jnp.maximum(values, widest**-2))
