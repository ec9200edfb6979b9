"""Parameters that are known in each experiment."""

from __future__ import annotations

from typing import Any


class Given:
    """Stands for the prior of a parameter that each :class:`Experiment` gives, as a number or as it changes over time.

    >>> growth = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * p.light * x.x},
    ...                       {"rate": gn.LogNormal(0.0, 1.0), "light": gn.Given()})
    """

    def __repr__(self) -> str:
        return "Given()"

    def describe(self) -> dict[str, Any]:
        """For records and the fingerprint."""
        return {"given": True}
