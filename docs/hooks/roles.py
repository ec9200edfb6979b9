"""Docstrings mark names of the package by roles such as ``:class:``; on the pages the name alone is enough."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|meth|func):(?=<code)")


def on_page_content(html: str, **_: Any) -> str:
    """Drop the roles before names in code."""
    return _ROLE.sub("", html)
