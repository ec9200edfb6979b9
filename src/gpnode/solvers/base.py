"""The solver seam: what a backend must provide, and how its gradient is made safe.

A backend's ``solve`` is a pure function that never raises under jit. A solve that goes wrong
says so in ``status`` and returns finite numbers all the same, so that neither the likelihood
nor its gradient ever sees NaN.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

VectorField = Callable[[Array, Array, Any], Array]
"""``vector_field(t, x, params) -> dx/dt`` with ``x`` and the result of shape (states,)."""

# Scaled states are of order one where there are data. A path this far out has left them for good. The
# bound is generous because a latent state has no data to be scaled by.
BLOW_UP_BOUND = 1e12

# With up to this many parameters, carrying their sensitivities forward beats a reverse sweep.
_FORWARD_LIMIT = 64


class Status(IntEnum):
    """Why a likelihood evaluation could not be completed."""

    OK = 0
    BLOW_UP = 1
    TOO_MANY_STEPS = 2
    NOT_FINITE = 3
    OUTSIDE_DOMAIN = 4


class Trajectory(NamedTuple):
    """A solution at the requested times: ``xs`` (times, states), ``status``, ``num_steps``."""

    xs: Array
    status: Array
    num_steps: Array


class Solver(eqx.Module):
    """One way of solving initial value problems."""

    @abstractmethod
    def solve(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Trajectory:
        """Solve from ``x0`` at ``ts[0]``; differentiable in forward mode in ``params`` and ``x0``."""

    @abstractmethod
    def solve_reversible(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Trajectory:
        """The same solution, differentiable in reverse mode."""

    @property
    def reverses(self) -> bool:
        """Whether :meth:`solve_reversible` is safe to differentiate after a failed solve."""
        return True

    @property
    def follows_grid(self) -> bool:
        """True if the steps are exactly the intervals of ``ts``, so that the caller chooses them."""
        return False


def classify(xs: Array) -> Array:
    """Status of a path by its values alone."""
    finite = jnp.all(jnp.isfinite(xs))
    bounded = jnp.all(jnp.abs(jnp.where(jnp.isfinite(xs), xs, 0.0)) < BLOW_UP_BOUND)
    return jnp.where(finite, jnp.where(bounded, Status.OK, Status.BLOW_UP), Status.NOT_FINITE)


def solve_with_gradient(
    solver: Solver,
    vector_field: VectorField,
    params: Any,
    x0: Array,
    ts: Array,
    free_states: tuple[int, ...],
) -> Trajectory:
    """Solve so that reverse-mode differentiation is cheap and always finite.

    Sensitivities run forward with the solution when there are few parameters, backward when
    there are many; a failed solve has gradient zero. ``free_states`` are the states whose
    initial value is unknown: no others get a sensitivity.
    """
    flat, unravel = ravel_pytree(params)
    free = jnp.asarray(free_states, dtype=int)
    theta = jnp.concatenate([flat, x0[free]])
    forward = theta.size <= _FORWARD_LIMIT or not solver.reverses

    def run(theta: Array, x0: Array, ts: Array) -> Trajectory:
        solve = solver.solve if forward else solver.solve_reversible
        return solve(vector_field, unravel(theta[: flat.size]), x0.at[free].set(theta[flat.size :]), ts)

    path = jax.custom_vjp(run)

    def path_fwd(theta: Array, x0: Array, ts: Array) -> tuple[Trajectory, Any]:
        if forward:
            found, jacobian = _jacobian_forward(lambda th: run(th, x0, ts), theta)
            return found, (jacobian, found.status)
        found, pull_back = jax.vjp(lambda th: run(th, x0, ts), theta)
        return found, (pull_back, found.status)

    def path_bwd(residuals: Any, cotangent: Trajectory) -> tuple[Array, None, None]:
        derivative, status = residuals
        if forward:
            gradient = jnp.einsum("ptd,td->p", derivative, cotangent.xs)
        else:
            (gradient,) = derivative(cotangent)
        return jnp.where(status == Status.OK, gradient, 0.0), None, None

    path.defvjp(path_fwd, path_bwd)
    return path(theta, jax.lax.stop_gradient(x0), ts)


def _jacobian_forward(run: Callable[[Array], Trajectory], theta: Array) -> tuple[Trajectory, Array]:
    """The path and its derivatives (parameters, times, states) by pushing a basis forward."""

    def push(tangent: Array) -> tuple[Trajectory, Array]:
        found, moved = jax.jvp(run, (theta,), (tangent,))
        return found, moved.xs

    found, jacobian = jax.vmap(push, out_axes=(None, 0))(jnp.eye(theta.size))
    return found, jnp.where(found.status == Status.OK, jacobian, 0.0)
