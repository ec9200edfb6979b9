"""The version is written once."""

import subprocess
import sys
import tomllib
from pathlib import Path

import gpnode

ROOT = Path(__file__).resolve().parents[1]


def test_everything_tells_the_same_version():
    said = subprocess.run([sys.executable, "-m", "gpnode", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["gpnode", gpnode.__version__]
    assert f"\nversion: {gpnode.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/gpnode/__init__.py"
