"""Colours and panels that all figures share."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

PATH, DATA, TRUTH = "#1f5fa8", "#222222", "#c8442e"
COLOURS = (PATH, "#d98a2b", "#3a8f5c", "#8b5fbf", "#c8442e", "#4aa3b5", "#8a6d3b", "#666666")
"""For chains, parameters or models side by side; told apart by most colour-blind readers."""


def panels(
    rows: int, columns: int, size: tuple[float, float], axes: Sequence[Axes] | None, sharex: bool = False
) -> list[Axes]:
    """The user's axes, or new ones of ``size`` inches each."""
    if axes is not None:
        if len(axes) < rows * columns:
            raise ValueError(f"this figure needs {rows * columns} axes; got {len(axes)}.")
        return list(axes)
    _, grid = plt.subplots(
        rows,
        columns,
        figsize=(size[0] * columns, size[1] * rows),
        sharex=sharex,
        squeeze=False,
        layout="constrained",
    )
    return list(grid.ravel())
