"""What every kind of dynamics provides, before and after it meets data."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.model.dynamics.writing import RightSide
from gpnode.model.priors.parameters import Block, Values
from gpnode.model.priors.population import Each, Population
from gpnode.model.priors.sparsity import CoefficientPrior


class Named(Mapping[str, Any]):
    """Values by name, as ``p.alpha`` or ``p["alpha"]``."""

    def __init__(self, values: Mapping[str, Any], used: set[str] | None = None) -> None:
        self.__dict__["_values"] = dict(values)
        self.__dict__["_used"] = set() if used is None else used  # names that were asked for

    def __getitem__(self, name: str) -> Any:
        self._used.add(name)
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"there is no {name!r} here; there are: {', '.join(self._values)}") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._used.add(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here; there are: {', '.join(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def traced_digest(function: Callable[..., Any], *arguments: Iterable[str]) -> str:
    """Digest of what ``function`` computes from named numbers, whatever its source looks like."""

    def flat(*values: Mapping[str, Any]) -> Any:
        return dict(function(*map(Named, values)))

    traced = jax.make_jaxpr(flat)(*(dict.fromkeys(a, 0.0) for a in arguments))
    digest = hashlib.sha256(str(traced).encode())
    for constant in _constants(traced):
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()


def _constants(traced: Any) -> Iterator[Any]:
    """Arrays baked into a traced function, which its text abbreviates."""
    yield from traced.consts
    for step in traced.jaxpr.eqns:
        yield from (v.val for v in step.invars if hasattr(v, "val"))
        yield from (c for p in step.params.values() if hasattr(p, "jaxpr") for c in _constants(p))


class SharedFunction:
    """A user's function that equals any other which computes the same.

    Compiled code is kept by what it was compiled from. Functions alone would differ each time a problem
    is read from its file or reaches another process, and the same code be compiled, and kept, again and again.
    """

    def __init__(self, function: Callable[..., Any], digest: str) -> None:
        self.function, self.digest = function, digest

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedFunction) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


class BoundDynamics(eqx.Module):
    """Dynamics on scaled states, ready to be solved."""

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The unknown parameters and their priors."""

    @property
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the values the vector field needs."""

    @abstractmethod
    def vector_field(self, t: Array, x: Array, values: Values) -> Array:
        """Scaled slopes (states,) at solver time ``t`` and scaled states ``x`` (states,)."""

    @abstractmethod
    def report(self, values: Values) -> Values:
        """The parameters in the user's units."""

    @abstractmethod
    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """For each reported array, its dimensions by name with their labels."""

    @abstractmethod
    def right_sides(self) -> dict[str, RightSide]:
        """The equations, by state, in the user's units."""

    @property
    def estimates(self) -> tuple[str, ...]:
        """Names of the reported numbers that stand as symbols in :meth:`right_sides`."""
        return ()

    def numbers(self, values: Values) -> Values:
        """Parameters that observables may use, by the names the user gave them."""
        return {}

    def with_computed(self, names: frozenset[str]) -> BoundDynamics:
        """The same, with those given parameters (full names) among the values it needs that are no known numbers."""
        return self

    def constants(self) -> dict[str, Array]:
        """Marks (True) the entries of reported arrays that are fixed, not inferred."""
        return {}


class Dynamics(eqx.Module):
    """The right-hand side of the equations of motion, as the user states it."""

    states: eqx.AbstractVar[tuple[str, ...]]

    @abstractmethod
    def bind(self, states: tuple[str, ...], scaling: Scaling, num_observations: int, prefix: str) -> BoundDynamics:
        """Fix the order of states, the scales and the priors. ``prefix`` keeps parts of a sum apart."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the parameters that observables may use."""
        return ()

    def populations(self, prefix: str) -> dict[str, Population | Each]:
        """Parameters that differ between experiments, by full name."""
        return {}

    def given(self, prefix: str) -> dict[str, str]:
        """What experiments give: the names users know, by full name."""
        return {}

    def late(self, prefix: str) -> dict[str, str]:
        """Parameters by which doses may be delayed: the names users know, by full name."""
        return {}

    def completed(self, prior: CoefficientPrior) -> Dynamics:
        """With this prior for coefficients whose prior was left open."""
        return self

    @abstractmethod
    def describe(self, states: tuple[str, ...]) -> dict[str, Any]:
        """Settings, for records and the fingerprint. ``states`` are those of the whole model."""
