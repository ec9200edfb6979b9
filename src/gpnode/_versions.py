"""Versions of Python and of the libraries whose arithmetic enters the draws."""

from __future__ import annotations

import platform
from importlib.metadata import version

from gpnode import __version__


def installed_versions() -> dict[str, str]:
    """Versions by name."""
    libraries = {name: version(name) for name in ("jax", "numpyro", "diffrax", "numpy")}
    return {"python": platform.python_version(), "gpnode": __version__} | libraries
