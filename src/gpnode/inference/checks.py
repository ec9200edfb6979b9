"""One finding of a verdict, as samplers and diagnostics state it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One finding. ``passed`` is None for a remark that decides nothing."""

    name: str
    passed: bool | None
    finding: str
    remedy: str = ""
