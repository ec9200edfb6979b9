"""Small pieces of HTML by which results show themselves in a notebook.

Every text passes through :func:`html.escape` here, so that callers hand over plain text. Colours come from
the notebook (``currentColor``) or lie halfway between black and white: the same markup serves light and dark
themes. Styles stand on the elements themselves, because a notebook's own rules for tables would win over a
style sheet. Nothing outside the markup is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

_LINE = "1px solid rgba(128, 128, 128, .35)"
_CELL = f"padding: 3px 12px 3px 0; text-align: {{align}}; white-space: nowrap; border-bottom: {_LINE}; color: inherit;"
_TONES = {True: "#2e9e63", False: "#d9534f", None: "#808080"}
_BLUE = "#4a90d9"
_WIDTH, _HEIGHT = 120, 28  # of a small chart, in pixels
_MOST_DOTS = 200


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def block(*parts: str) -> Markup:
    """Parts under one another."""
    return Markup(f'<div style="overflow-x: auto; max-width: 100%;">{"".join(map(_html, parts))}</div>')


def title(text: str) -> Markup:
    """A line in bold."""
    return Markup(f'<div style="font-weight: 600; margin: 4px 0;">{escape(text)}</div>')


def line(text: str) -> Markup:
    """A line of plain text."""
    return Markup(f'<div style="margin: 2px 0; opacity: .85;">{escape(text)}</div>')


def formula(mathml: str) -> Markup:
    """A typeset formula with room around it."""
    return Markup(f'<div style="margin: 8px 0; font-size: 1.1em;">{mathml}</div>')


def headline(text: str, good: bool | None) -> Markup:
    """A verdict: text beside a bar of the colour of its tone."""
    bar = f"border-left: 4px solid {_TONES[good]};"
    return Markup(f'<div style="{bar} padding: 4px 10px; margin: 6px 0; font-weight: 600;">{escape(text)}</div>')


def mark(passed: bool | None) -> Markup:
    """ok, FAIL or note, in colour."""
    word = {True: "ok", False: "FAIL", None: "note"}[passed]
    return Markup(f'<span style="color: {_TONES[passed]}; font-weight: 600;">{word}</span>')


def folded(summary: str, content: str) -> Markup:
    """Content that opens on a click."""
    return Markup(f'<details><summary style="cursor: pointer;">{escape(summary)}</summary>{_html(content)}</details>')


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, wrap: bool = False) -> Markup:
    """Rows of texts or markup. The first ``left`` columns stand on the left; ``wrap`` breaks long cells."""

    def cell(kind: str, text: str, column: int) -> str:
        style = _CELL.format(align="left" if column < left else "right")
        style = style.replace("nowrap", "normal") if wrap else style
        return f'<{kind} style="{style}">{_html(text)}</{kind}>'

    def line_of(kind: str, row: Sequence[str]) -> str:
        return f'<tr style="background: none;">{"".join(cell(kind, text, i) for i, text in enumerate(row))}</tr>'

    body = "".join([*([line_of("th", head)] if head else []), *(line_of("td", row) for row in rows)])
    return Markup(f'<table style="border-collapse: collapse; border: none; margin: 4px 0;">{body}</table>')


def dots(times: np.ndarray, values: np.ndarray) -> Markup:
    """Measurements as a chart the height of a line."""
    shown = few(times.size, _MOST_DOTS)
    x, y = _axis(times[shown], times, _WIDTH), _axis(values[shown], values, -_HEIGHT)
    drawn = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.6" fill="currentColor"/>' for a, b in zip(x, y, strict=True)
    )
    return _chart(drawn)


def band(times: np.ndarray, low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> Markup:
    """A path with its interval as a chart the height of a line."""
    every = np.concatenate([low, middle, high])
    x = _axis(times, times, _WIDTH)
    bottom, centre, top = (_axis(v, every, -_HEIGHT) for v in (low, middle, high))
    around = _points(np.concatenate([x, x[::-1]]), np.concatenate([top, bottom[::-1]]))
    return _chart(
        f'<polygon points="{around}" fill="{_BLUE}" fill-opacity=".35"/>'
        f'<polyline points="{_points(x, centre)}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>'
    )


def few(count: int, most: int) -> np.ndarray:
    """At most ``most`` of the positions 0 to ``count`` - 1, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _html(text: str) -> str:
    return text if isinstance(text, Markup) else escape(str(text))


def _axis(values: np.ndarray, every: np.ndarray, pixels: int) -> np.ndarray:
    """Values on a scale of pixels with a small margin; a negative number of pixels runs upwards."""
    finite = every[np.isfinite(every)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    unit = max(abs(low), abs(high)) or 1.0  # so that differences of huge numbers stay finite
    spread = high / unit - low / unit
    part = (np.where(np.isfinite(values), values, low) / unit - low / unit) / (spread or 1.0)
    return 2.0 + (abs(pixels) - 4.0) * (part if pixels > 0 else 1.0 - part)


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _chart(content: str) -> Markup:
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return Markup(
        f'<svg {size} style="vertical-align: middle; min-width: {_WIDTH}px;" aria-hidden="true">{content}</svg>'
    )
