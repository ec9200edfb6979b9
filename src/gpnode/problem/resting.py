"""Starts from a steady state: where a system goes that is left alone for long, and how that depends on parameters."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.model.priors.parameters import Values
from gpnode.solvers import NativeStiff, Solver, Status, Stiff, VectorField
from gpnode.solvers.driven import Driven, FreeField, held

_LONG = 1e6  # how long it is left alone, in units of the record
_STILL = 1e-6  # what it may still move over the record, relative to states of order one
_NEWTON_STEPS = 2  # after which first and second derivatives are exact
_PROBES = 4
_CONSERVED = 1e-9  # of the largest singular value


class Resting(eqx.Module):
    """Finds steady states, in scaled units.

    ``record`` is the longest experiment in solver time; ``conserved`` (quantities, states) are sums of states that
    never change, with orthonormal rows: a steady state has those of its start.

    Experiments ``begins`` begin at rest. Those of ``solved`` are solved, and ``source`` tells whose state each of
    ``begins`` has.
    """

    record: Array
    conserved: Array
    solver: Solver
    begins: tuple[int, ...] = eqx.field(static=True)
    solved: tuple[int, ...] = eqx.field(static=True)
    source: tuple[int, ...] = eqx.field(static=True)

    def state(self, vector_field: FreeField, params: Values, start: Array, time: Array) -> Array:
        """Where the system comes to rest that begins at ``start`` (states,); infinite if it does not."""

        def unbalanced(x: Array) -> Array:
            return vector_field(time, x, params) + self.conserved.T @ (self.conserved @ (x - start))

        ended = self._left_alone(vector_field, params, start, time)
        x = ended
        for _ in range(_NEWTON_STEPS):
            x = x - jnp.linalg.solve(jax.jacfwd(unbalanced)(x), unbalanced(x))
        moved = jnp.abs(vector_field(time, x, params)) * self.record / jnp.maximum(1.0, jnp.abs(x))
        # Newton's method must stay where time has led: there may be other steady states, unstable ones among them.
        near = jnp.all(jnp.abs(x - ended) <= 1e-3 * jnp.maximum(1.0, jnp.abs(ended)))
        return jnp.where(jnp.all(moved <= _STILL) & near, x, jnp.inf)

    def _left_alone(self, vector_field: FreeField, params: Values, start: Array, time: Array) -> Array:
        """The state after a long time; no derivatives."""
        ts = jnp.stack([time - _LONG * self.record, time])
        at = jax.lax.stop_gradient((params, start))
        solved = self.solver.solve(vector_field, *at, ts)
        return jax.lax.stop_gradient(jnp.where(solved.status == Status.OK, solved.xs[-1], jnp.nan))


def held_system(system: VectorField, action: Array | None) -> FreeField:
    """The vector field while one action lasts, if anything acts."""
    if isinstance(system, Driven):
        assert action is not None
        return held(system.field, action)
    return system


def stiff_solver(native: bool) -> Solver:
    """What a system is left alone with: it must not mind how fast the fastest motion is."""
    return NativeStiff() if native else Stiff()


def conserved_sums(slopes: Any, states: int) -> np.ndarray:
    """Sums of states (quantities, states) that never change, of ``slopes(x, draw)`` at random states and parameters."""
    rng = np.random.default_rng(0)
    jacobians = []
    for draw in range(_PROBES):
        x = jnp.asarray(rng.uniform(0.2, 2.0, size=states))
        jacobians.append(np.asarray(jax.jacfwd(lambda x, draw=draw: slopes(x, draw))(x)))
    together = np.concatenate(jacobians, axis=1)
    if not np.isfinite(together).all():
        return np.zeros((0, states))
    left, sizes, _ = np.linalg.svd(together)
    rank = int((sizes > _CONSERVED * max(sizes.max(), 1e-300)).sum())
    return left[:, rank:].T
