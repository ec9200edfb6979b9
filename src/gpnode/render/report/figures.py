"""Figures of the page, as images inside it."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from gpnode.render import plots
from gpnode.results.posterior import Posterior

Captioned = list[tuple[str, str]]  # captions and images (PNG in base64)


def draw_evidence(posterior: Posterior) -> Captioned:
    """What helps to judge whether the equations explain the data."""
    if not posterior.problem:
        return []
    return [
        (
            "Measurements minus paths: a pattern is something the equations miss",
            _encode_image(plots.residuals(posterior)),
        ),
        (
            "Where measurements fall in their predictions from all others: flat if the model is right",
            _encode_image(plots.predictive_check(posterior)),
        ),
    ]


def draw_chains(posterior: Posterior) -> Captioned:
    """What helps to judge whether the draws can be used."""
    return [("Chains and ranks", _encode_image(plots.traces(posterior)))] if posterior.is_sample else []


def _encode_image(axes: Sequence[Axes]) -> str:
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()
