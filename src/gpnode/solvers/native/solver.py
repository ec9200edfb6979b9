"""The native backends behind the solver seam."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.solvers.base import CorrectsGuess, HasSecondDerivatives, Solution, Solver, VectorField
from gpnode.solvers.driven import Driven, actions_of, with_actions
from gpnode.solvers.native import explicit, implicit, second_order
from gpnode.solvers.native.availability import why_unavailable
from gpnode.solvers.native.generate import Field, compiled, compiled_jump
from gpnode.tracing.interpreter import Unsupported

_SOLUTION, _SENSITIVITIES, _GRADIENT = explicit.SOLUTION, explicit.SENSITIVITIES, explicit.GRADIENT
_CORRECTION = explicit.CORRECTION


class _Compiled(Solver):
    """Solves by an integrator compiled to machine code; ``max_steps`` are those beyond one per interval of ``ts``."""

    is_native: ClassVar[bool] = True
    max_steps: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def _tolerances(self) -> tuple[float, ...]:
        """What the integrator wants to know of errors."""

    @property
    @abstractmethod
    def _integrator(self) -> ModuleType:
        """The module of the integrator: its name for XLA, and how to register it."""

    def solve(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        every = tuple(range(x0.size))

        @jax.custom_jvp
        def path(theta: Array, x0: Array) -> Solution:
            return self._call(_SOLUTION, vector_field, unravel(theta), x0, ts, every)[0]

        @path.defjvp
        def path_jvp(at: tuple[Array, Array], by: tuple[Array, Array]) -> tuple[Solution, Solution]:
            theta, x0 = at
            solution, jacobian = self.solve_with_jacobian(vector_field, unravel(theta), x0, ts, every)
            moved = jnp.einsum("tdp,p->td", jacobian, jnp.concatenate(by))
            still = [jnp.zeros(jnp.shape(a), jax.dtypes.float0) for a in (solution.status, solution.num_steps)]
            return solution, Solution(moved, *still)

        theta, unravel = ravel_pytree(params)
        return path(theta, x0)

    def solve_with_jacobian(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...]
    ) -> tuple[Solution, Array]:
        return self._call(_SENSITIVITIES, vector_field, params, x0, ts, free_states)

    def _call(
        self,
        what: float,
        vector_field: VectorField,
        params: Any,
        x0: Array,
        ts: Array,
        free: tuple[int, ...],
        companion: Array | None = None,
    ) -> tuple[Solution, Array]:
        """The path and what was asked for besides: nothing, the Jacobian (times, states, columns), a gradient.

        ``companion`` (times, states) is the cotangent of a gradient, or the guess to correct.
        """
        flat, _ = ravel_pytree(params)
        second = isinstance(self, HasSecondDerivatives)
        field = compiled(vector_field, params, x0.size, second)
        self._integrator.register_once()
        first, *others = self._tolerances
        columns = flat.size + len(free)
        jacobian = (ts.size, x0.size, columns)
        extra = {_SOLUTION: (0,), _SENSITIVITIES: jacobian, _CORRECTION: jacobian, _GRADIENT: (columns,)}[what]
        acting, jump, jump_inputs = _actions(vector_field, params, flat, x0.size, ts, second)
        if companion is None:
            companion = jnp.zeros((0, x0.size))
        xs, report, extra_values = jax.ffi.ffi_call(
            self._integrator.TARGET,
            tuple(jax.ShapeDtypeStruct(s, jnp.float64) for s in ((ts.size, x0.size), (2,), extra)),
            vmap_method="broadcast_all",
        )(
            jnp.asarray([what, first, self.max_steps, field.name, jump, *others, *free], dtype=float),
            _inputs(field, flat, acting.shape[1]),
            x0,
            ts,
            acting,
            jump_inputs,
            companion,
        )
        path = Solution(xs, report[0].astype(int), report[1].astype(int))
        return path, extra_values


def _inputs(field: Field, flat: Array, actions: int) -> Array:
    """What compiled code is handed as ``p``: parameters, room for an action, values used besides."""
    return jnp.concatenate([flat, jnp.zeros(actions), *(jnp.ravel(h).astype(float) for h in field.hoisted)])


def _actions(
    vector_field: VectorField, params: Any, flat: Array, states: int, ts: Array, second: bool = True
) -> tuple[Array, int, Array]:
    """What acts in each interval, the name of the jump (zero if nothing acts), and its inputs."""
    if not isinstance(vector_field, Driven) or not vector_field.actions.shape[-1]:
        return jnp.zeros((ts.size - 1, 0)), 0, jnp.zeros(0)
    jump = compiled_jump(vector_field, params, states, second)
    return vector_field.actions, jump.name, _inputs(jump, flat, vector_field.actions.shape[-1])


def _number(value: Any) -> Any:
    """A number that compiled code takes as an input, so that other tolerances do not compile it anew."""
    return value if isinstance(value, jax.Array) else np.float64(value)


class Native(_Compiled, CorrectsGuess, HasSecondDerivatives):
    """Fifth-order explicit Runge–Kutta compiled to machine code: the default on a CPU.

    One step per interval of ``ts``, cut into shorter ones where the error estimate (relative to
    states of order one) exceeds ``tolerance``, into up to ``max_steps`` more in all.

    >>> fast = gn.Model(model.dynamics, solver=gn.Native(tolerance=1e-6))
    """

    name: ClassVar[str] = "native"
    follows_grid: ClassVar[bool] = True
    cuts_steps: ClassVar[bool] = True
    tolerance: float = eqx.field(converter=_number, default=2e-5)
    max_steps: int = eqx.field(static=True, default=50_000)

    @property
    def step_error(self) -> float:
        return self.tolerance

    @property
    def _integrator(self) -> ModuleType:
        return explicit

    @property
    def _tolerances(self) -> tuple[float, ...]:
        return (self.tolerance,)

    def correct_guess(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...], guess: Array
    ) -> tuple[Solution, Array]:
        return self._call(_CORRECTION, vector_field, params, x0, ts, free_states, guess)

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
        flat, _ = ravel_pytree(params)
        field = compiled(vector_field, params, xs.shape[1])
        second_order.register_once()
        acting, jump, jump_inputs = _actions(vector_field, params, flat, xs.shape[1], ts)
        settings = jnp.asarray([field.name, jump, *free_states], dtype=float)
        result = jax.ShapeDtypeStruct(jacobian.shape[-1:], jnp.float64)
        call = jax.ffi.ffi_call(second_order.TARGET, result, vmap_method="broadcast_all")
        return call(settings, _inputs(field, flat, acting.shape[1]), ts, xs, jacobian, weights, acting, jump_inputs)

    def solve_with_pull_back(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, free_states: tuple[int, ...]
    ) -> tuple[Solution, Callable[[Array], Array]]:
        def pull_back(cotangent: Array, params: Any, x0: Array, ts: Array, actions: Array) -> Array:
            system = with_actions(vector_field, actions)
            return self._call(_GRADIENT, system, params, x0, ts, free_states, cotangent)[1]

        solution, _ = self._call(_SOLUTION, vector_field, params, x0, ts, free_states)
        actions = actions_of(vector_field)
        return solution, jax.tree_util.Partial(pull_back, params=params, x0=x0, ts=ts, actions=actions)

    def at_tolerance(self, step_error: float) -> Native:
        # Well above the grid's own errors: where steps are cut for some draws and not for others, the
        # density has small jumps, which are harmless where they are rare.
        return dataclasses.replace(self, tolerance=10.0 * step_error)

    def limited(self, steps: int) -> Native:
        return dataclasses.replace(self, max_steps=min(steps, self.max_steps))

    def controlled(self, step_error: float) -> Native:
        return dataclasses.replace(self, tolerance=step_error)


class NativeStiff(_Compiled):
    """Fourth-order implicit Runge–Kutta compiled to machine code, with step-size control, for stiff systems.

    ``rtol`` and ``atol`` are in scaled units, where states are of order one.

    >>> stiff = gn.Model(model.dynamics, solver=gn.NativeStiff())
    """

    name: ClassVar[str] = "native-stiff"
    reverses: ClassVar[bool] = False  # there is no reverse sweep
    rtol: float = eqx.field(static=True, default=1e-8)
    atol: float = eqx.field(static=True, default=1e-8)
    max_steps: int = eqx.field(static=True, default=20_000)

    @property
    def _integrator(self) -> ModuleType:
        return implicit

    @property
    def _tolerances(self) -> tuple[float, ...]:
        return self.rtol, self.atol


def unsupported(vector_field: VectorField, params: Any, states: int) -> str | None:
    """Why the native backend cannot solve this system, or ``None`` if it can."""
    if jax.default_backend() != "cpu":
        return f"computations run on the {jax.default_backend().upper()}"
    reason = why_unavailable()
    if reason is not None:
        return reason
    try:
        compiled(vector_field, params, states)
        if isinstance(vector_field, Driven):
            compiled_jump(vector_field, params, states)
    except Unsupported as error:
        return str(error)
    return None
