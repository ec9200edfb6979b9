"""Paths of all experiments: where they start, what moves them, what acts on them."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.data.scaling import Scaling
from gpnode.model.dynamics import BoundDynamics
from gpnode.model.priors.parameters import Values
from gpnode.model.priors.population import IndividualBlock
from gpnode.problem.conditions import Conditions
from gpnode.problem.driving import Driving, Late
from gpnode.problem.initial import InitialStates
from gpnode.problem.resting import Resting, held_system
from gpnode.problem.triggers import Located, locate_events
from gpnode.solvers import Solution, Solver, VectorField, solve_with_gradient


class Moving(NamedTuple):
    """Jumps whose time depends on parameters: doses that are ``late``, and how often triggers count (triggers,)."""

    late: Late | None
    counts: Array


class Paths(eqx.Module):
    """The part of a problem that knows nothing of measurements; see :class:`.density.Problem` for what it holds."""

    dynamics: eqx.AbstractVar[BoundDynamics]
    initial: eqx.AbstractVar[InitialStates]
    scaling: eqx.AbstractVar[Scaling]
    solver: eqx.AbstractVar[Solver]
    nodes: eqx.AbstractVar[Array]
    forward_limit: eqx.AbstractVar[int]
    populations: eqx.AbstractVar[tuple[IndividualBlock, ...]]
    driving: eqx.AbstractVar[Driving | None]
    actions: eqx.AbstractVar[Array | None]
    resting: eqx.AbstractVar[Resting | None]
    conditions: eqx.AbstractVar[Conditions | None]

    @abstractmethod
    def reading_parameters(self, values: Values) -> Values:
        """Parameters by the names the user gave, of values as one experiment has them."""

    @property
    def individual_names(self) -> tuple[str, ...]:
        """Full names of parameters that have a value for each experiment."""
        computed = () if self.conditions is None else self.conditions.names
        return (*(block.name for block in self.populations), *computed)

    def completed(self, values: Values) -> Values:
        """Values with those that each experiment's conditions make of them."""
        return values if self.conditions is None else values | self._conditioned(values)[0]

    def _conditioned(self, values: Values) -> tuple[Values, Values]:
        """What conditions make of values (experiments,), during experiments and before, by full name."""
        if self.conditions is None:
            return {}, {}
        given = () if self.driving is None else (name for name, _ in self.driving.inputs)
        apart = dict.fromkeys((*self.individual_names, *given), jnp.zeros(()))
        return self.conditions.values(self.reading_parameters(values | apart))

    def solve(self, values: Values) -> Solution:
        """Scaled paths (experiments, nodes, states), one status and step count per experiment."""
        x0, params = self.start_and_params(values)

        def one(x0: Array, ts: Array, params: Values, actions: Array | None, moving: Moving | None) -> Solution:
            free, limit = self.free_states, self.forward_limit
            system, ts, rows = self.with_moving(params, x0, ts, actions, moving)
            solved = solve_with_gradient(self.solver, system, params, x0, ts, free, limit)
            return solved._replace(xs=solved.xs[rows])

        axes = (0, 0, self.parameter_axes, 0, 0)
        return jax.vmap(one, in_axes=axes)(x0, self.nodes, params, self.actions, self.moving)

    @property
    def moving(self) -> Moving | None:
        """Jumps whose time depends on parameters, of all experiments; None if there are none."""
        if self.driving is None or not self.driving.moves:
            return None
        return Moving(self.driving.late, self.driving.counts)

    def with_moving(
        self, params: Values, x0: Array, ts: Array, actions: Array | None, moving: Moving | None
    ) -> tuple[VectorField, Array, Array | slice]:
        """The system of one experiment, times with those of moving jumps, and where ``ts`` (n,) are among them."""
        if self.driving is None or actions is None or moving is None:
            return self.system(actions), ts, slice(None)
        at = Located(ts, actions, jnp.arange(ts.size))
        if moving.late is not None:
            at = Located(*self.driving.with_late(ts, actions, moving.late, params))
        if self.driving.most_triggered:
            at = locate_events(self.driving, self.dynamics, self.solver, params, x0, at, moving.counts)
        return self.system(at.actions), at.ts, at.rows

    def system(self, actions: Array | None) -> VectorField:
        """The vector field of one experiment, acted on by ``actions`` (intervals, numbers) if anything is done."""
        if self.driving is None or actions is None:
            return self.dynamics.vector_field
        return self.driving.system(self.dynamics, actions)

    @property
    def parameter_axes(self) -> dict[str, int | None]:
        """Which parameters of the vector field have a value for each experiment."""
        individual = set(self.individual_names)
        return {name: 0 if name in individual else None for name in self.dynamics.parameter_names}

    def values_in(self, values: Values, experiment: int) -> Values:
        """Values as one experiment has them."""
        return values | {name: values[name][experiment] for name in self.individual_names}

    def values_before(self, values: Values, experiment: int) -> Values:
        """Values as one experiment has them before it begins."""
        own = {name: value[experiment] for name, value in self._conditioned(values)[1].items()}
        return self.values_in(self.completed(values), experiment) | own

    def with_new_individual(self, values: Values, experiment: int, key: Array) -> Values:
        """Values with an individual drawn from each population in place of that of ``experiment``."""
        keys = jax.random.split(key, len(self.populations))
        drawn = {b.name: b.draw_individual(values, k) for b, k in zip(self.populations, keys, strict=True)}
        return values | {name: values[name].at[experiment].set(one) for name, one in drawn.items()}

    def start_and_params(self, values: Values) -> tuple[Array, Values]:
        """Scaled initial states (experiments, states), and what the vector field needs: populations (experiments,)."""
        values = self.completed(values)
        x0 = self.initial.values(values, lambda: self._numbers_before(values)) / self.scaling.state_scale
        params = {name: values[name] for name in self.dynamics.parameter_names}
        if self.resting is not None:
            x0 = self._after_rest(x0, params | self._conditioned(values)[1])
        return x0, params

    def _after_rest(self, x0: Array, params: Values) -> Array:
        """Scaled initial states (experiments, states) where those that begin at rest have come to rest.

        Experiments that come from the same place under the same conditions are solved once.
        """
        assert self.resting is not None
        params = {name: params[name] for name in self.dynamics.parameter_names}
        solved = np.asarray(self.resting.solved)
        one_by_one = {name: p[solved] if self.parameter_axes[name] == 0 else p for name, p in params.items()}
        before = self._before()
        acting = None if before is None else before[solved]
        at = (x0[solved], self.nodes[solved, 0], one_by_one, acting, self.resting.conserved)
        rested = jax.vmap(self._rest, in_axes=(0, 0, self.parameter_axes, 0, 0))(*at)
        return x0.at[np.asarray(self.resting.begins)].set(rested[np.asarray(self.resting.source)])

    def _numbers_before(self, values: Values) -> Values:
        """What initial values may depend on (experiments,), by the names the user gave."""
        count = self.nodes.shape[0]
        individual = {name: values[name] for name in self.individual_names} | self._conditioned(values)[1]

        def one(own: Values, time: Array, before: Array | None) -> Values:
            given = {} if self.driving is None or before is None else self.driving.values(time, before)
            return self.reading_parameters(values | own | given)

        found = jax.vmap(one, in_axes=(0, 0, 0))(individual, self.nodes[:, 0], self._before())
        return {name: jnp.broadcast_to(value, (count,)) for name, value in found.items() if value.ndim == 1}

    @property
    def free_states(self) -> tuple[int, ...]:
        """States whose initial value is unknown in some experiment, or depends on parameters."""
        return self.initial.free_states if self.resting is None else tuple(range(self.scaling.state_scale.size))

    def _before(self) -> Array | None:
        """What acts before each experiment (experiments, numbers)."""
        return None if self.driving is None else jnp.stack([plan.before for plan in self.driving.plans])

    def _rest(self, x0: Array, time: Array, params: Values, action: Array | None, conserved: Array) -> Array:
        """Where one experiment starts that has come to rest from ``x0`` (states,)."""
        assert self.resting is not None
        system = self.system(None if action is None else action[None])
        return self.resting.state(held_system(system, action), params, x0, time, conserved)

    def solve_path(self, values: Values, experiment: int, ts: Array, initial: Array | None = None) -> Solution:
        """The scaled path of one experiment at solver times ``ts`` (n,), the first of which is its start.

        It starts from its own initial values, or from ``initial`` (states,) in user units where these are not NaN.
        """
        values = self.completed(values)
        params = {name: self.values_in(values, experiment)[name] for name in self.dynamics.parameter_names}
        x0 = self.initial.values(values, lambda: self._numbers_before(values))[experiment] / self.scaling.state_scale
        if self.resting is not None and experiment in self.resting.begins:
            before = None if self.driving is None else self.driving.plans[experiment].before
            own = {name: value[experiment] for name, value in self._conditioned(values)[1].items()}
            params_before = params | {name: own[name] for name in own if name in params}
            x0 = self._rest(x0, ts[0], params_before, before, self.resting.projector(experiment))
        x0 = x0 if initial is None else jnp.where(jnp.isnan(initial), x0, initial / self.scaling.state_scale)
        if self.driving is None:
            return self.solver.solve(self.dynamics.vector_field, params, x0, ts)
        nodes, actions, rows = self.driving.plans[experiment].nodes(ts)
        moving = jax.tree.map(lambda part: part[experiment], self.moving)
        system, nodes, among = self.with_moving(params, x0, nodes, actions, moving)
        solved = self.solver.solve(system, params, x0, nodes)
        return solved._replace(xs=solved.xs[among][rows])

    def horizon(self, fraction: Array) -> Array:
        """Solver time (experiments, 1) at which each experiment has run through ``fraction`` of its length."""
        first, last = self.nodes[:, :1], self.nodes[:, -1:]
        return first + fraction * (last - first)

    def solve_until(self, values: Values, fraction: Array) -> Solution:
        """As :meth:`solve`, but paths stand still after ``fraction`` of their length, and derivatives run forward."""
        x0, params = self.start_and_params(values)
        horizon = self.horizon(fraction)
        ts, actions = jnp.minimum(self.nodes, horizon), self.actions
        if actions is not None:
            actions = jnp.where((self.nodes[:, :-1] < horizon)[..., None], actions, 0.0)

        def one(x: Array, t: Array, params: Values, actions: Array | None, moving: Moving | None) -> Solution:
            system, t, rows = self.with_moving(params, x, t, actions, moving)
            solved = self.solver.solve(system, params, x, t)
            return solved._replace(xs=solved.xs[rows])

        axes = (0, 0, self.parameter_axes, 0, 0)
        return jax.vmap(one, in_axes=axes)(x0, ts, params, actions, self.moving)

    def flat_by_experiment(self, params: Values, count: int) -> Array:
        """Parameters of the vector field (experiments, numbers)."""
        if not self.individual_names:
            flat, _ = ravel_pytree(params)
            return jnp.broadcast_to(flat, (count, flat.size))
        return jax.vmap(lambda one: ravel_pytree(one)[0], in_axes=(self.parameter_axes,))(params)

    def given_along(self, experiment: int, ts: Array) -> Values:
        """What an experiment gives (n,), by full name, at solver times (n,)."""
        return {} if self.driving is None else self.driving.along(experiment, ts)
