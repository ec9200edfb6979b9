"""The seam of file formats: what reads a problem, with its data, from a path, and writes it back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from gpnode.data.observations import Observations
from gpnode.inference.samplers.base import Method
from gpnode.model.model import Model


@dataclass(frozen=True)
class ProblemFile:
    """What a file asks for. ``content`` is what its format needs to write it again; ``format`` the one that does.

    Tables that it names are in ``folder``.
    """

    data: Observations
    model: Model
    format: Format
    method: Method | None = None
    seed: int = 0
    content: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()


class Format(ABC):
    """One kind of problem file. Registered, the command line reads it by its suffix."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """Of its files, the first being the one it writes."""

    @abstractmethod
    def read(self, path: Path) -> ProblemFile:
        """The problem in ``path``, with the data it names."""

    @abstractmethod
    def write(self, problem: ProblemFile, folder: Path) -> None:
        """Write the problem as ``problem`` with the first suffix, and its data, so that ``folder`` stands by itself."""
