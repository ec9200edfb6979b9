"""Hamiltonian moves on the graph of the residuals: what samples paths whose data pin them down.

Data constrain some combinations of parameters a thousand times more tightly than others, and the
tight directions turn as the loose ones move, so no fixed metric suits the posterior. Lifting cures
that. With ``x`` the parameters in units of their prior and ``r(x)`` the residuals in units of their
covariance, the posterior is exp(-|x|²/2 - |r(x)|²/2): a standard normal density in the space of
pairs (x, r), restricted to the surface r = r(x). A free motion in that space is a rotation; a step
is a rotation brought back to the surface along its normals: a system of equations in as many unknowns as
there are parameters. Where paths run apart, the path's own states are unknowns, too. Where the path is
linear in the parameters all this is exact however tight the data are; elsewhere the gradient of the
area element steers, and the remaining error goes into the acceptance probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.problem.factorisation import factorise

_MOST_ITERATIONS = 12
_SHORT, _LOST = 1.0, 1e7  # steps of Newton's method after which it ends: with success or without
# Distances, in units of the posterior's own width. The way back need only show that it leads to the same place.
_SOLVED, _FOUND_BACK, _RETURNED = 1e-6, 1e-4, 1e-3
_ROUNDER = 1e-14  # of the sum of the metric's eigenvalues: more than the rounding errors in it


class Local(NamedTuple):
    """Of a place: residuals ``r`` (m,), their ``slope`` (m, n), the ``path`` behind them, and the status of its solve.

    ``by_input`` (experiments, nodes, states, inputs) and ``inputs_by_x`` (experiments, inputs, n) are derivatives
    of the path (experiments, nodes, states) by what it depends on, and of that by the place.
    """

    r: Array
    slope: Array
    path: Array
    by_input: Array
    inputs_by_x: Array
    status: Array

    def path_after(self, move: Array) -> Array:
        """The path after a small move (n,), to first order."""
        return self.path + jnp.einsum("rksc,rc->rks", self.by_input, self.inputs_by_x @ move)


class Point(NamedTuple):
    """A place ``x`` (n,) on the surface, whose metric is 1 + slope' slope.

    ``whitener`` (n, n) makes the metric the identity, ``log_det`` is the logarithm of its determinant, ``excess`` the
    log density beyond the standard normal one. ``push`` is about the gradient of what bends a free motion: of the
    excess, and of the area element.
    """

    x: Array
    local: Local
    whitener: Array
    log_det: Array
    excess: Array
    push: Array

    @property
    def r(self) -> Array:
        return self.local.r

    @property
    def slope(self) -> Array:
        return self.local.slope

    @property
    def status(self) -> Array:
        return self.local.status

    @property
    def sound(self) -> Array:
        return (self.status == 0) & jnp.isfinite(self.excess) & jnp.isfinite(self.log_det)

    def potential(self) -> Array:
        """Minus the log density on the surface, whose area element is sqrt(det(metric))."""
        return 0.5 * (self.x @ self.x + self.r @ self.r + self.log_det) - self.excess

    # The metric itself is not kept: its condition is the square of the slope's, which may be a million.

    def kinetic(self, v: Array) -> Array:
        along = self.slope @ v
        return 0.5 * (v @ v + along @ along)

    def apply_metric(self, v: Array) -> Array:
        return v + (self.slope @ v) @ self.slope

    def solve_metric(self, b: Array) -> Array:
        return (self.whitener @ b) @ self.whitener


class Surface(NamedTuple):
    """The residuals alone, and with their Jacobian; what the prior has beyond a standard normal, with its gradient.

    ``evaluate(x, path)`` is as ``evaluate(x)``, but only a step from the given path towards the one at ``x``.
    ``steer(x, local, weights)`` is about the gradient (n,) of sum(weights * slope).
    """

    residuals: Callable[[Array], tuple[Array, Array]]
    evaluate: Callable[..., Local]
    excess: Callable[[Array], tuple[Array, Array]]
    steer: Callable[[Array, Local, Array], Array]

    def point(self, x: Array) -> Point:
        local = self.evaluate(x)
        whitener, log_det = _whiten(local.slope)
        excess, push = self.excess(x)
        by_area = self.steer(x, local, local.slope @ whitener.T @ whitener)
        # Wherever a push comes from, moves that heed it can be retraced: it may be left out where it has no value.
        push = push - jnp.where(jnp.isfinite(by_area).all(), by_area, 0.0)
        return Point(x, local, whitener, log_det, excess, push)


def _whiten(slope: Array) -> tuple[Array, Array]:
    """W with W (1 + slope' slope) W' = 1, and the log determinant of what is whitened.

    By Cholesky's factorisation, twice: the second time of what the first has made all but the identity. That is as
    exact as an orthogonal decomposition of the slope. Where the slope is so steep that the metric is singular to
    machine precision, the first is of a rounder one.
    """
    metric = jnp.eye(slope.shape[1]) + slope.T @ slope
    rough = factorise(metric)
    rounder = jnp.trace(metric) * _ROUNDER * jnp.eye(slope.shape[1])
    rough = jax.lax.cond(jnp.isfinite(rough.log_det), lambda: rough, lambda: factorise(metric + rounder))
    nearly = slope @ rough.whitener.T
    rest = factorise(rough.whitener @ rough.whitener.T + nearly.T @ nearly)
    return rest.whitener @ rough.whitener, rough.log_det + rest.log_det


def draw_velocity(at: Point, key: Array) -> Array:
    """Standard normal in the tangent space."""
    return jax.random.normal(key, at.x.shape) @ at.whitener


class Landing(NamedTuple):
    """Where a rotation meets the surface again, whether it was found, and how the last solve on the way ended."""

    x: Array
    solved: Array
    status: Array


def rotate(surface: Surface, at: Point, v: Array, angle: Array, tolerance: Array | float = _SOLVED) -> Landing:
    """Rotate by ``angle`` and come back to the surface."""
    wanted = jnp.cos(angle) * (at.x + at.slope.T @ at.r) + jnp.sin(angle) * at.apply_metric(v)
    return _land(surface, at, wanted, tolerance)


def carry_velocity(at: Point, to: Point, angle: Array) -> Array:
    """Velocity after the rotation that led from ``at`` to ``to``."""
    # The velocity before, with the push along the normals that kept the motion on the surface.
    dx, dr = ((b - jnp.cos(angle) * a) / jnp.sin(angle) for a, b in ((at.x, to.x), (at.r, to.r)))
    ax, ar = jnp.cos(angle) * dx - jnp.sin(angle) * at.x, jnp.cos(angle) * dr - jnp.sin(angle) * at.r
    return to.solve_metric(ax + to.slope.T @ ar)


def _land(surface: Surface, at: Point, wanted: Array, tolerance: Array | float) -> Landing:
    """Solve x + slope(at)' r(x) = wanted: by solves alone while that goes well, else with the path unknown, too.

    Distances are measured in coordinates in which the metric at the start is the identity.
    """

    def mismatch(x: Array, r: Array, status: Array) -> Mismatch:
        gap = at.whitener @ (x + r @ at.slope - wanted)
        size = jnp.sqrt(gap @ gap)
        return Mismatch(gap, jnp.where((status == 0) & jnp.isfinite(size), size, jnp.inf), status.astype(int))

    def value(x: Array) -> Mismatch:
        return mismatch(x, *surface.residuals(x))

    def from_start() -> tuple[Near, Mismatch]:
        return Near(at.x, jnp.eye(at.x.size), at.status.astype(int)), mismatch(at.x, at.r, at.status)

    def from_path() -> tuple[Near, Mismatch]:
        near = _newton(surface, at, wanted)
        return near, value(near.x)

    # A loop of two, rather than one after the other, because compiling takes as long as the code it makes.
    def attempt(carry: tuple[Array, Landing]) -> tuple[Array, Landing]:
        tried, _ = carry
        near, start = jax.lax.cond(tried == 0, from_start, from_path)
        landing = _broyden(value, at.whitener, near, start, tolerance)
        return tried + 1, landing._replace(status=jnp.where(near.status == 0, landing.status, near.status))

    def unfinished(carry: tuple[Array, Landing]) -> Array:
        tried, landing = carry
        return (tried < 2) & ~landing.solved

    nowhere = Landing(at.x, jnp.asarray(False), at.status.astype(int))
    _, landing = jax.lax.while_loop(unfinished, attempt, (jnp.asarray(0), nowhere))
    return landing


class Mismatch(NamedTuple):
    """How far from the solution: the difference, its length (infinite where a solve failed), and the status."""

    gap: Array
    size: Array
    status: Array


class Near(NamedTuple):
    """A place near the solution, the inverse of the derivative there, and the status of the last solve."""

    x: Array
    inverse: Array
    status: Array


def _broyden(
    value: Callable[[Array], Mismatch], whitener: Array, near: Near, start: Mismatch, tolerance: Array | float
) -> Landing:
    """Broyden's method from a place ``near`` the solution, where the mismatch is ``start``.

    It costs a plain solve of the path a step, and gives up if a step does not halve the gap.
    """

    def body(carry: Any) -> Any:
        i, x, here, inverse, _ = carry
        step = -(inverse @ here.gap)
        new = value(x + step @ whitener)
        change = inverse @ (new.gap - here.gap)
        learned = inverse + jnp.outer(step - change, step @ inverse) / (step @ change)
        return i + 1, x + step @ whitener, new, learned, new.size < 0.5 * here.size

    def unfinished(carry: Any) -> Array:
        i, _, here, _, going_well = carry
        return (i < _MOST_ITERATIONS) & going_well & (here.size > tolerance)

    first = (jnp.asarray(0), near.x, start, near.inverse, jnp.isfinite(start.size))
    _, x, end, _, _ = jax.lax.while_loop(unfinished, body, first)
    return Landing(x, end.size <= tolerance, end.status)


def _newton(surface: Surface, at: Point, wanted: Array) -> Near:
    """Newton's method for parameters and path together, until steps are short.

    Where paths run apart, the path is all but a linear function of the parameters only within a tiny
    distance. Each interval of the path by itself is well-behaved, and so are the equations that say how
    they join up.
    """
    whitener = at.whitener
    start = at.slope @ whitener.T

    def body(carry: Any) -> Any:
        i, x, local, step, _ = carry
        move = step @ whitener
        x = x + move
        local = surface.evaluate(x, local.path_after(move))
        matrix = whitener @ whitener.T + start.T @ (local.slope @ whitener.T)
        inverse = jnp.linalg.inv(matrix)
        return i + 1, x, local, inverse @ missing(x, local), inverse

    def missing(x: Array, local: Local) -> Array:
        return whitener @ (wanted - x - local.r @ at.slope)

    def unfinished(carry: Any) -> Array:
        i, _, local, step, _ = carry
        size = jnp.sqrt(step @ step)
        # The first step is as long as the rotation, and says nothing of how far off its end is.
        far = (i == 0) | (size > _SHORT)
        return (i < _MOST_ITERATIONS) & far & (size < _LOST) & (local.status == 0)

    first = (jnp.asarray(0), at.x, at.local, missing(at.x, at.local), jnp.eye(at.x.size))
    _, x, local, step, inverse = jax.lax.while_loop(unfinished, body, first)
    return Near(x + step @ whitener, inverse, local.status.astype(int))


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

    def leg(carry: tuple[Array, Point, Array, Landing]) -> tuple[Array, Point, Array, Landing]:
        """There, and from there back, with the velocity reversed."""
        done, at, v, _ = carry
        landing = rotate(surface, at, v, angle, jnp.where(done == 0, _SOLVED, _FOUND_BACK))

        def arrive() -> tuple[Point, Array]:
            there = surface.point(landing.x)
            return there, -carry_velocity(at, there, angle)

        at, v = jax.lax.cond((done == 0) & landing.solved, arrive, lambda: (at, v))
        return done + 1, at, v, landing

    def unfinished(carry: tuple[Array, Point, Array, Landing]) -> Array:
        done, at, _, landing = carry
        return (done < 2) & landing.solved & at.sound

    pushed = v + 0.5 * angle * p.solve_metric(p.push)
    start = (jnp.asarray(0), p, pushed, Landing(p.x, jnp.asarray(True), p.status.astype(int)))
    done, there, backwards, back = jax.lax.while_loop(unfinished, leg, start)
    ok = (done == 2) & back.solved & (2.0 * p.kinetic(back.x - p.x) < _RETURNED**2)
    status = jnp.where(back.solved, there.status.astype(int), back.status)
    return there, 0.5 * angle * there.solve_metric(there.push) - backwards, ok, status
