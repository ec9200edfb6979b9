"""Figures of the page, as images inside it."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from gpnode.render import plots
from gpnode.results.posterior import Posterior


def draw_figures(posterior: Posterior) -> list[tuple[str, str]]:
    """Captions and images (PNG in base64) of what helps to judge a fit."""
    figures = []
    if posterior.problem:
        figures.append(("Measurements minus paths", _encode_image(plots.residuals(posterior))))
    if posterior.is_sample:
        figures.append(("Chains and ranks", _encode_image(plots.traces(posterior))))
    return figures


def _encode_image(axes: Sequence[Axes]) -> str:
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()
