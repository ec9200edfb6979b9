"""What things are called that SBML has no names for. None of it can be an identifier of a file."""

from __future__ import annotations

TIME = "@time"
"""Time, whatever the file calls it."""


def at_start(name: str) -> str:
    """The value of something at the start."""
    return f"{name}@start"


def slope_of(name: str) -> str:
    """The rate at which something changes."""
    return f"{name}@slope"


def amount_of(species: str) -> str:
    """The amount of a species, of which formulas use the concentration."""
    return f"{species}@amount"


def local(reaction: str, parameter: str) -> str:
    """A parameter that one reaction has for itself."""
    return f"{reaction}@{parameter}"
