"""Charts the height of a line of text, as SVG: measurements, and a path with its interval."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from gpnode.render.html.environment import render_template

_WIDTH, _HEIGHT = 120, 28  # pixels
_MOST_DOTS = 200


def draw_dots(times: np.ndarray, values: np.ndarray) -> Markup:
    """Measurements as dots; evenly spread ones where there are very many."""
    shown = even_positions(times.size, _MOST_DOTS)
    x, y = _to_pixels(times[shown], times, _WIDTH), _to_pixels(values[shown], values, -_HEIGHT)
    return render_template(
        "charts/dots.html", width=_WIDTH, height=_HEIGHT, dots=[_format_pair(*p) for p in zip(x, y, strict=True)]
    )


def draw_band(times: np.ndarray, low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> Markup:
    """A path with its interval."""
    every = np.concatenate([low, middle, high])
    x = _to_pixels(times, times, _WIDTH)
    bottom, centre, top = (_to_pixels(v, every, -_HEIGHT) for v in (low, middle, high))
    return render_template(
        "charts/band.html",
        width=_WIDTH,
        height=_HEIGHT,
        around=_format_points(np.concatenate([x, x[::-1]]), np.concatenate([top, bottom[::-1]])),
        centre=_format_points(x, centre),
    )


def even_positions(count: int, most: int) -> np.ndarray:
    """At most ``most`` of the positions 0 to ``count`` - 1, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _to_pixels(values: np.ndarray, every: np.ndarray, pixels: int) -> np.ndarray:
    """Values on a scale of pixels that holds ``every`` value; a negative number of pixels runs upwards."""
    finite = every[np.isfinite(every)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    unit = max(abs(low), abs(high)) or 1.0  # so that differences of huge numbers stay finite
    width = high / unit - low / unit
    part = (np.where(np.isfinite(values), values, low) / unit - low / unit) / (width or 1.0)
    return 2.0 + (abs(pixels) - 4.0) * (part if pixels > 0 else 1.0 - part)


def _format_pair(x: float, y: float) -> tuple[str, str]:
    return f"{x:.1f}", f"{y:.1f}"


def _format_points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(",".join(_format_pair(*pair)) for pair in zip(x, y, strict=True))
