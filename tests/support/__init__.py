"""What several tests share: small problems, made-up draws, reference computations. Imports nothing from the tests.

This folder is on the path (``pythonpath`` in ``pyproject.toml``) under the name ``support``, in worker processes, too.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The clone."""
SHARED = ROOT.parent / "shared" / "data"
"""Data that are not part of the clone, where they are at hand beside it."""
