"""The solver seam: what a backend must provide, what it may offer besides, and how its gradient is made safe.

A backend's ``solve`` is a pure function that never raises under jit. A solve that goes wrong
says so in ``status`` and returns finite numbers all the same, so that neither the likelihood
nor its gradient ever sees NaN. The rest of :class:`Solver` has defaults that work with ``solve``
alone; what only some backends can do is a class of its own, which they inherit. Functions that
take any solver (:func:`solve_from_guess`, :func:`differentiate_jacobian`) do without where it is missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.solvers.driven import Driven, FreeField, actions_of, with_actions

VectorField = FreeField | Driven
"""``vector_field(t, x, params) -> dx/dt`` with ``x`` and the result of shape (states,), or one that is acted on."""

# Scaled states are of order one where there are data. A path this far out has left them for good. The
# bound is generous because a latent state has no data to be scaled by.
BLOW_UP_BOUND = 1e12

# With up to this many parameters, carrying their sensitivities forward beats a reverse sweep.
FORWARD_LIMIT = 64


class Status(IntEnum):
    """Why a likelihood evaluation could not be completed."""

    OK = 0
    BLOW_UP = 1
    TOO_MANY_STEPS = 2
    NOT_FINITE = 3
    OUTSIDE_DOMAIN = 4


class Solution(NamedTuple):
    """A solution at the requested times: ``xs`` (times, states), ``status``, ``num_steps``."""

    xs: Array
    status: Array
    num_steps: Array


class Solver(eqx.Module):
    """One way of solving initial value problems."""

    name: ClassVar[str]
    """What the solver is called in files."""
    is_native: ClassVar[bool] = False
    """Whether solves run in native code."""
    follows_grid: ClassVar[bool] = False
    """Whether the steps are exactly the intervals of ``ts``, so that the caller chooses them."""
    reverses: ClassVar[bool] = True
    """Whether :meth:`solve_reversible` is safe to differentiate after a failed solve."""

    @abstractmethod
    def solve(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        """Solve from ``x0`` at ``ts[0]``; differentiable in forward mode in ``params`` and ``x0``."""

    def solve_reversible(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        """The same solution, differentiable in reverse mode."""
        return self.solve(vector_field, params, x0, ts)

    def solve_with_jacobian(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...]
    ) -> tuple[Solution, Array]:
        """The path and its derivatives (times, states, columns); zero where the solve failed.

        Columns are the flattened parameters, then the initial values of ``free_states``.
        """
        theta, run = _as_function(self.solve, vector_field, params, x0, ts, free_states)

        def push(tangent: Array) -> tuple[Solution, Array]:
            solution, moved = jax.jvp(run, (theta,), (tangent,))
            return solution, moved.xs

        solution, jacobian = jax.vmap(push, out_axes=(None, -1))(jnp.eye(theta.size))
        return solution, jnp.where(solution.status == Status.OK, jacobian, 0.0)

    def solve_with_pull_back(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...]
    ) -> tuple[Solution, Callable[[Array], Array]]:
        """The path and the function from a cotangent (times, states) of it to one of the columns."""
        theta, run = _as_function(self.solve_reversible, vector_field, params, x0, ts, free_states)
        solution, pull = jax.vjp(run, theta)
        zeros = [jnp.zeros(jnp.shape(a), jax.dtypes.float0) for a in (solution.status, solution.num_steps)]
        return solution, jax.tree_util.Partial(lambda cotangent, pull: pull(Solution(cotangent, *zeros))[0], pull=pull)

    cuts_steps: ClassVar[bool] = False
    """True if steps of a grid are cut where they err by more than :attr:`step_error`, path by path."""

    @property
    def step_error(self) -> float:
        """The error of a step at which it is cut."""
        return float("inf")

    def at_tolerance(self, step_error: float) -> Solver:
        """The same backend for a grid on which steps err by about ``step_error``."""
        return self

    def limited(self, steps: int) -> Solver:
        """The same backend, which gives up when it needs ``steps`` more than asked for, if it may take more at all."""
        return self

    def controlled(self, step_error: float) -> Solver:
        """A backend that keeps the error of a step to about ``step_error`` by itself, whatever the times."""
        return self

    def native_counterpart(self) -> Solver | None:
        """What stands for this solver where the vector field can be compiled; ``None`` if nothing does."""
        return None


class CorrectsGuess(Solver):
    """A solver that can begin on the way, and so improve a guess of the whole path."""

    @abstractmethod
    def correct_guess(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...], guess: Array
    ) -> tuple[Solution, Array]:
        """A path nearer to the solution than ``guess`` (times, states), and derivatives as of a solve.

        It is one step of Newton's method with the states at all times unknown: each interval is solved from the guess,
        and the jumps between intervals are taken out to first order. Errors of the guess do not grow along the path,
        so this leads to the solution from much farther than solving from ``x0`` does where paths run apart.
        """


class HasSecondDerivatives(Solver):
    """A solver that can differentiate the path's derivatives."""

    @abstractmethod
    def jacobian_gradient(
        self,
        vector_field: VectorField,
        params: Any,
        ts: Array,
        xs: Array,
        jacobian: Array,
        weights: Array,
        free_states: tuple[int, ...],
    ) -> Array:
        """About the gradient (columns,) of sum(weights * jacobian), both (times, states, columns), along a path ``xs``.

        It is as exact as steps of fourth order over the intervals of ``ts`` are.
        """


