"""Hamiltonian moves on the graph of the residuals: what samples paths whose data pin them down.

Data constrain some combinations of parameters a thousand times more tightly than others, and the
tight directions turn as the loose ones move, so no fixed metric suits the posterior. Lifting cures
that. With ``x`` the parameters in units of their prior and ``r(x)`` the residuals in units of their
covariance, the posterior is exp(-|x|²/2 - |r(x)|²/2): a standard normal density in the space of
pairs (x, r), restricted to the surface r = r(x). A free motion in that space is a rotation; a step
is a rotation brought back to the surface along its normals: a system of equations in as many unknowns as
there are parameters. Where paths run apart, the path's own states are unknowns, too. Where the path is
linear in the parameters all this is exact however tight the data are; the remaining error goes into the
acceptance probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..factorise import Factors, factorise

_MOST_ITERATIONS = 12
_SHORT, _LOST = 1e-4, 1e4  # steps of Newton's method after which it ends; the error left is as the step's square
# Distances, in units of the posterior's own width. The way back need only show that it leads to the same place.
_SOLVED, _FOUND_BACK, _RETURNED = 1e-6, 1e-4, 1e-3


class Point(NamedTuple):
    """A place on the surface.

    ``x`` (n,), ``r`` (m,) residuals, ``slope`` (m, n) their Jacobian, ``metric`` (n, n) = 1 + slope'
    slope, with its factors, ``excess`` and ``push`` the log density beyond the standard normal one and its
    gradient, ``path`` the states behind the residuals, ``status`` of the solve.
    """

    x: Array
    r: Array
    slope: Array
    metric: Array
    factors: Factors
    excess: Array
    push: Array
    path: Array
    status: Array

    @property
    def sound(self) -> Array:
        return (self.status == 0) & jnp.isfinite(self.excess) & jnp.isfinite(self.factors.log_det)

    def potential(self) -> Array:
        """Minus the log density on the surface, whose area element is sqrt(det(metric))."""
        return 0.5 * (self.x @ self.x + self.r @ self.r + self.factors.log_det) - self.excess

    def kinetic(self, v: Array) -> Array:
        return 0.5 * v @ self.metric @ v

    def solve_metric(self, b: Array) -> Array:
        return (self.factors.whitener @ b) @ self.factors.whitener  # more exact than by the inverse


class Local(NamedTuple):
    """Residuals ``r`` (m,) of a ``path``, their ``slope`` (m, n), the path after a small move, and the status."""

    r: Array
    slope: Array
    path: Array
    path_after: Callable[[Array], Array]
    status: Array


class Surface(NamedTuple):
    """The residuals alone, and with their Jacobian; what the prior has beyond a standard normal, with its gradient.

    ``correct(x, path)`` is as ``evaluate(x)``, but only a step from the given path towards the one at ``x``.
    """

    residuals: Callable[[Array], tuple[Array, Array]]
    evaluate: Callable[[Array], Local]
    correct: Callable[[Array, Array], Local]
    excess: Callable[[Array], tuple[Array, Array]]

    def point(self, x: Array) -> Point:
        r, slope, path, _, status = self.evaluate(x)
        metric = jnp.eye(x.size) + slope.T @ slope
        excess, push = self.excess(x)
        return Point(x, r, slope, metric, factorise(metric), excess, push, path, status)


def draw_velocity(at: Point, key: Array) -> Array:
    """Standard normal in the tangent space."""
    return jax.random.normal(key, at.x.shape) @ at.factors.whitener


class Landing(NamedTuple):
    """Where a rotation meets the surface again, whether it was found, and how the last solve on the way ended."""

    x: Array
    solved: Array
    status: Array


def rotate(surface: Surface, at: Point, v: Array, angle: Array, tolerance: float = _SOLVED) -> Landing:
    """Rotate by ``angle`` and come back to the surface."""
    wanted = jnp.cos(angle) * (at.x + at.slope.T @ at.r) + jnp.sin(angle) * (at.metric @ v)
    return _land(surface, at, wanted, tolerance)


def carry_velocity(at: Point, to: Point, angle: Array) -> Array:
    """Velocity after the rotation that led from ``at`` to ``to``."""
    # The velocity before, with the push along the normals that kept the motion on the surface.
    dx, dr = ((b - jnp.cos(angle) * a) / jnp.sin(angle) for a, b in ((at.x, to.x), (at.r, to.r)))
    ax, ar = jnp.cos(angle) * dx - jnp.sin(angle) * at.x, jnp.cos(angle) * dr - jnp.sin(angle) * at.r
    return to.solve_metric(ax + to.slope.T @ ar)


def _land(surface: Surface, at: Point, wanted: Array, tolerance: float) -> Landing:
    """Solve x + slope(at)' r(x) = wanted: by solves alone while that goes well, else with the path unknown, too.

    Distances are measured in coordinates in which the metric at the start is the identity.
    """

    def mismatch(x: Array, r: Array, status: Array) -> Mismatch:
        gap = at.factors.whitener @ (x + r @ at.slope - wanted)
        size = jnp.sqrt(gap @ gap)
        return Mismatch(gap, jnp.where((status == 0) & jnp.isfinite(size), size, jnp.inf), status.astype(int))

    def value(x: Array) -> Mismatch:
        return mismatch(x, *surface.residuals(x))

    def with_path() -> Landing:
        x, status = _newton(surface, at, wanted)
        found = value(x)
        return Landing(x, found.size <= tolerance, jnp.where(status == 0, found.status, status))

    easily = _broyden(value, at, mismatch(at.x, at.r, at.status), tolerance)
    return jax.lax.cond(easily.solved, lambda: easily, with_path)


class Mismatch(NamedTuple):
    """How far from the solution: the difference, its length (infinite where a solve failed), and the status."""

    gap: Array
    size: Array
    status: Array


def _broyden(value: Callable[[Array], Mismatch], at: Point, start: Mismatch, tolerance: float) -> Landing:
    """Broyden's method, needing no derivatives but those at the start; gives up if a step does not halve the gap."""

    def body(carry: Any) -> Any:
        i, x, here, inverse, _ = carry
        step = -(inverse @ here.gap)
        new = value(x + step @ at.factors.whitener)
        change = inverse @ (new.gap - here.gap)
        learned = inverse + jnp.outer(step - change, step @ inverse) / (step @ change)
        return i + 1, x + step @ at.factors.whitener, new, learned, new.size < 0.5 * here.size

    def unfinished(carry: Any) -> Array:
        i, _, here, _, going_well = carry
        return (i < _MOST_ITERATIONS) & going_well & (here.size > tolerance)

    first = (jnp.asarray(0), at.x, start, jnp.eye(at.x.size), jnp.asarray(True))
    _, x, end, _, _ = jax.lax.while_loop(unfinished, body, first)
    return Landing(x, end.size <= tolerance, end.status)


def _newton(surface: Surface, at: Point, wanted: Array) -> tuple[Array, Array]:
    """Newton's method for parameters and path together, until a step is short; and the status.

    Where paths drift apart, the path is all but a linear function of the parameters only within a tiny
    distance. Each interval of the path by itself is well-behaved, and so are the equations that say how
    they join up.
    """
    whitener = at.factors.whitener
    start = at.slope @ whitener.T

    def body(carry: Any) -> Any:
        i, x, path, _, _ = carry
        local = surface.correct(x, path)
        matrix = whitener @ whitener.T + start.T @ (local.slope @ whitener.T)
        step = jnp.linalg.solve(matrix, whitener @ (wanted - x - local.r @ at.slope))
        move = step @ whitener
        return i + 1, x + move, local.path_after(move), jnp.sqrt(step @ step), local.status.astype(int)

    def unfinished(carry: Any) -> Array:
        i, _, _, size, status = carry
        return (i < _MOST_ITERATIONS) & (size > _SHORT) & (size < _LOST) & (status == 0)

    first = (jnp.asarray(0), at.x, at.path, jnp.asarray(1.0), at.status.astype(int))
    _, x, _, _, status = jax.lax.while_loop(unfinished, body, first)
    return x, status


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
    v = v + 0.5 * angle * p.solve_metric(p.push)
    landing = rotate(surface, p, v, angle)

    def arrive() -> tuple[Point, Array, Array, Array]:
        there = surface.point(landing.x)
        arrived = carry_velocity(p, there, angle)
        back = rotate(surface, there, -arrived, angle, _FOUND_BACK)
        ok = there.sound & back.solved & (2.0 * p.kinetic(back.x - p.x) < _RETURNED**2)
        status = jnp.where(back.solved, there.status.astype(int), back.status)
        return there, arrived + 0.5 * angle * there.solve_metric(there.push), ok, status

    return jax.lax.cond(landing.solved, arrive, lambda: (p, v, landing.solved, landing.status))
