"""Starts from a steady state: where a system goes that is left alone for long, and how that depends on parameters."""

from __future__ import annotations

from collections.abc import Callable

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

    ``record`` is the longest experiment in solver time. Experiments ``begins`` begin at rest. Those of ``solved`` are
    solved, and ``source`` tells whose state each of ``begins`` has. Some sums of states never change: a steady state
    has those of its start. ``conserved`` (solved, states, states) projects onto them.
    """

    record: Array
    conserved: Array
    solver: Solver
    begins: tuple[int, ...] = eqx.field(static=True)
    solved: tuple[int, ...] = eqx.field(static=True)
    source: tuple[int, ...] = eqx.field(static=True)

    def projector(self, experiment: int) -> Array:
        """Of an experiment that begins at rest."""
        return self.conserved[self.source[self.begins.index(experiment)]]

    def state(self, vector_field: FreeField, params: Values, start: Array, time: Array, conserved: Array) -> Array:
        """Where the system comes to rest that begins at ``start`` (states,); infinite if it does not."""

        def unbalanced(x: Array) -> Array:
            return vector_field(time, x, params) + conserved @ (x - start)

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


def conserved_sums(slopes: Callable[[Array, int], Array], scale: np.ndarray) -> np.ndarray:
    """What projects (states, states) onto sums of scaled states that never change.

    ``slopes(x, draw)`` are those of scaled states at random parameters. States are compared in the user's units: there
    sums have plain coefficients.
    """
    rng = np.random.default_rng(0)
    jacobians = []
    for draw in range(_PROBES):
        x = rng.uniform(0.2, 2.0, size=scale.size)
        jacobian = np.asarray(jax.jacfwd(lambda x, draw=draw: slopes(x, draw))(jnp.asarray(x / scale)))
        jacobians.append(jacobian * scale[:, None] / scale)
    together = np.concatenate(jacobians, axis=1)
    if not np.isfinite(together).all():
        return np.zeros((scale.size, scale.size))
    sizes_of_columns = np.linalg.norm(together, axis=0)
    left, sizes, _ = np.linalg.svd(together / np.where(sizes_of_columns > 0, sizes_of_columns, 1.0))
    rank = int((sizes > _CONSERVED * max(sizes.max(), 1e-300)).sum())
    rows, _ = np.linalg.qr(left[:, rank:] * scale[:, None])
    return rows @ rows.T
