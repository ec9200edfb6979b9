"""A normal approximation at the highest density, as a sampler of independent draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Laplace:
    """Highest posterior density and a normal approximation around it: seconds instead of minutes."""

    draws: int = 2000

    def __post_init__(self) -> None:
        if self.draws < 50:
            raise ValueError(f"draws must be at least 50; got {self.draws}.")
