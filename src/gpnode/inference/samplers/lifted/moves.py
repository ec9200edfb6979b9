"""Moves of the two halves: rotations of what the path depends on, and NUTS for the hyperparameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.infer.hmc_util import IntegratorState, build_tree, euclidean_kinetic_energy

from gpnode.inference.samplers.lifted.conditioning import PathSurface, hyper_given_path, path_given_hyper, whiteners_of
from gpnode.inference.samplers.lifted.forms import change_form
from gpnode.inference.samplers.lifted.landing import Landed, carry_velocity, rotate
from gpnode.inference.samplers.lifted.settings import Landing, Moves
from gpnode.inference.samplers.lifted.surface import Point, Surface
from gpnode.inference.samplers.nuts import leapfrog
from gpnode.problem.density import Problem


def draw_velocity(at: Point, key: Array) -> Array:
    """Standard normal in the tangent space."""
    return jax.random.normal(key, at.x.shape) @ at.whitener


class Moved(NamedTuple):
    """Outcome of a move: where it ended, how likely that was to be accepted, whether every rotation worked.

    ``failure`` is the status of the solve that stopped it, if one did.
    """

    x: Array
    accept_prob: Array
    energy_error: Array
    landed: Array
    failure: Array


def move(surface: Surface, at: Point, key: Array, angle: Array, rotations: Array) -> Moved:
    """One transition of ``rotations`` rotations by ``angle``, accepted or not."""
    velocity_key, accept_key = jax.random.split(key)
    v = draw_velocity(at, velocity_key)
    before = at.potential() + at.kinetic(v)

    def body(carry: Any) -> Any:
        i, p, v, _, _ = carry
        return i + 1, *_checked_step(surface, p, v, angle)

    def unfinished(carry: Any) -> Array:
        i, _, _, landed, _ = carry
        return (i < rotations) & landed

    start = (jnp.asarray(0), at, v, at.sound, at.status.astype(int))
    _, end, v, landed, failure = jax.lax.while_loop(unfinished, body, start)
    error = end.potential() + end.kinetic(v) - before
    accept = jnp.where(landed & jnp.isfinite(error), jnp.minimum(1.0, jnp.exp(-error)), 0.0)
    taken = jax.random.uniform(accept_key) < accept
    return Moved(jnp.where(taken, end.x, at.x), accept, jnp.where(landed, error, 0.0), landed, failure)


def _checked_step(surface: Surface, p: Point, v: Array, angle: Array) -> tuple[Point, Array, Array, Array]:
    """A step that can be retraced: otherwise it would not leave the posterior unchanged.

    Returns the point, the velocity, whether it worked, and the status of the solve that prevented it, if one did.
    """
    settings = surface.landing

    def leg(carry: tuple[Array, Point, Array, Landed]) -> tuple[Array, Point, Array, Landed]:
        """There, and from there back, with the velocity reversed."""
        done, at, v, _ = carry
        landed = rotate(surface, at, v, angle, jnp.where(done == 0, settings.solved, settings.retraced))

        def arrive() -> tuple[Point, Array]:
            there = surface.point(landed.x)
            return there, -carry_velocity(at, there, angle)

        at, v = jax.lax.cond((done == 0) & landed.solved, arrive, lambda: (at, v))
        return done + 1, at, v, landed

    def unfinished(carry: tuple[Array, Point, Array, Landed]) -> Array:
        done, at, _, landed = carry
        return (done < 2) & landed.solved & at.sound

    pushed = v + 0.5 * angle * p.solve_metric(p.push)
    start = (jnp.asarray(0), p, pushed, Landed(p.x, jnp.asarray(True), p.status.astype(int)))
    done, there, backwards, back = jax.lax.while_loop(unfinished, leg, start)
    ok = (done == 2) & back.solved & (2.0 * p.kinetic(back.x - p.x) < settings.returned**2)
    status = jnp.where(back.solved, there.status.astype(int), back.status)
    return there, 0.5 * angle * there.solve_metric(there.push) - backwards, ok, status


def move_path(
    problem: Problem, u: Array, key: Array, angle: Array, rotations: Array, moves: Moves, landing: Landing
) -> tuple[Array, Moved]:
    """As many moves as make a round worth its overhead; where turns must be short, that is several.

    Acceptance and landing are averages over the moves.
    """
    repeats = jnp.maximum(1, moves.rotations_a_round // rotations)
    whiteners = whiteners_of(problem, u)  # covariances stay as they are meanwhile

    def once(i: Array, carry: tuple[Array, Moved]) -> tuple[Array, Moved]:
        u, total = carry
        scale_key, move_key = jax.random.split(jax.random.fold_in(key, i))
        surface, x, place = path_given_hyper(problem, u, whiteners, scale_key, landing)
        moved = move(surface, surface.point(x), move_key, angle, rotations)
        return place(moved.x), Moved(
            moved.x,
            total.accept_prob + moved.accept_prob / repeats,
            jnp.maximum(total.energy_error, moved.energy_error),
            total.landed + moved.landed / repeats,
            jnp.maximum(total.failure, moved.failure),
        )

    form_key, key = jax.random.split(key)
    u = _move_form(problem, u, form_key, whiteners, landing)
    nothing = Moved(u[problem.path_positions], jnp.zeros(()), jnp.asarray(-jnp.inf), jnp.zeros(()), jnp.asarray(0))
    return jax.lax.fori_loop(0, repeats, once, (u, nothing))


def _move_form(problem: Problem, u: Array, key: Array, whiteners: list[Array], landing: Landing) -> Array:
    """Another form of the equations, where a prior says which terms act; else ``u``."""
    values = problem.constrain(u)
    for block in problem.dynamics.blocks:
        found = block.components(values)
        if found is not None:
            name, components = found
            key, own_key, change_key = jax.random.split(key, 3)
            where = _positions(problem, name)
            u = change_form(PathSurface(problem, u, whiteners, own_key, landing), components, where, u, change_key)
    return u


def _positions(problem: Problem, name: str) -> np.ndarray:
    """Where a parameter lies among those that move the path."""
    held = problem.layout.slices()[name]
    return np.flatnonzero(np.isin(problem.path_positions, np.arange(held.start, held.stop)))


class HyperMoved(NamedTuple):
    """Outcome of a move of the hyperparameters: the whole vector, acceptance, log density, and whether it diverged."""

    unconstrained: Array
    accept_prob: Array
    log_density: Array
    diverging: Array


def move_hyper(
    problem: Problem, scale_tril: Array, u: Array, key: Array, size: Array, depth: int, idle_accept: float
) -> HyperMoved:
    """One tree of NUTS with the path held fixed; acceptance is ``idle_accept`` where there is nothing to move."""
    where = problem.hyper_positions
    log_density = hyper_given_path(problem, u)
    if not where.size:
        return HyperMoved(u, jnp.asarray(idle_accept), log_density(u), jnp.asarray(False))

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
        max_tree_depth=depth,
    )
    z, _ = tree.z_proposal
    return HyperMoved(place(z), tree.sum_accept_probs / tree.num_proposals, -tree.z_proposal_pe, tree.diverging)
