"""A model that has met its data: the posterior density as a pure function of one vector."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.model.dynamics import BoundDynamics
from gpnode.model.priors.parameters import Block, Independent, Values
from gpnode.model.priors.population import IndividualBlock
from gpnode.problem.conditions import Conditions
from gpnode.problem.covariance import DENSE_LIMIT
from gpnode.problem.driving import Driving
from gpnode.problem.initial import InitialStates
from gpnode.problem.layout import Layout
from gpnode.problem.observables import Measurements, Observable
from gpnode.problem.paths import Moving
from gpnode.problem.predictions import Predictions
from gpnode.problem.resting import Resting
from gpnode.solvers import (
    Solution,
    Solver,
    Status,
    differentiate_jacobian,
    solve_from_guess,
)

_TIGHT = 1e-9


class Problem(Predictions):
    """Posterior of a model given data.

    ``nodes`` (experiments, times) are the times handed to the solver: every measurement and,
    for a fixed-grid solver, the steps in between. ``measured_times`` are the measurements
    alone. Shorter experiments repeat their last time. If anything is done in experiments, ``driving`` tells how, and
    ``actions`` (experiments, intervals, numbers) what acts between nodes. If experiments begin at rest,
    ``resting`` finds where. ``conditions`` are inputs that depend on parameters, ``shared`` parameters that equations
    do not use. With more parameters than ``forward_limit``, gradients run backward.
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
    forward_limit: int = eqx.field(static=True)
    populations: tuple[IndividualBlock, ...]
    driving: Driving | None
    actions: Array | None
    resting: Resting | None
    conditions: Conditions | None
    shared: Independent

    # -- parameters -----------------------------------------------------------------------

    @property
    def path_blocks(self) -> tuple[Block, ...]:
        """Parameters of the dynamics, unknown initial values, parameters of readings: what predictions depend on."""
        readings = self.reading_block
        return (
            *self.dynamics.blocks,
            *self.populations,
            self.initial.block,
            *([readings] if readings.names else []),
        )

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the parameters that predictions depend on: not those of priors, nor what follows from others."""
        initial = (name for _, _, name in self.initial.unknown)
        computed = () if self.conditions is None else self.conditions.names
        sampled = (name for name in self.dynamics.parameter_names if name not in computed)
        return (*sampled, *initial, *self.reading_block.names)

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
        return self.completed(self.layout.constrain(unconstrained)[0])

    def report(self, unconstrained: Array) -> Values:
        """Parameter values by name, in the user's units."""
        values = self.constrain(unconstrained)
        reported = self.dynamics.report(values)
        reported |= {name: values[name] for _, _, name in self.initial.unknown}
        reported |= {name: values[name] for name in self.reading_block.names}
        reported |= {p.name: values[p.name] for block in self.populations for p in block.parameters()}
        for observable in self.observables:
            reported |= observable.report(values)
        return reported

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Dimensions and labels of every reported array, in the order to show them."""
        initial: dict[str, dict[str, tuple[str, ...]]] = {name: {} for _, _, name in self.initial.unknown}
        hyper: dict[str, dict[str, tuple[str, ...]]] = {
            name: {} for observable in self.observables for name in observable.report_names()
        }
        readings: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in self.reading_block.names}
        people = {
            p.name: {"experiment": self.experiments} if p.shape else {}
            for b in self.populations
            for p in b.parameters()
        }
        return self.dynamics.dims() | people | initial | readings | hyper

    def draw_path_prior(self, key: Array, hyper: Values) -> Array:
        """A prior draw as an unconstrained vector, given the hyperparameters ``hyper``."""
        keys = jax.random.split(key, len(self.path_blocks))
        values = {n: v for block, k in zip(self.path_blocks, keys, strict=True) for n, v in block.draw(k).items()}
        return self.layout.unconstrain(values | hyper)

    # -- density --------------------------------------------------------------------------

    def path_inputs(self, values: Values) -> Array:
        """What each experiment's predictions depend on (experiments, columns).

        Parameters of the dynamics, free initial values, then parameters of readings.
        """
        x0, params = self.start_and_params(values)
        free = jnp.asarray(self.free_states, dtype=int)
        columns = [self.flat_by_experiment(params, len(x0)), x0[:, free]]
        values = self.completed(values)
        columns += [jnp.broadcast_to(values[name], (len(x0),))[:, None] for name in self.own_names]
        return jnp.concatenate(columns, axis=1)

    def solve_with_jacobian(self, values: Values, guess: Array | None = None) -> tuple[Solution, Array]:
        """Paths, and their derivatives (experiments, nodes, states, columns) by :meth:`path_inputs`.

        With a ``guess`` (experiments, nodes, states), paths one step nearer, if the solver can begin on the way.
        """
        x0, params = self.start_and_params(values)

        def one(
            x0: Array, ts: Array, guess: Array | None, params: Values, actions: Array | None, moving: Moving | None
        ) -> tuple[Solution, Array]:
            system, ts, rows = self.with_moving(params, x0, ts, actions, moving)
            guess = guess if moving is None else None  # which knows nothing of jumps that move
            solved, jacobian = solve_from_guess(self.solver, system, params, x0, ts, self.free_states, guess)
            return solved._replace(xs=solved.xs[rows]), jacobian[rows]

        axes = (0, 0, 0, self.parameter_axes, 0, 0)
        paths, jacobian = jax.vmap(one, in_axes=axes)(x0, self.nodes, guess, params, self.actions, self.moving)
        own = len(self.own_names)  # which do not move the path
        return paths, jnp.pad(jacobian, [(0, 0)] * 3 + [(0, own)]) if own else jacobian

    def steer(self, values: Values, xs: Array, jacobian: Array, weights: Array) -> Array:
        """About the gradient (experiments, columns) of sum(weights * jacobian) by :meth:`path_inputs`.

        Zero without second derivatives, or with jumps whose time depends on a parameter.
        """
        if self.moving is not None:
            return jnp.zeros(jacobian.shape[::3])
        _, params = self.start_and_params(values)
        own = len(self.own_names)
        if own:
            jacobian, weights = jacobian[..., :-own], weights[..., :-own]

        def one(ts: Array, xs: Array, jacobian: Array, weights: Array, params: Values, actions: Array | None) -> Array:
            system, free = self.system(actions), self.free_states
            return differentiate_jacobian(self.solver, system, params, ts, xs, jacobian, weights, free)

        axes = (0, 0, 0, 0, self.parameter_axes, 0)
        steered = jax.vmap(one, in_axes=axes)(self.nodes, xs, jacobian, weights, params, self.actions)
        return jnp.pad(steered, [(0, 0), (0, own)]) if own else steered

    def residuals(self, paths: Solution, values: Values) -> tuple[list[Array], Array]:
        """Data minus prediction for every block, on the scale of the noise, and the overall status."""
        status = jnp.max(paths.status)
        residuals = []
        for block, x in zip(self.measured, self.predictions(paths, values), strict=True):
            observable = self.observables[block.observable]
            inside = jnp.all(observable.transform.inside(x))
            status = jnp.where((status == Status.OK) & ~inside, Status.OUTSIDE_DOMAIN, status)
            residuals.append(block.y - observable.transform.forward(x))
        return residuals, status

    def log_likelihood(self, values: Values) -> tuple[Array, Array]:
        """Log likelihood of each block (blocks,) and the status of the solve."""
        values = self.completed(values)
        paths = self.solve(values)
        residuals, status = self.residuals(paths, values)
        return self.block_densities(values, residuals, self.noise_stds(values, paths)), status

    def block_densities(self, values: Values, residuals: list[Array], stds: list[Array | None] | None = None) -> Array:
        """Log density of each block's residuals (blocks,); ``stds`` are :meth:`noise_stds`."""
        stds = self.noise_stds(values) if stds is None else stds
        parts = [
            self.observables[block.observable].log_density(values, block, residual, std)
            for block, residual, std in zip(self.measured, residuals, stds, strict=True)
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
