"""Formulas as MathML, which browsers typeset by themselves: no script, no network."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">(?P<latex>.*?)</(?P=tag)>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Replace what the Markdown extension marked as LaTeX."""
    return _FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    latex = unescape(found["latex"]).strip()
    display = "block" if latex.startswith(r"\[") else "inline"
    typeset = convert(latex[2:-2].strip(), display=display)
    return f'<div class="formula">{typeset}</div>' if display == "block" else typeset
