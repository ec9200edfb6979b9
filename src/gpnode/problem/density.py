"""A model that has met its data: the posterior density as a pure function of one vector."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.data.scaling import Scaling
from gpnode.model.dynamics import BoundDynamics
from gpnode.model.priors.parameters import Block, Independent, Values
from gpnode.problem.covariance import DENSE_LIMIT
from gpnode.problem.layout import Layout
from gpnode.problem.observables import Measurements, Observable
from gpnode.solvers import Solution, Solver, Status, differentiate_jacobian, solve_from_guess, solve_with_gradient
from gpnode.solvers.base import FORWARD_LIMIT

_TIGHT = 1e-9


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
        initial = self.known
        for r, d, name in self.unknown:
            initial = initial.at[r, d].set(values[name])
        return initial


class Problem(eqx.Module):
    """Posterior of a model given data.

    ``nodes`` (experiments, times) are the times handed to the solver: every measurement and,
    for a fixed-grid solver, the steps in between. ``measured_times`` are the measurements
    alone. Shorter experiments repeat their last time. With more parameters than ``forward_limit``, gradients run
    backward.
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
    forward_limit: int = eqx.field(static=True, default=FORWARD_LIMIT)

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
    def path_positions(self) -> np.ndarray:
        """Where the parameters of :attr:`path_names` lie in the unconstrained vector."""
        slices = self.layout.slices()
        moving = [np.arange(slices[name].start, slices[name].stop) for name in self.path_names]
        return np.concatenate([np.zeros(0, dtype=int), *moving])

    @property
    def hyper_positions(self) -> np.ndarray:
        """Where the hyperparameters lie: those of process and noise, and scales of priors."""
        return np.setdiff1d(np.arange(self.size), self.path_positions)

    @property
    def hyper_block(self) -> Independent:
        """Hyperparameters of the Gaussian processes and of the noise."""
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
        reported = self.dynamics.report(values)
        reported |= {name: values[name] for _, _, name in self.initial.unknown}
        for observable in self.observables:
            reported |= observable.report(values)
        return reported

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Dimensions and labels of every reported array, in the order to show them."""
        initial: dict[str, dict[str, tuple[str, ...]]] = {name: {} for _, _, name in self.initial.unknown}
        hyper: dict[str, dict[str, tuple[str, ...]]] = {
            name: {} for observable in self.observables for name in observable.report_names()
        }
        return self.dynamics.dims() | initial | hyper

    def draw_path_prior(self, key: Array, hyper: Values) -> Array:
        """A prior draw as an unconstrained vector, given the hyperparameters ``hyper``."""
        keys = jax.random.split(key, len(self.path_blocks))
        values = {n: v for block, k in zip(self.path_blocks, keys, strict=True) for n, v in block.draw(k).items()}
        return self.layout.unconstrain(values | hyper)

    # -- density --------------------------------------------------------------------------

    def solve(self, values: Values) -> Solution:
        """Scaled paths (experiments, nodes, states), one status and step count per experiment."""
        x0, params = self.start_and_params(values)

        def one(x0: Array, ts: Array) -> Solution:
            free, limit = self.initial.free_states, self.forward_limit
            return solve_with_gradient(self.solver, self.dynamics.vector_field, params, x0, ts, free, limit)

        return jax.vmap(one)(x0, self.nodes)

    def start_and_params(self, values: Values) -> tuple[Array, Values]:
        """Scaled initial states (experiments, states), and what the vector field needs."""
        x0 = self.initial.values(values) / self.scaling.state_scale
        return x0, {name: values[name] for name in self.dynamics.parameter_names}

    def solve_path(self, values: Values, experiment: int, ts: Array, initial: Array | None = None) -> Solution:
        """The scaled path of one experiment at solver times ``ts`` (n,), the first of which is its start.

        It starts from its own initial values, or from ``initial`` (states,) in user units where these are not NaN.
        """
        x0 = self.initial.values(values)[experiment]
        x0 = x0 if initial is None else jnp.where(jnp.isnan(initial), x0, initial)
        params = {name: values[name] for name in self.dynamics.parameter_names}
        return self.solver.solve(self.dynamics.vector_field, params, x0 / self.scaling.state_scale, ts)

    def horizon(self, fraction: Array) -> Array:
        """Solver time (experiments, 1) at which each experiment has run through ``fraction`` of its length."""
        first, last = self.nodes[:, :1], self.nodes[:, -1:]
        return first + fraction * (last - first)

    def solve_until(self, values: Values, fraction: Array) -> Solution:
        """As :meth:`solve`, but paths stand still after ``fraction`` of their length, and derivatives run forward."""
        x0, params = self.start_and_params(values)
        ts = jnp.minimum(self.nodes, self.horizon(fraction))
        return jax.vmap(lambda x, t: self.solver.solve(self.dynamics.vector_field, params, x, t))(x0, ts)

    def path_inputs(self, values: Values) -> Array:
        """What each experiment's path depends on (experiments, columns): parameters, then free initial values."""
        x0, params = self.start_and_params(values)
        flat, _ = ravel_pytree(params)
        free = jnp.asarray(self.initial.free_states, dtype=int)
        return jnp.concatenate([jnp.broadcast_to(flat, (len(x0), flat.size)), x0[:, free]], axis=1)

    def solve_with_jacobian(self, values: Values, guess: Array | None = None) -> tuple[Solution, Array]:
        """Paths, and their derivatives (experiments, nodes, states, columns) by :meth:`path_inputs`.

        With a ``guess`` (experiments, nodes, states), paths one step nearer, if the solver can begin on the way.
        """
        x0, params = self.start_and_params(values)

        def one(x0: Array, ts: Array, guess: Array | None) -> tuple[Solution, Array]:
            free = self.initial.free_states
            return solve_from_guess(self.solver, self.dynamics.vector_field, params, x0, ts, free, guess)

        return jax.vmap(one)(x0, self.nodes, guess)

    def steer(self, values: Values, xs: Array, jacobian: Array, weights: Array) -> Array:
        """About the gradient (experiments, columns) of sum(weights * jacobian) by :meth:`path_inputs`.

        Zero without second derivatives.
        """
        _, params = self.start_and_params(values)

        def one(ts: Array, xs: Array, jacobian: Array, weights: Array) -> Array:
            field, free = self.dynamics.vector_field, self.initial.free_states
            return differentiate_jacobian(self.solver, field, params, ts, xs, jacobian, weights, free)

        return jax.vmap(one)(self.nodes, xs, jacobian, weights)

    def residual_slopes(self, xs: Array, jacobian: Array) -> list[Array]:
        """Derivatives (n, columns) of every block's residuals by its experiment's inputs, along paths ``xs``."""
        slopes = []
        for block in self.measured:
            observable = self.observables[block.observable]
            x = xs[block.experiment, block.rows, observable.state]
            outer = jax.vmap(jax.grad(observable.transform.forward))(x)
            slopes.append(-outer[:, None] * jacobian[block.experiment, block.rows, observable.state])
        return slopes

    def residuals(self, paths: Solution) -> tuple[list[Array], Array]:
        """Data minus path for every block, on the scale of the noise, and the overall status."""
        status = jnp.max(paths.status)
        residuals = []
        for block in self.measured:
            observable = self.observables[block.observable]
            x = paths.xs[block.experiment, block.rows, observable.state]
            inside = jnp.all(observable.transform.inside(x))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            residuals.append(block.y - observable.transform.forward(x))
        return residuals, status

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

    # -- other solves of the same problem -----------------------------------------------------

    def tightly_solved(self) -> Problem:
        """The same problem solved with error control far below anything that matters."""
        return self.with_solver(self.solver.controlled(_TIGHT))

    def with_solver(self, solver: Solver) -> Problem:
        """The same problem solved by another backend."""
        return eqx.tree_at(lambda p: p.solver, self, solver)
