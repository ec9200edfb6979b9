"""Observables as text, in problem files and on the command line."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode import cli
from gpnode.formats.problem_toml import read_problem

TABLE = "time,total\n" + "\n".join(f"{t},{10 * np.exp(-0.3 * t):.3f}" for t in range(9)) + "\n"
PROBLEM = """
[data]
file = "data.csv"
[model]
equations = ["da/dt = -k*a", "db/dt = k*a - m*b"]
[parameters]
k = "LogNormal(0, 1)"
m = 0.3
gain = "LogNormal(0, 1)"
[observables]
total = "{formula}"
[initial]
a = 4.0
b = 0.0
"""


def problem(folder, formula):
    (folder / "data.csv").write_text(TABLE)
    (folder / "problem.toml").write_text(PROBLEM.replace("{formula}", formula))
    return read_problem(folder / "problem.toml")


def test_a_formula_says_what_is_measured(tmp_path):
    read = problem(tmp_path, "gain*(a + b) + m")
    bound = gn.bind(read.model, read.data)
    assert bound.reading_block.names == ("gain",)
    assert bound.outputs == ("a", "b", "total")
    assert read.model.dynamics.numbers == ("k", "m")


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("gain*(a + c)", "uses 'c', which is neither a state nor in"),
        ("a + b", "'gain', which no equation uses"),
        ("gain*(a +", "cannot read the formula"),
    ],
)
def test_wrong_formulas_are_refused(tmp_path, formula, words):
    with pytest.raises(gn.ModelError, match=words):
        problem(tmp_path, formula)


def test_a_dictionary_may_be_seen_through_an_observable(tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    (tmp_path / "problem.toml").write_text(
        '[data]\nfile = "data.csv"\n[model]\nstates = ["x"]\n[observables]\ntotal = "2*x"\n[initial]\nx = 5.0\n'
    )
    read = read_problem(tmp_path / "problem.toml")
    assert gn.bind(read.model, read.data).outputs == ("x", "total")


@pytest.mark.slow
def test_the_command_line_takes_observables_and_starts(tmp_path, capsys):
    (tmp_path / "data.csv").write_text(TABLE)
    said = cli.run(
        [
            "fit", str(tmp_path / "data.csv"), "-q", "--method", "laplace", "-o", str(tmp_path / "fit"),
            "--equation", "da/dt = -k*a", "--observable", "total = gain*a", "--initial", "a=4",
            "--prior", "k=LogNormal(0, 1)", "--prior", "gain=LogNormal(0, 1)",
        ]
    )  # fmt: skip
    assert said in (0, 2, 3)
    assert "total = a*gain" in capsys.readouterr().out