def solve_from_guess(
    solver: Solver,
    vector_field: VectorField,
    params: Any,
    x0: Array,
    ts: Array,
    free_states: tuple[int, ...],
    guess: Array | None,
) -> tuple[Solution, Array]:
    """Path and derivatives: one step nearer than ``guess`` if the solver can begin on the way, else by a solve."""
    system = (vector_field, params, x0, ts, free_states)
    if guess is not None and isinstance(solver, CorrectsGuess):
        return solver.correct_guess(*system, guess)
    return solver.solve_with_jacobian(*system)


def differentiate_jacobian(
    solver: Solver,
    vector_field: VectorField,
    params: Any,
    ts: Array,
    xs: Array,
    jacobian: Array,
    weights: Array,
    free_states: tuple[int, ...],
) -> Array:
    """As :meth:`HasSecondDerivatives.jacobian_gradient`; zero if the solver has no second derivatives."""
    if isinstance(solver, HasSecondDerivatives):
        return solver.jacobian_gradient(vector_field, params, ts, xs, jacobian, weights, free_states)
    return jnp.zeros(jacobian.shape[-1])


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
    forward_limit: int = FORWARD_LIMIT,
) -> Solution:
    """Solve so that reverse-mode differentiation is cheap and always finite.

    Sensitivities run forward with the solution when there are at most ``forward_limit`` parameters, backward when
    there are more; a failed solve has gradient zero. ``free_states`` are the states whose
    initial value is unknown: no others get a sensitivity.
    """
    theta, _ = _as_function(solver.solve, vector_field, params, x0, ts, free_states)
    _, unravel = ravel_pytree(params)
    free = jnp.asarray(free_states, dtype=int)
    num_params = theta.size - len(free_states)
    forward = theta.size <= forward_limit or not solver.reverses

    def system(theta: Array, x0: Array, ts: Array, actions: Array) -> tuple[Any, ...]:
        field = with_actions(vector_field, actions)
        return field, unravel(theta[:num_params]), x0.at[free].set(theta[num_params:]), ts

    def run(*at: Array) -> Solution:
        return (solver.solve if forward else solver.solve_reversible)(*system(*at))

    path = jax.custom_vjp(run)

    def path_fwd(*at: Array) -> tuple[Solution, Any]:
        differentiate = solver.solve_with_jacobian if forward else solver.solve_with_pull_back
        solution, derivative = differentiate(*system(*at), free_states)  # type: ignore[call-arg]
        return solution, (derivative, solution.status)

    def path_bwd(residuals: Any, cotangent: Solution) -> tuple[Array, None, None, None]:
        derivative, status = residuals
        gradient = jnp.einsum("tdp,td->p", derivative, cotangent.xs) if forward else derivative(cotangent.xs)
        return jnp.where(status == Status.OK, gradient, 0.0), None, None, None

    path.defvjp(path_fwd, path_bwd)
    return path(theta, jax.lax.stop_gradient(x0), ts, actions_of(vector_field))


def _as_function(
    solve: Callable[..., Solution],
    vector_field: VectorField,
    params: Any,
    x0: Array,
    ts: Array,
    free_states: tuple[int, ...],
) -> tuple[Array, Callable[[Array], Solution]]:
    """Parameters and free initial values as one vector, and the path as a function of it."""
    flat, unravel = ravel_pytree(params)
    free = jnp.asarray(free_states, dtype=int)

    def run(theta: Array) -> Solution:
        return solve(vector_field, unravel(theta[: flat.size]), x0.at[free].set(theta[flat.size :]), ts)

    return jnp.concatenate([flat, x0[free]]), run
