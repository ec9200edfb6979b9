"""Sums of dynamics: what is known plus what is sought."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.errors import ModelError
from gpnode.model.dynamics.base import BoundDynamics, Dynamics
from gpnode.model.dynamics.writing import RightSide, add_right_sides
from gpnode.model.priors.parameters import Block, Values
from gpnode.model.priors.population import Each, Population
from gpnode.model.priors.sparsity import CoefficientPrior


class Sum(Dynamics):
    """A gray box: ``Sum(known=KnownForm(...), missing=Dictionary(...))``.

    The slopes of the parts add up. The names of the parts, chosen freely, prefix their
    parameters (``known.alpha``, ``missing.coef``), so that parts never collide.

    >>> both = gn.Sum(known=model.dynamics, missing=gn.Dictionary(["x"], gn.polynomial(degree=3)))
    """

    parts: dict[str, Dynamics]
    states: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, **parts: Dynamics) -> None:
        if len(parts) < 2:
            raise ModelError("a Sum needs at least two named parts: Sum(known=..., missing=...).")
        self.parts = parts
        self.states = tuple(dict.fromkeys(s for part in parts.values() for s in part.states))

    def bind(self, states: tuple[str, ...], scaling: Scaling, num_observations: int, prefix: str) -> BoundSum:
        return BoundSum(
            tuple(part.bind(states, scaling, num_observations, f"{prefix}{name}.") for name, part in self.parts.items())
        )

    def populations(self, prefix: str) -> dict[str, Population | Each]:
        found = (part.populations(f"{prefix}{name}.") for name, part in self.parts.items())
        return {name: population for part in found for name, population in part.items()}

    def given(self, prefix: str) -> dict[str, str]:
        found = (part.given(f"{prefix}{name}.") for name, part in self.parts.items())
        return {full: name for part in found for full, name in part.items()}

    def late(self, prefix: str) -> dict[str, str]:
        found = (part.late(f"{prefix}{name}.") for name, part in self.parts.items())
        return {full: name for part in found for full, name in part.items()}

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.numbers))

    def completed(self, prior: CoefficientPrior) -> Sum:
        return Sum(**{name: part.completed(prior) for name, part in self.parts.items()})

    def describe(self, states: tuple[str, ...]) -> dict[str, Any]:
        return {"kind": "sum", "parts": {name: part.describe(states) for name, part in self.parts.items()}}


class BoundSum(BoundDynamics):
    """Bound parts, whose slopes add up."""

    parts: tuple[BoundDynamics, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(block for part in self.parts for block in part.blocks)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.parameter_names)

    def vector_field(self, t: Array, x: Array, values: Values) -> Array:
        slopes = [part.vector_field(t, x, values) for part in self.parts]
        return sum(slopes[1:], slopes[0])

    def numbers(self, values: Values) -> Values:
        return {name: value for part in self.parts for name, value in part.numbers(values).items()}

    def with_computed(self, names: frozenset[str]) -> BoundSum:
        return BoundSum(tuple(part.with_computed(names) for part in self.parts))

    def right_sides(self) -> dict[str, RightSide]:
        return add_right_sides(part.right_sides() for part in self.parts)

    @property
    def estimates(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.estimates)

    def report(self, values: Values) -> Values:
        return {name: v for part in self.parts for name, v in part.report(values).items()}

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {name: d for part in self.parts for name, d in part.dims().items()}

    def constants(self) -> dict[str, Array]:
        return {name: mask for part in self.parts for name, mask in part.constants().items()}
