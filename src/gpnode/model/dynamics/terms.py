"""Libraries of candidate terms for a dictionary."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest

if TYPE_CHECKING:
    import sympy


class Term(ABC):
    """A candidate function of the states. ``name`` identifies it in results."""

    name: str

    @abstractmethod
    def __call__(self, x: Named) -> Any:
        """Value at states in the user's units."""

    @abstractmethod
    def magnitude(self, state_scale: dict[str, float]) -> float:
        """Characteristic size: one unit of coefficient times this is one unit of slope."""

    def formula(self, inputs: tuple[str, ...]) -> sympy.Expr:
        """The term as a formula in ``inputs``, or a symbol of its name where there is none."""
        import sympy

        from gpnode.tracing.formulas import write_formulas
        from gpnode.tracing.interpreter import Unsupported

        def value(*xs: Any) -> list[Any]:
            return [jnp.asarray(self(Named(dict(zip(inputs, xs, strict=True)))), dtype=float)]

        try:
            return write_formulas(value, [sympy.Symbol(s) for s in inputs])[0]
        except Unsupported:
            return sympy.Symbol(self.name)

    def shared(self, states: tuple[str, ...]) -> Term:
        """The same term, equal to any other that computes the same from ``states``."""
        return self

    def scaled(self, x: Named, state_scale: dict[str, Any], magnitude: Any) -> Any:
        """Value over its magnitude, at scaled states ``x``."""
        return self(Named({name: x[name] * state_scale[name] for name in x})) / magnitude


@dataclass(frozen=True)
class Monomial(Term):
    """A product of powers, such as ``x*y^2``."""

    powers: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return "*".join(s if p == 1 else f"{s}^{p}" for s, p in self.powers) or "1"

    def __call__(self, x: Named) -> Any:
        product: Any = 1.0
        for state, power in self.powers:
            for _ in range(power):
                product = product * x[state]
        return product

    def magnitude(self, state_scale: dict[str, float]) -> float:
        return float(np.prod([state_scale[s] ** p for s, p in self.powers]))

    def scaled(self, x: Named, state_scale: dict[str, Any], magnitude: Any) -> Any:
        return self(x)  # scales of a monomial cancel against its magnitude


@dataclass(frozen=True)
class FourierMode(Term):
    """``sin`` or ``cos`` of a multiple of one state."""

    function: str
    frequency: float
    state: str

    @property
    def name(self) -> str:  # type: ignore[override]
        inner = self.state if self.frequency == 1 else f"{self.frequency:g}*{self.state}"
        return f"{self.function}({inner})"

    def __call__(self, x: Named) -> Any:
        return getattr(jnp, self.function)(self.frequency * x[self.state])

    def magnitude(self, state_scale: dict[str, float]) -> float:
        return 1.0


@dataclass(frozen=True)
class CustomTerm(Term):
    """Any function of the states, under a name of the user's choice."""

    name: str
    function: Callable[[Named], Any]

    def __call__(self, x: Named) -> Any:
        return self.function(x)

    def shared(self, states: tuple[str, ...]) -> CustomTerm:
        digest = traced_digest(lambda x: {self.name: self.function(x)}, states)
        return CustomTerm(self.name, SharedFunction(self.function, digest))

    def magnitude(self, state_scale: dict[str, float]) -> float:
        # Its root mean square over states between zero and their largest values, on a fixed cloud of points.
        cloud = np.random.default_rng(0).uniform(size=(256, len(state_scale)))
        points = {name: jnp.asarray(cloud[:, i] * scale) for i, (name, scale) in enumerate(state_scale.items())}
        values = np.asarray(jax.vmap(lambda x: jnp.asarray(self.function(Named(x)), dtype=float))(points))
        size = np.sqrt(np.mean(values[np.isfinite(values)] ** 2)) if np.isfinite(values).any() else 0.0
        return float(size) if np.isfinite(size) and size > 0 else 1.0


@dataclass(frozen=True)
class Library:
    """Candidate terms, made when the names of the states are known. Libraries add up with ``+``."""

    makers: tuple[Callable[[tuple[str, ...]], list[Term]], ...]

    def terms(self, states: Sequence[str]) -> tuple[Term, ...]:
        terms = [term for make in self.makers for term in make(tuple(states))]
        names = [term.name for term in terms]
        for name in names:
            if names.count(name) > 1:
                raise ModelError(f"the library has two terms named {name!r}. Remove or rename one.")
        return tuple(terms)

    def __add__(self, other: Library) -> Library:
        return Library(self.makers + other.makers)


def polynomial(degree: int = 2, *, cross: int | None = None, constant: bool = True) -> Library:
    """Powers of each state up to ``degree``, and products of different states up to total degree ``cross``.

    ``cross`` is ``degree`` by default; 0 or 1 leaves products out. Within a degree, products
    come before pure powers: 1, x, y, x*y, x^2, y^2, ...

    >>> cubic = gn.polynomial(degree=3, constant=False)
    """
    if degree < 1:
        raise ModelError(f"degree must be at least 1; got {degree}.")
    most = degree if cross is None else cross

    def make(states: tuple[str, ...]) -> list[Term]:
        monomials: list[Term] = [Monomial(())] if constant else []
        for total in range(1, max(degree, most) + 1):
            combos = itertools.combinations_with_replacement(states, total)
            powers = [tuple((s, c.count(s)) for s in dict.fromkeys(c)) for c in combos]
            monomials += [Monomial(p) for p in powers if len(p) > 1 and total <= most]
            monomials += [Monomial(p) for p in powers if len(p) == 1 and total <= degree]
        return monomials

    return Library((make,))


def fourier(modes: int = 1, *, base_frequency: float = 1.0) -> Library:
    """Sine and cosine of each state at ``modes`` multiples of ``base_frequency`` (radians per user unit).

    >>> swing = gn.Dictionary(["angle"], gn.polynomial(1) + gn.fourier(modes=2))
    """

    def make(states: tuple[str, ...]) -> list[Term]:
        return [
            FourierMode(function, base_frequency * (mode + 1), state)
            for state in states
            for mode in range(modes)
            for function in ("sin", "cos")
        ]

    return Library((make,))


def term(name: str, function: Callable[[Named], Any]) -> Library:
    """One term of your own: ``term("uptake", lambda x: x.s / (1.0 + x.s))``.

    >>> eaten = gn.polynomial(1) + gn.term("x/(1 + x)", lambda x: x.x / (1.0 + x.x))
    """
    return Library((lambda states: [CustomTerm(name, function)],))
