"""A model that has met its data: the posterior density as a pure function of one vector."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode._config import compiled_for_few_calls
from gpnode.data.scaling import Scaling
from gpnode.model.dynamics import BoundDynamics
from gpnode.model.priors.parameters import Block, Independent, Values
from gpnode.problem.covariance import DENSE_LIMIT
from gpnode.problem.layout import Layout
from gpnode.problem.observables import Measurements, Observable
from gpnode.solvers import (
    CorrectsGuess,
    HasSecondDerivatives,
    Solution,
    Solver,
    Status,
    local_errors,
    refine,
    solve_with_gradient,
)

# Largest embedded error of one step, in scaled units where states are of order one.
STEP_TOLERANCE = 1e-5
_TIGHT = 1e-9
_SHORTEST_STEPS = 1000.0  # at most this many steps in a characteristic time
_MOST_STEPS = 20_000  # in a experiment
_NODE_QUANTUM, _TRIED_QUANTUM = 16, 256  # grids come in multiples of this, so that similar data share compiled code


class InitialStates(eqx.Module):
    """Initial values: ``known`` (experiments, states) in user units, unknown ones by name.

    ``unknown`` lists (experiment, state, parameter name).
    """

    block: Independent
    known: Array
    unknown: tuple[tuple[int, int, str], ...] = eqx.field(static=True)

    @property
    def free_states(self) -> tuple[int, ...]:
        """States whose initial value is unknown in some experiment."""
        return tuple(sorted({d for _, d, _ in self.unknown}))

    def values(self, values: Values) -> Array:
        """Initial values (experiments, states) in user units."""
        found = self.known
        for r, d, name in self.unknown:
            found = found.at[r, d].set(values[name])
        return found


class Problem(eqx.Module):
    """Posterior of a model given data.

    ``nodes`` (experiments, times) are the times handed to the solver: every measurement and,
    for a fixed-grid solver, the steps in between. ``measured_times`` are the measurements
    alone. Shorter experiments repeat their last time.
    """

    dynamics: BoundDynamics
    initial: InitialStates
    observables: tuple[Observable, ...]
    measured: tuple[Measurements, ...]
    scaling: Scaling
    solver: Solver
    nodes: Array
    measured_times: Array
    states: tuple[str, ...] = eqx.field(static=True)
    experiments: tuple[str, ...] = eqx.field(static=True)

    # -- parameters -----------------------------------------------------------------------

    @property
    def path_blocks(self) -> tuple[Block, ...]:
        """Parameters of the dynamics and unknown initial values: what the path depends on."""
        return (*self.dynamics.blocks, self.initial.block)

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the parameters that the path itself depends on: not those of their priors."""
        return (*self.dynamics.parameter_names, *(name for _, _, name in self.initial.unknown))

    @property
    def hyper_block(self) -> Independent:
        """Gaussian-process and noise parameters."""
        return Independent({n: prior for observable in self.observables for n, prior in observable.priors().items()})

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.path_blocks, self.hyper_block)

    @property
    def layout(self) -> Layout:
        return Layout(tuple(p for block in self.blocks for p in block.parameters()))

    @property
    def size(self) -> int:
        """Length of the unconstrained vector."""
        return self.layout.size

    @property
    def mostly_native(self) -> bool:
        """Whether nearly all the time of a log density goes into native code: solves and blocks that are not long."""
        short = all(block.y.size <= DENSE_LIMIT for block in self.measured)
        return short and self.solver.is_native

    def constrain(self, unconstrained: Array) -> Values:
        """Parameter values by name, in internal units."""
        return self.layout.constrain(unconstrained)[0]

    def report(self, unconstrained: Array) -> Values:
        """Parameter values by name, in the user's units."""
        values = self.constrain(unconstrained)
        found = self.dynamics.report(values)
        found |= {name: values[name] for _, _, name in self.initial.unknown}
        for observable in self.observables:
            found |= observable.report(values)
        return found

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Dimensions and labels of every reported array, in the order to show them."""
        initial: dict[str, dict[str, tuple[str, ...]]] = {name: {} for _, _, name in self.initial.unknown}
        hyper: dict[str, dict[str, tuple[str, ...]]] = {
            name: {} for observable in self.observables for name in observable.report_names()
        }
        return self.dynamics.dims() | initial | hyper

    def draw_path_prior(self, key: Array, hyper: Values) -> Array:
        """A prior draw as an unconstrained vector, with Gaussian-process and noise parameters given."""
        keys = jax.random.split(key, len(self.path_blocks))
        values = {n: v for block, k in zip(self.path_blocks, keys, strict=True) for n, v in block.draw(k).items()}
        return self.layout.unconstrain(values | hyper)

    # -- density --------------------------------------------------------------------------

    def solve(self, values: Values) -> Solution:
        """Scaled paths (experiments, nodes, states), one status and step count per experiment."""
        x0, params = self._start_and_params(values)

        def one(x0: Array, ts: Array) -> Solution:
            return solve_with_gradient(
                self.solver, self.dynamics.vector_field, params, x0, ts, self.initial.free_states
            )

        return jax.vmap(one)(x0, self.nodes)

    def _start_and_params(self, values: Values) -> tuple[Array, Values]:
        """Scaled initial states (experiments, states), and what the vector field needs."""
        x0 = self.initial.values(values) / self.scaling.state_scale
        return x0, {name: values[name] for name in self.dynamics.parameter_names}

    def horizon(self, fraction: Array) -> Array:
        """Solver time (experiments, 1) at which each experiment has run through ``fraction`` of its length."""
        first, last = self.nodes[:, :1], self.nodes[:, -1:]
        return first + fraction * (last - first)

    def solve_until(self, values: Values, fraction: Array) -> Solution:
        """As :meth:`solve`, but paths stand still after ``fraction`` of their length, and derivatives run forward."""
        x0, params = self._start_and_params(values)
        ts = jnp.minimum(self.nodes, self.horizon(fraction))
        return jax.vmap(lambda x, t: self.solver.solve(self.dynamics.vector_field, params, x, t))(x0, ts)

    def path_inputs(self, values: Values) -> Array:
        """What each experiment's path depends on (experiments, columns): parameters, then free initial values."""
        x0, params = self._start_and_params(values)
        flat, _ = ravel_pytree(params)
        free = jnp.asarray(self.initial.free_states, dtype=int)
        return jnp.concatenate([jnp.broadcast_to(flat, (len(x0), flat.size)), x0[:, free]], axis=1)

    def solve_with_jacobian(self, values: Values, guess: Array | None = None) -> tuple[Solution, Array]:
        """Paths, and their derivatives (experiments, nodes, states, columns) by :meth:`path_inputs`.

        With a ``guess`` (experiments, nodes, states), paths one step nearer, if the solver can begin on the way.
        """
        x0, params = self._start_and_params(values)

        def one(x0: Array, ts: Array, guess: Array | None) -> tuple[Solution, Array]:
            system = (self.dynamics.vector_field, params, x0, ts, self.initial.free_states)
            if guess is not None and isinstance(self.solver, CorrectsGuess):
                return self.solver.correct_guess(*system, guess)
            return self.solver.solve_with_jacobian(*system)

        return jax.vmap(one)(x0, self.nodes, guess)

    def steer(self, values: Values, xs: Array, jacobian: Array, weights: Array) -> Array:
        """About the gradient (experiments, columns) of sum(weights * jacobian) by :meth:`path_inputs`.

        Zero without second derivatives.
        """
        solver = self.solver
        if not isinstance(solver, HasSecondDerivatives):
            return jnp.zeros((jacobian.shape[0], jacobian.shape[-1]))
        _, params = self._start_and_params(values)

        def one(ts: Array, xs: Array, jacobian: Array, weights: Array) -> Array:
            free = self.initial.free_states
            return solver.jacobian_gradient(self.dynamics.vector_field, params, ts, xs, jacobian, weights, free)

        return jax.vmap(one)(self.nodes, xs, jacobian, weights)

    def residual_slopes(self, xs: Array, jacobian: Array) -> list[Array]:
        """Derivatives (n, columns) of every block's residuals by its experiment's inputs, along paths ``xs``."""
        found = []
        for block in self.measured:
            observable = self.observables[block.observable]
            x = xs[block.experiment, block.rows, observable.state]
            outer = jax.vmap(jax.grad(observable.transform.forward))(x)
            found.append(-outer[:, None] * jacobian[block.experiment, block.rows, observable.state])
        return found

    def residuals(self, paths: Solution) -> tuple[list[Array], Array]:
        """Data minus path for every block, on the scale of the noise, and the overall status."""
        status = jnp.max(paths.status)
        found = []
        for block in self.measured:
            observable = self.observables[block.observable]
            x = paths.xs[block.experiment, block.rows, observable.state]
            inside = jnp.all(observable.transform.inside(x))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            found.append(block.y - observable.transform.forward(x))
        return found, status

    def log_likelihood(self, values: Values) -> tuple[Array, Array]:
        """Log likelihood of each block (blocks,) and the status of the solve."""
        residuals, status = self.residuals(self.solve(values))
        return self.block_densities(values, residuals), status

    def block_densities(self, values: Values, residuals: list[Array]) -> Array:
        """Log density of each block's residuals (blocks,)."""
        parts = [
            self.observables[block.observable].log_density(values, block, residual)
            for block, residual in zip(self.measured, residuals, strict=True)
        ]
        return jnp.stack(parts)

    def log_prior(self, unconstrained: Array) -> Array:
        """Log prior density of the unconstrained vector (Jacobian included)."""
        values, log_jacobian = self.layout.constrain(unconstrained)
        return log_jacobian + sum((block.log_prior(values) for block in self.blocks), jnp.zeros(()))

    def log_density(self, unconstrained: Array) -> tuple[Array, Array]:
        """Log posterior density up to a constant, and the status; -inf where a solve failed."""
        parts, status = self.log_likelihood(self.constrain(unconstrained))
        total = self.log_prior(unconstrained) + jnp.sum(parts)
        status = jnp.where((status == Status.OK) & ~jnp.isfinite(total), Status.NOT_FINITE, status)
        return jnp.where(status == Status.OK, total, -jnp.inf), status

    def value_and_grad(self, unconstrained: Array) -> tuple[Array, Array, Array]:
        """Log density, its gradient (zero where a solve failed), and the status."""
        (value, status), gradient = jax.value_and_grad(self.log_density, has_aux=True)(unconstrained)
        return value, jnp.where(jnp.isfinite(gradient) & (status == Status.OK), gradient, 0.0), status

    # -- the grid of a fixed-grid solver --------------------------------------------------

    def with_steps(self, counts: np.ndarray | None = None) -> Problem:
        """The same problem on a grid with ``counts`` (experiments, intervals) steps between measurements.

        Without ``counts``, eight steps in a characteristic time.
        """
        if not self.solver.follows_grid:
            return self
        measured = np.asarray(self.measured_times)
        gaps = np.diff(measured, axis=1)
        if counts is None:
            counts = np.maximum(1, np.ceil(8.0 * gaps - 1e-9))
        counts = np.where(gaps > 0, counts, 0).astype(int)
        total = -(-int(counts.sum(axis=1).max()) // _NODE_QUANTUM) * _NODE_QUANTUM
        nodes, positions = zip(*(_lay_nodes(t, c, total) for t, c in zip(measured, counts, strict=True)), strict=True)
        blocks = tuple(
            eqx.tree_at(lambda b: b.rows, block, jnp.asarray(positions[block.experiment][rows]))
            for block, rows in zip(self.measured, self._measured_rows(), strict=True)
        )
        return eqx.tree_at(lambda p: (p.nodes, p.measured), self, (jnp.asarray(np.stack(nodes)), blocks))

    def with_steps_for(self, unconstrained: Array, tolerance: float = STEP_TOLERANCE) -> Problem:
        """The same problem on a grid fine enough for the path at ``unconstrained`` (size,), or at several (n, size)."""
        if not self.solver.follows_grid:
            return self
        problem = self
        for _ in range(3):
            errors, counts = problem._errors_by_interval(unconstrained)
            if np.isfinite(errors).all() and errors.max() <= tolerance and problem is not self:
                break
            # Where the field jumps, no number of steps is enough; the check of draws after sampling tells.
            most = np.maximum(1, np.ceil(_SHORTEST_STEPS * np.diff(np.asarray(self.measured_times), axis=1)))
            wanted = np.minimum(refine(counts, errors, tolerance), most)
            problem = self.with_steps(np.ceil(wanted * min(1.0, _MOST_STEPS / wanted.sum(axis=1).max())))
        return problem.with_solver(problem.solver.at_tolerance(tolerance))

    def tightly_solved(self) -> Problem:
        """The same problem solved with error control far below anything that matters."""
        return self.with_solver(self.solver.controlled(_TIGHT))

    def with_solver(self, solver: Solver) -> Problem:
        """The same problem solved by another backend."""
        return eqx.tree_at(lambda p: p.solver, self, solver)

    def step_error(self, unconstrained: Array) -> float:
        """Largest embedded error of a step at ``unconstrained``; zero for solvers that control it themselves."""
        if not self.solver.follows_grid:
            return 0.0
        errors, _ = self._errors_by_interval(unconstrained)
        return float(errors.max())

    def _errors_by_interval(self, unconstrained: Array) -> tuple[np.ndarray, np.ndarray]:
        """Largest step error and number of steps in each interval between measurements.

        Of several points, those nine tenths of them do not exceed.
        """
        steps = self.nodes.shape[1] - 1
        # Steps without length at the end: grids that are tried one after the other share compiled code.
        nodes = np.pad(np.asarray(self.nodes), ((0, 0), (0, -steps % _TRIED_QUANTUM)), mode="edge")
        padded = eqx.tree_at(lambda p: p.nodes, self, jnp.asarray(nodes))
        found = np.stack([_step_errors(padded, point) for point in jnp.atleast_2d(unconstrained)])[..., :steps]
        step_errors = np.quantile(np.where(np.isnan(found), np.inf, found), 0.9, axis=0, method="lower")
        errors = np.zeros(self.measured_times[:, 1:].shape)
        for r, (interval, moved) in enumerate(self._intervals()):
            np.maximum.at(errors[r], interval[moved], step_errors[r][moved])
        return errors, self._counts()

    def _counts(self) -> np.ndarray:
        """Number of steps (experiments, intervals) in each interval between measurements, at least one."""
        last = self.measured_times.shape[1] - 1
        return np.stack([np.maximum(1, np.bincount(i[moved], minlength=last)) for i, moved in self._intervals()])

    def _intervals(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each experiment the interval each step belongs to (steps,), and whether the step has a length."""
        found = []
        for times, grid in zip(np.asarray(self.measured_times), np.asarray(self.nodes), strict=True):
            interval = np.clip(np.searchsorted(times, grid[:-1], side="right") - 1, 0, times.size - 2)
            found.append((interval, np.diff(grid) > 0))
        return found

    def _measured_rows(self) -> list[np.ndarray]:
        """Positions of each block's data among ``measured_times``."""
        nodes, measured = np.asarray(self.nodes), np.asarray(self.measured_times)
        return [
            np.searchsorted(measured[block.experiment], nodes[block.experiment][np.asarray(block.rows)])
            for block in self.measured
        ]


def _lay_nodes(times: np.ndarray, counts: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with ``counts`` steps per interval, filled up to ``total`` steps, and where ``times`` lie."""
    counts = counts.copy()
    gaps = np.diff(times)
    while counts.sum() < total:  # spend the spare steps where steps are longest
        spare = total - counts.sum()
        longest = np.argsort(-gaps / np.maximum(counts, 1), kind="stable")[:spare]
        counts[longest[gaps[longest] > 0]] += 1
    pieces = [t0 + (t1 - t0) * np.arange(n) / n for t0, t1, n in zip(times[:-1], times[1:], counts, strict=True) if n]
    return np.concatenate([*pieces, times[-1:]]), np.concatenate([[0], np.cumsum(counts)])


@compiled_for_few_calls
def _step_errors(problem: Problem, unconstrained: Array) -> Array:
    """Of each step (experiments, steps) along a path that is itself solved tightly; NaN where that fails."""
    values = problem.constrain(unconstrained)
    _, params = problem._start_and_params(values)
    path = problem.tightly_solved().solve(values)
    errors = jax.vmap(lambda xs, ts: local_errors(problem.dynamics.vector_field, params, xs, ts))(
        path.xs, problem.nodes
    )
    return jnp.where((path.status == Status.OK)[:, None], errors, jnp.nan)
