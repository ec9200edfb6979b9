"""Inputs of experiments that are functions of parameters: one number for each experiment, known once parameters are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.data.experiments import Experiment, Input
from gpnode.data.observations import Observations
from gpnode.errors import DataError, ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest
from gpnode.model.functions import shapes_of
from gpnode.model.model import Model
from gpnode.model.priors.given import Given
from gpnode.model.priors.parameters import Values


class Conditions(eqx.Module):
    """Inputs that are functions of parameters in some experiment.

    ``names`` are their full names, of which ``measuring`` no equation has. A table holds what each of ``functions``
    says, then ``numbers``; ``during`` and ``before`` (experiments, names) are places in it. ``shared`` are the full
    names of what functions may use, by the names they use.
    """

    numbers: Array
    during: Array
    before: Array
    fixed: dict[str, float]
    names: tuple[str, ...] = eqx.field(static=True)
    measuring: tuple[str, ...] = eqx.field(static=True)
    functions: tuple[SharedFunction, ...] = eqx.field(static=True)
    shared: tuple[str, ...] = eqx.field(static=True)

    def values(self, parameters: Values) -> tuple[Values, Values]:
        """By full name, numbers (experiments,) of the time of the experiments, and of the time before."""
        named = Named({name: parameters[name] for name in self.shared} | self.fixed)
        made = [jnp.asarray(function(named), dtype=float) for function in self.functions]
        table = jnp.concatenate([jnp.stack(made), self.numbers])
        during, before = table[self.during], table[self.before]
        return (
            {name: during[:, i] for i, name in enumerate(self.names)},
            {name: before[:, i] for i, name in enumerate(self.names)},
        )


def shared_names(model: Model) -> tuple[str, ...]:
    """Parameters that are the same in all experiments, by the names users know."""
    apart = set(model.given().values()) | {n.rpartition(".")[2] for n in model.dynamics.populations("")}
    everything = (*model.dynamics.numbers, *model.measuring_priors())
    return tuple(name for name in everything if name not in apart)


def computed_names(model: Model, done: Mapping[str, Experiment]) -> dict[str, str]:
    """Full names of inputs that are functions in some experiment, with the names users know."""
    return {
        full: name
        for full, name in model.given().items()
        if any(callable(one.inputs.get(name)) or callable(one.before.get(name)) for one in done.values())
    }


def conditions_of(model: Model, data: Observations) -> Conditions | None:
    """Inputs that are functions of parameters; None if there are none."""
    done = {name: data.done.get(name, Experiment()) for name in data.experiments}
    computed = computed_names(model, done)
    if not computed:
        return None
    shared, everywhere = shared_names(model), model.measuring_priors()
    functions: list[SharedFunction] = []
    places: list[list[Any]] = []  # a function, or a number
    for experiment, one in done.items():
        for name in computed.values():
            if name not in one.inputs:
                raise DataError(f"experiment {experiment!r} does not give {name!r}, which the equations are given.")
            given = one.inputs[name]
            both = [given, one.before.get(name, given)]
            for value in both:
                if isinstance(value, Input):
                    raise ModelError(
                        f"{name!r} is a function of parameters in one experiment and changes over time in another. "
                        "Give it a function in all, or numbers."
                    )
            places.append([_bound(v, name, experiment, shared) if callable(v) else float(v) for v in both])
    for place in places:
        functions += [one for one in place if isinstance(one, SharedFunction) and one not in functions]
    numbers = list(dict.fromkeys(one for place in places for one in place if isinstance(one, float)))
    where = [[_position(one, functions, numbers) for one in place] for place in places]
    table = np.reshape(where, (len(done), len(computed), 2))
    return Conditions(
        numbers=jnp.asarray(numbers, dtype=float),
        during=jnp.asarray(table[..., 0]),
        before=jnp.asarray(table[..., 1]),
        fixed={n: float(p) for n, p in everywhere.items() if isinstance(p, Real) and n in shared},
        names=tuple(computed),
        measuring=tuple(n for n in computed if isinstance(everywhere.get(n), Given)),
        functions=tuple(functions),
        shared=tuple(n for n in shared if not isinstance(everywhere.get(n), Real)),
    )


def _position(one: Any, functions: list[SharedFunction], numbers: list[float]) -> int:
    return functions.index(one) if isinstance(one, SharedFunction) else len(functions) + numbers.index(one)


def _bound(function: Callable[..., Any], name: str, experiment: str, shared: tuple[str, ...]) -> SharedFunction:
    return parameters_function(f"the formula of {name!r} in experiment {experiment!r}", function, shared)


def parameters_function(what: str, function: Callable[..., Any], names: tuple[str, ...]) -> SharedFunction:
    """A function of parameters alone, once it has been run on shapes."""

    def value(t: Any, x: Named, p: Named) -> Any:
        return jnp.asarray(function(p), dtype=float)

    shape, _ = shapes_of(what, value, (), names, "a number")
    if shape.shape != ():
        raise ModelError(f"{what} must be one number; its shape is {shape.shape}.")

    def named(p: Named) -> dict[str, Any]:
        return {"value": jnp.asarray(function(p), dtype=float)}

    return SharedFunction(function, traced_digest(named, names))
