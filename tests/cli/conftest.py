"""A small problem that was fitted by the command line."""

from __future__ import annotations

import tomllib

import pytest

from gpnode import cli
from gpnode.formats.problem_toml import write_problem
from support.commands import QUICK


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the lynx-hare example, fitted quickly."""
    folder = tmp_path_factory.mktemp("lynx")
    assert cli.run(["example", "lynx-hare", "-o", str(folder / "lynx-hare")]) == 0
    file = folder / "lynx-hare" / "problem.toml"
    content = tomllib.loads(file.read_text())
    write_problem(content | {"sampler": QUICK}, file)
    assert cli.run(["fit", str(file), "-o", str(folder / "lynx-hare" / "fit"), "-q"]) == 0
    return folder
