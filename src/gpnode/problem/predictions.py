"""What paths say about measurements: predictions, and how wide noise is that depends on them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gpnode.model.observation.formula_noise import BoundFormula
from gpnode.model.priors.parameters import Independent, Values
from gpnode.problem.observables import Measurements, Observable
from gpnode.problem.paths import Paths
from gpnode.solvers import Solution


class Predictions(Paths):
    """The part of a problem that reads measured variables off paths; see :class:`.density.Problem`."""

    observables: eqx.AbstractVar[tuple[Observable, ...]]
    measured: eqx.AbstractVar[tuple[Measurements, ...]]
    states: eqx.AbstractVar[tuple[str, ...]]
    shared: eqx.AbstractVar[Independent]

    @property
    def reading_block(self) -> Independent:
        """Parameters that equations do not use, such as those of measured variables."""
        readings = [o.reading for o in self.observables if o.reading is not None]
        own = {name: prior for reading in readings for name, prior in reading.priors.items()}
        return Independent(self.shared.priors | own)

    @property
    def own_names(self) -> tuple[str, ...]:
        """Names of what predictions depend on and paths do not."""
        return (*self.reading_block.names, *(() if self.conditions is None else self.conditions.measuring))

    @property
    def outputs(self) -> tuple[str, ...]:
        """All that a path says: states, then measured variables that are none."""
        return (*self.states, *(o.variable for o in self.observables if o.reading is not None))

    @property
    def output_scale(self) -> Array:
        """Scales (outputs,) in user units."""
        readings = [o.reading.scale[None] for o in self.observables if o.reading is not None]
        return jnp.concatenate([self.scaling.state_scale, *readings])

    def outputs_along(self, ts: Array, xs: Array, values: Values, experiment: int) -> Array:
        """Scaled :attr:`outputs` (n, outputs) at solver times (n,) of a scaled path (n, states) of an experiment.

        Those that are measured since the last time are what they are since ever; see :meth:`windows`.
        """
        if not self.has_readings:
            return xs
        given = self.given_along(experiment, ts)
        values = self.values_in(values, experiment)
        readings = [
            self._read(o, ts, xs, values, given | self.beside_along(o, ts, experiment))[:, None]
            for o in self.observables
            if o.reading is not None
        ]
        return jnp.concatenate([xs, *readings], axis=1)

    def beside_along(self, observable: Observable, ts: Array, experiment: int) -> Values:
        """Numbers (n,) that come with measurements of a variable: at other times, those of the nearest one.

        If the experiment has not measured it, those of another.
        """
        own = [b for b in self.measured if self.observables[b.observable] is observable and b.numbers]
        if not own:
            return {}
        block = min(own, key=lambda b: b.experiment != experiment)
        measured = self.nodes[block.experiment, block.rows]
        nearest = jnp.argmin(jnp.abs(ts[:, None] - measured[None, :]), axis=1)
        return {name: column[nearest] for name, column in block.numbers.items()}

    def windows(self, experiment: int) -> dict[int, Array]:
        """Of outputs that are measured since the last time: the usual solver time between measurements, by position.

        At other times they are what came over that time.
        """
        found = {}
        for block in self.measured:
            if block.previous is not None and block.experiment == experiment:
                times = jnp.append(self.nodes[experiment, block.rows], self.nodes[experiment, 0])
                gaps = times[:-1] - times[block.previous]  # the start is the last one
                found[self.outputs.index(self.observables[block.observable].variable)] = jnp.median(gaps)
        return found

    def _read(self, observable: Observable, ts: Array, xs: Array, values: Values, given: Values) -> Array:
        """Scaled values (n,) of a measured variable, of ``values`` as one experiment has them."""
        if observable.reading is None:
            return xs[:, observable.state]
        reading = observable.reading

        def one(t: Array, x: Array, given: Values) -> Array:
            return reading(t, x, self.reading_parameters(values | given))

        return jax.vmap(one)(ts, xs, given)

    def predictions(self, paths: Solution, values: Values) -> list[Array]:
        """What every block measures (n,), on the scale of its variable."""
        predicted = []
        for block in self.measured:
            ts, xs = self.nodes[block.experiment, block.rows], paths.xs[block.experiment, block.rows]
            if block.previous is not None:  # the start comes last
                ts = jnp.append(ts, self.nodes[block.experiment, 0])
                xs = jnp.concatenate([xs, paths.xs[block.experiment, :1]])
            given = self.given_along(block.experiment, ts) | block.beside(ts.size) if self.has_readings else {}
            own = self.values_in(values, block.experiment)
            along = self._read(self.observables[block.observable], ts, xs, own, given)
            predicted.append(along if block.previous is None else block.since_last(along[:-1], along[-1]))
        return predicted

    @property
    def has_readings(self) -> bool:
        """Whether anything is measured that is no state."""
        return any(observable.reading is not None for observable in self.observables)

    def reading_parameters(self, values: Values) -> Values:
        """What readings may use, by the names the user gave, of values as one experiment has them."""
        given = () if self.driving is None else (name for name, _ in self.driving.inputs)
        beside = (name for name in self._beside if name in values)
        own = {name: values[name] for name in (*self.own_names, *given, *beside)}
        return self.dynamics.numbers(values) | own

    @property
    def _beside(self) -> tuple[str, ...]:
        """Names of numbers that come with measurements."""
        return tuple(dict.fromkeys(name for block in self.measured for name in block.numbers))

    def noise_stds(self, values: Values, paths: Solution | None = None) -> list[Array | None]:
        """Where noise has a formula, its standard deviation (n,) on the scale of the noise, for every block.

        Without ``paths``, of noise that does not depend on them.
        """
        if not any(isinstance(o.noise, BoundFormula) for o in self.observables):
            return [None] * len(self.measured)
        none = [None] * len(self.measured)
        predicted: list[Any] = none if paths is None else list(self.predictions(paths, values))
        found = []
        for block, one in zip(self.measured, predicted, strict=True):
            xs = None if paths is None else paths.xs[block.experiment, block.rows]
            ts = self.nodes[block.experiment, block.rows]
            found.append(self.noise_std_along(block, ts, xs, one, values, block.numbers))
        return found

    def noise_std_along(
        self, block: Measurements, ts: Array, xs: Array | None, predicted: Array | None, values: Values, beside: Values
    ) -> Array | None:
        """As :meth:`noise_stds`, of one block at solver times (n,), scaled states and predictions (n,) there."""
        observable = self.observables[block.observable]
        if not isinstance(observable.noise, BoundFormula):
            return None
        noise, scaling = observable.noise, self.scaling
        if xs is None or predicted is None:
            assert not noise.sees_path
            xs, predicted = jnp.zeros((ts.size, scaling.state_scale.size)), jnp.zeros(ts.size)
        own = self.completed(values)
        own = self.values_in(own, block.experiment)
        kept: dict[str, Any] = {name: values[name] for name in noise.priors(observable.variable)} | self.initial.fixed
        given = self.given_along(block.experiment, ts) | beside

        def one(t: Array, x: Array, y: Array, given: Values) -> Array:
            p = self.reading_parameters(own | given) | kept
            return noise.std(scaling.user_time(t), x * scaling.state_scale, p, y)

        scale = self.output_scale[self.outputs.index(observable.variable)]
        return jax.vmap(one)(ts, xs, predicted * scale, given) / observable.unit
