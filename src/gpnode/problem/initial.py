"""Where paths start: values that are known, and those that are inferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from gpnode.data.observations import Observations
from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction
from gpnode.model.model import Around, Model
from gpnode.model.priors.distributions import say_how_to_write
from gpnode.model.priors.parameters import Independent, Values
from gpnode.problem.conditions import parameters_function


class InitialStates(eqx.Module):
    """Initial values: ``known`` (experiments, states) in user units, unknown ones by name.

    ``unknown`` lists (experiment, state, parameter name), ``formulas`` (experiments, state, function of parameters).
    """

    block: Independent
    known: Array
    fixed: dict[str, float]
    unknown: tuple[tuple[int, int, str], ...] = eqx.field(static=True)
    formulas: tuple[tuple[tuple[int, ...], int, SharedFunction], ...] = eqx.field(static=True, default=())

    @property
    def free_states(self) -> tuple[int, ...]:
        """States whose initial value is unknown in some experiment."""
        return tuple(sorted({d for _, d, _ in self.unknown} | {d for _, d, _ in self.formulas}))

    def values(self, values: Values, numbers: Callable[[], Values]) -> Array:
        """Initial values (experiments, states) in user units.

        ``numbers`` are those that formulas may use (experiments,), by the names users know.
        """
        initial = self.known
        for r, d, name in self.unknown:
            initial = initial.at[r, d].set(values[name])
        if not self.formulas:
            return initial
        at = numbers()
        for chosen, d, function in self.formulas:
            rows = jnp.asarray(chosen)

            def one(p: Values, function: SharedFunction = function) -> Array:
                return jnp.asarray(function(Named({**p, **self.fixed})), dtype=float)

            initial = initial.at[rows, d].set(jax.vmap(one)({name: value[rows] for name, value in at.items()}))
        return initial


def initial_states(model: Model, data: Observations) -> InitialStates:
    """Where experiments start, or, of a model that begins at rest, where it comes from."""
    known = np.zeros((len(data.experiments), len(model.states)))
    priors: dict[str, dist.Distribution] = {}
    unknown = []
    everywhere = model.measuring_priors()
    names = (*model.dynamics.numbers, *everywhere)
    formulas: dict[tuple[int, SharedFunction], list[int]] = {}
    for r, experiment in enumerate(data.experiments):
        for d, state in enumerate(model.states):
            initial = _initial_of(model, data, state, experiment)
            if isinstance(initial, dist.Distribution):
                name = f"{state}.initial" if len(data.experiments) == 1 else f"{state}.initial.{experiment}"
                priors[name] = as_arrays(initial)
                unknown.append((r, d, name))
            elif callable(initial):
                function = parameters_function(f"the initial value of {state!r}", initial, names)
                formulas.setdefault((d, function), []).append(r)
            else:
                known[r, d] = initial
    fixed = {n: float(p) for n, p in everywhere.items() if isinstance(p, Real)}
    by_formula = tuple((tuple(rows), d, function) for (d, function), rows in formulas.items())
    return InitialStates(Independent(priors), jnp.asarray(known), fixed, tuple(unknown), by_formula)


def _initial_of(model: Model, data: Observations, state: str, experiment: str) -> Any:
    initial = model.initial.get(state, Around())
    if isinstance(initial, Mapping):
        by_name = {str(name): value for name, value in initial.items()}
        for name in by_name:
            if name not in data.experiments:
                raise ModelError(
                    f"initial of {state!r} names experiment {name!r}; the data have {', '.join(data.experiments)}."
                )
        if experiment not in by_name:
            raise ModelError(
                f"initial of {state!r} says nothing of experiment {experiment!r}. Add it, or give one for all."
            )
        initial = by_name[experiment]
    if isinstance(initial, dist.Distribution):
        if initial.batch_shape or initial.event_shape:
            raise ModelError(f"the prior of the initial {state!r} must be for one number.")
        return initial
    if isinstance(initial, Real):
        return float(initial)
    if callable(initial):
        return initial
    if not isinstance(initial, Around):
        raise ModelError(
            f"initial of {state!r} must be a number, a distribution, a function of parameters or Around(); "
            f"got {type(initial).__name__}."
            f"{say_how_to_write(initial)}"
        )
    series = [s for s in data.of(state) if s.experiment == experiment] or list(data.of(state))
    if not series:
        raise ModelError(f"state {state!r} has no data to put its initial value around. Give a number or a prior.")
    first = float(series[0].values[0])
    if model.at_rest and state not in model.initial:
        return first  # any start will do, unless sums are conserved
    return model.transform_of(state).around(first, initial.width, float(data.values_of(state).std()))


def as_arrays(numbers: Any) -> Any:
    """Numbers of a prior or kernel as arrays: plain ones, which may come from data, would be compiled into the code."""
    return jax.tree.map(lambda number: jnp.asarray(number, dtype=float), numbers)
