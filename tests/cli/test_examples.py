"""Examples are complete problems."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode import cli
from gpnode.cli.examples import EXAMPLES
from gpnode.formats.problem_toml import read_problem


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_complete_problems(name, tmp_path):
    assert cli.run(["example", name, "-o", str(tmp_path)]) == 0
    problem = read_problem(tmp_path / "problem.toml")
    assert gn.bind(problem.model, problem.data).size > 0
