"""What a PEtab problem states, the same for both versions of the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpnode.formats.formula import Tree

BEFORE = float("-inf")
"""The time of a period that lasts until nothing changes any more."""


@dataclass(frozen=True)
class Prior:
    """A distribution by name with its numbers, of the parameter itself or, with a ``scale``, of the scaled one.

    ``bounded`` says that it is cut off at the bounds.
    """

    name: str
    numbers: tuple[float, ...]
    scale: str = "lin"
    bounded: bool = False


@dataclass(frozen=True)
class Parameter:
    """One row of the table of parameters."""

    name: str
    scale: str
    lower: float
    upper: float
    nominal: float | None
    is_estimated: bool
    prior: Prior | None


@dataclass(frozen=True)
class Seen:
    """One row of the table of observables: formulas of what is predicted, and of its noise.

    ``transform`` is lin, log or log10, ``shape`` normal or laplace. Placeholders stand for what each measurement says.
    """

    name: str
    formula: Tree
    noise: Tree
    transform: str
    shape: str
    placeholders: tuple[str, ...]
    noise_placeholders: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One measurement; ``row`` counts those of the table from zero."""

    row: int
    observable: str
    experiment: str
    time: float
    value: float
    parameters: tuple[Tree, ...]
    noise_parameters: tuple[Tree, ...]


@dataclass(frozen=True)
class Period:
    """From a ``time`` on, ``changes`` hold: formulas by what they determine."""

    time: float
    changes: Mapping[str, Tree]


@dataclass(frozen=True)
class Statement:
    """A whole problem. ``renews`` says that a later period says anew what is not a state (version 1)."""

    version: int
    path: Path
    model: Path
    parameters: Mapping[str, Parameter]
    observables: Mapping[str, Seen]
    rows: tuple[Row, ...]
    experiments: Mapping[str, tuple[Period, ...]]
    columns: Mapping[str, str]
    renamed: Mapping[str, str]
