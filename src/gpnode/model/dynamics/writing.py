"""How dynamics write their own equations: what is structure, and which numbers are estimates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class CandidateTerm:
    """A term that may act or not; which ones do is the form of an equation.

    Its coefficient is the entry ``index`` of the reported array ``array``; ``unit`` is what one unit of the scaled
    coefficient is in the user's units. A term that is not ``free`` has a fixed coefficient; of others ``position``
    is the place of its coefficient in the parameter ``array`` as it is sampled. The entry ``index`` of the reported
    array ``acting``, if there is one, is the probability that the term acts, draw by draw.
    """

    name: str
    formula: sympy.Expr
    array: str
    index: tuple[int, ...]
    unit: float
    position: int | None
    acting: str | None = None

    @property
    def free(self) -> bool:
        """Whether the coefficient is inferred."""
        return self.position is not None


@dataclass(frozen=True)
class RightSide:
    """What dynamics add to the slope of one state.

    ``known`` is an expression in which parameters to be estimated stand as symbols of their reported names;
    ``candidates`` are terms of unknown form.
    """

    known: sympy.Expr | None = None
    candidates: tuple[CandidateTerm, ...] = ()


def add_right_sides(parts: Iterable[dict[str, RightSide]]) -> dict[str, RightSide]:
    """The right-hand sides of a sum of dynamics, by state."""
    total: dict[str, RightSide] = {}
    for part in parts:
        for state, right in part.items():
            before = total.get(state, RightSide())
            known = [expression for expression in (before.known, right.known) if expression is not None]
            total[state] = RightSide(sum(known[1:], known[0]) if known else None, before.candidates + right.candidates)
    return total
