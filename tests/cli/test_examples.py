"""Examples are complete problems."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode import cli
from gpnode.cli.example_problems import EXAMPLES
from gpnode.formats.problem_toml import read_problem


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_complete_problems(name, tmp_path):
    assert cli.run(["example", name, "-o", str(tmp_path)]) == 0
    problem = read_problem(tmp_path / "problem.toml")
    assert gn.bind(problem.model, problem.data).size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_converge_and_are_recommended(name, tmp_path):
    cli.run(["example", name, "-o", str(tmp_path)])
    problem = read_problem(tmp_path / "problem.toml")
    posterior = gn.fit(problem.model, problem.data, seed=problem.seed, progress=False)
    assert posterior.diagnose().recommended, str(posterior.diagnose())
