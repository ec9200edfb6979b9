"""Versions of Python and of the libraries whose arithmetic enters the draws."""

from __future__ import annotations

import platform
from importlib.metadata import version


def installed_versions() -> dict[str, str]:
    """Versions by name."""
    names = ("gpnode", "jax", "numpyro", "diffrax", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}
