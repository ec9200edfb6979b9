"""Coming back to the surface after a rotation: a system of equations in as many unknowns as there are parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.inference.samplers.lifted.surface import Local, Point, Surface


class Landed(NamedTuple):
    """Where a rotation meets the surface again, whether it was found, and how the last solve on the way ended."""

    x: Array
    solved: Array
    status: Array


def rotate(surface: Surface, at: Point, v: Array, angle: Array, tolerance: Array | float) -> Landed:
    """Rotate by ``angle`` and come back to the surface, to within ``tolerance``."""
    wanted = jnp.cos(angle) * (at.x + at.slope.T @ at.r) + jnp.sin(angle) * at.apply_metric(v)
    return land(surface, at, wanted, tolerance)


def carry_velocity(at: Point, to: Point, angle: Array) -> Array:
    """Velocity after the rotation that led from ``at`` to ``to``."""
    # The velocity before, with the push along the normals that kept the motion on the surface.
    dx, dr = ((b - jnp.cos(angle) * a) / jnp.sin(angle) for a, b in ((at.x, to.x), (at.r, to.r)))
    ax, ar = jnp.cos(angle) * dx - jnp.sin(angle) * at.x, jnp.cos(angle) * dr - jnp.sin(angle) * at.r
    return to.solve_metric(ax + to.slope.T @ ar)


def land(surface: Surface, at: Point, wanted: Array, tolerance: Array | float) -> Landed:
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
    def attempt(carry: tuple[Array, Landed]) -> tuple[Array, Landed]:
        tried, _ = carry
        near, start = jax.lax.cond(tried == 0, from_start, from_path)
        landed = _broyden(value, at.whitener, near, start, tolerance, surface.landing.most_iterations)
        return tried + 1, landed._replace(status=jnp.where(near.status == 0, landed.status, near.status))

    def unfinished(carry: tuple[Array, Landed]) -> Array:
        tried, landed = carry
        return (tried < 2) & ~landed.solved

    nowhere = Landed(at.x, jnp.asarray(False), at.status.astype(int))
    _, landed = jax.lax.while_loop(unfinished, attempt, (jnp.asarray(0), nowhere))
    return landed


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
    value: Callable[[Array], Mismatch],
    whitener: Array,
    near: Near,
    start: Mismatch,
    tolerance: Array | float,
    most_iterations: int,
) -> Landed:
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
        return (i < most_iterations) & going_well & (here.size > tolerance)

    first = (jnp.asarray(0), near.x, start, near.inverse, jnp.isfinite(start.size))
    _, x, end, _, _ = jax.lax.while_loop(unfinished, body, first)
    return Landed(x, end.size <= tolerance, end.status)


def _newton(surface: Surface, at: Point, wanted: Array) -> Near:
    """Newton's method for parameters and path together, until steps are short.

    Where paths run apart, the path is all but a linear function of the parameters only within a tiny
    distance. Each interval of the path by itself is well-behaved, and so are the equations that say how
    they join up.
    """
    settings, whitener = surface.landing, at.whitener
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
        far = (i == 0) | (size > settings.near)
        return (i < settings.most_iterations) & far & (size < settings.lost) & (local.status == 0)

    first = (jnp.asarray(0), at.x, at.local, missing(at.x, at.local), jnp.eye(at.x.size))
    _, x, local, step, inverse = jax.lax.while_loop(unfinished, body, first)
    return Near(x + step @ whitener, inverse, local.status.astype(int))
