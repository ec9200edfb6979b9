"""The templates and how they are filled in: every text is escaped, and a missing name is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_template(name: str, **values: Any) -> Markup:
    """A template of this package, such as ``notebook/verdict.html``, filled in with ``values``."""
    return Markup(_environment().get_template(name).render(values))


def format_number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def format_interval(low: float, high: float) -> str:
    """Both ends with four significant digits."""
    return f"[{low:.4g}, {high:.4g}]"


def format_percent(probability: float) -> str:
    """A probability in whole percent."""
    return f"{probability:.0%}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gpnode.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": format_number, "percent": format_percent}
    environment.globals |= {"interval": format_interval}
    # Names keep their order in JSON, and a number that JSON does not have is an error here, not in the browser.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment
