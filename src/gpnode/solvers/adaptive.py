"""Adaptive solvers, explicit and stiff, from diffrax."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gpnode.solvers.base import BLOW_UP_BOUND, Solution, Solver, Status, VectorField, classify
from gpnode.solvers.driven import Driven, FreeField, held
from gpnode.solvers.native import NativeStiff

if TYPE_CHECKING:  # it takes a second to load, and most models are solved without it
    import diffrax

_FAR_OUT, _STEEP = 100.0 * BLOW_UP_BOUND, 1e6 * BLOW_UP_BOUND


class _Diffrax(Solver):
    """Error-controlled solve; ``rtol`` and ``atol`` are in scaled units, where states are of order one."""

    rtol: eqx.AbstractVar[float]
    atol: eqx.AbstractVar[float]
    max_steps: eqx.AbstractVar[int]

    @abstractmethod
    def _method(self) -> diffrax.AbstractSolver[Any]:
        """The Runge–Kutta method."""

    def solve(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        import diffrax

        return self._run(vector_field, params, x0, ts, diffrax.ForwardMode())

    def solve_reversible(self, vector_field: VectorField, params: Any, x0: Array, ts: Array) -> Solution:
        import diffrax

        return self._run(vector_field, params, x0, ts, diffrax.RecursiveCheckpointAdjoint())

    def _run(
        self, vector_field: VectorField, params: Any, x0: Array, ts: Array, adjoint: diffrax.AbstractAdjoint
    ) -> Solution:
        if not isinstance(vector_field, Driven):
            return self._run_freely(vector_field, params, x0, ts, adjoint)
        field, jump, actions = vector_field

        def advance(x: Array, interval: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
            begin, end, action = interval
            one = self._run_freely(held(field, action), params, x, jnp.stack([begin, end]), adjoint)
            x = jnp.where(end > begin, one.xs[-1], jump(begin, x, params, action))
            return x, (x, one.status, one.num_steps)

        _, (later, status, steps) = jax.lax.scan(advance, x0, (ts[:-1], ts[1:], actions))
        worst = jnp.maximum(jnp.max(status), classify(later))
        xs = jnp.where(worst == Status.OK, jnp.concatenate([x0[None], later]), x0)
        return Solution(xs, worst, jnp.sum(steps))

    def _run_freely(
        self,
        vector_field: FreeField,
        params: Any,
        x0: Array,
        ts: Array,
        adjoint: diffrax.AbstractAdjoint,
    ) -> Solution:
        """A solve that nothing acts on."""
        import diffrax

        def _no_slope(t: Any, y: Array, args: Any, **kwargs: Any) -> Array:
            return jnp.any(jnp.isnan(vector_field(t, y, args)))

        def guarded(t: Any, x: Array, args: Any) -> Array:
            # A NaN slope would make the controller shrink the step until max_steps is used up, and
            # an overflow would make the implicit method's linear solver raise.
            slope = vector_field(t, jnp.clip(x, -_FAR_OUT, _FAR_OUT), args)
            return jnp.clip(jnp.where(jnp.isfinite(slope), slope, _STEEP), -_STEEP, _STEEP)

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(guarded),
            self._method(),
            t0=ts[0],
            t1=ts[-1],
            dt0=None,
            y0=x0,
            args=params,
            saveat=diffrax.SaveAt(ts=ts),
            stepsize_controller=diffrax.PIDController(rtol=self.rtol, atol=self.atol),
            max_steps=self.max_steps,
            adjoint=adjoint,
            throw=False,
            event=diffrax.Event((_left_the_data, _no_slope)),
        )
        _, without_slope = solution.event_mask
        stopped = jnp.where(without_slope, Status.NOT_FINITE, Status.BLOW_UP)
        status = jnp.where(
            solution.result == diffrax.RESULTS.successful,
            classify(solution.ys),
            jnp.where(solution.result == diffrax.RESULTS.event_occurred, stopped, Status.TOO_MANY_STEPS),
        )
        xs = jnp.where(status == Status.OK, solution.ys, jnp.broadcast_to(x0, solution.ys.shape))
        return Solution(xs, status, solution.stats["num_steps"])


def _left_the_data(t: Array, y: Array, args: Any, **kwargs: Any) -> Array:
    return jnp.any(jnp.abs(y) >= BLOW_UP_BOUND)


class Adaptive(_Diffrax):
    """Explicit fifth-order method (Tsitouras) with step-size control.

    >>> exact = gn.Model(model.dynamics, solver=gn.Adaptive(rtol=1e-10))
    """

    name: ClassVar[str] = "adaptive"
    rtol: float = eqx.field(static=True, default=1e-8)
    atol: float = eqx.field(static=True, default=1e-8)
    max_steps: int = eqx.field(static=True, default=4096)

    def _method(self) -> diffrax.AbstractSolver[Any]:
        import diffrax

        return diffrax.Tsit5()


class Stiff(_Diffrax):
    """Implicit fifth-order method (Kvaerno) with step-size control, for stiff systems.

    In a model it stands for :class:`NativeStiff` with the same tolerances wherever the equations can be compiled.

    >>> stiff = gn.Model(model.dynamics, solver=gn.Stiff())
    """

    name: ClassVar[str] = "stiff"
    # Its reverse sweep solves linear systems in cotangents; after a failure these are NaN, and raise.
    reverses: ClassVar[bool] = False
    rtol: float = eqx.field(static=True, default=1e-8)
    atol: float = eqx.field(static=True, default=1e-8)
    max_steps: int = eqx.field(static=True, default=8192)

    def _method(self) -> diffrax.AbstractSolver[Any]:
        import diffrax

        return diffrax.Kvaerno5()

    def native_counterpart(self) -> NativeStiff:
        # Of lower order, it takes more steps, which cost far less.
        most = max(self.max_steps, NativeStiff().max_steps)
        return NativeStiff(rtol=self.rtol, atol=self.atol, max_steps=most)
