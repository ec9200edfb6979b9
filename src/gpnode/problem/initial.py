"""Where paths start: values that are known, and those that are inferred."""

from __future__ import annotations

from collections.abc import Mapping
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
from gpnode.model.model import Around, Model
from gpnode.model.priors.distributions import say_how_to_write
from gpnode.model.priors.parameters import Independent, Values


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


def initial_states(model: Model, data: Observations) -> InitialStates:
    """Where experiments start, or, of a model that begins at rest, where it comes from."""
    known = np.zeros((len(data.experiments), len(model.states)))
    priors: dict[str, dist.Distribution] = {}
    unknown = []
    for r, experiment in enumerate(data.experiments):
        for d, state in enumerate(model.states):
            initial = _initial_of(model, data, state, experiment)
            if isinstance(initial, dist.Distribution):
                name = f"{state}.initial" if len(data.experiments) == 1 else f"{state}.initial.{experiment}"
                priors[name] = as_arrays(initial)
                unknown.append((r, d, name))
            else:
                known[r, d] = initial
    return InitialStates(Independent(priors), jnp.asarray(known), tuple(unknown))


def _initial_of(model: Model, data: Observations, state: str, experiment: str) -> dist.Distribution | float:
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
    if not isinstance(initial, Around):
        raise ModelError(
            f"initial of {state!r} must be a number, a distribution or Around(); got {type(initial).__name__}."
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
