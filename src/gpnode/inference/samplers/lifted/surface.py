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
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from gpnode.inference.samplers.lifted.settings import Landing
from gpnode.problem.factorisation import factorise


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
    log density beyond the standard normal one. ``push`` is about the gradient of what deflects a free motion: of the
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
    landing: Landing = Landing()

    def point(self, x: Array) -> Point:
        local = self.evaluate(x)
        whitener, log_det = whiten_metric(local.slope, self.landing.ridge)
        excess, push = self.excess(x)
        by_area = self.steer(x, local, local.slope @ whitener.T @ whitener)
        # Wherever a push comes from, moves that heed it can be retraced: it may be left out where it has no value.
        push = push - jnp.where(jnp.isfinite(by_area).all(), by_area, 0.0)
        return Point(x, local, whitener, log_det, excess, push)


def whiten_metric(slope: Array, ridge: float) -> tuple[Array, Array]:
    """W with W (1 + slope' slope) W' = 1, and the log determinant of what is whitened.

    By Cholesky's factorisation, twice: the second time of what the first has made all but the identity. That is as
    exact as an orthogonal decomposition of the slope. Where the slope is so steep that the metric is singular to
    machine precision, the first is of a rounder one.
    """
    metric = jnp.eye(slope.shape[1]) + slope.T @ slope
    rough = factorise(metric)
    rounder = jnp.trace(metric) * ridge * jnp.eye(slope.shape[1])
    rough = jax.lax.cond(jnp.isfinite(rough.log_det), lambda: rough, lambda: factorise(metric + rounder))
    nearly = slope @ rough.whitener.T
    correction = factorise(rough.whitener @ rough.whitener.T + nearly.T @ nearly)
    return correction.whitener @ rough.whitener, rough.log_det + correction.log_det
