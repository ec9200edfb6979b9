"""One finding of a verdict, as samplers and diagnostics state it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One finding. ``passed`` is None for a remark that decides nothing.

    ``half`` is what it is about: the ``"sampling"``, or the ``"model"``, where ``reason`` says in a few words what is
    wrong if it failed.
    """

    name: str
    passed: bool | None
    finding: str
    remedy: str = ""
    half: Literal["sampling", "model"] = "sampling"
    reason: str = ""
