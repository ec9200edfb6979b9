"""What is kept beside a fit: said again as long as it is true, and worked out anew when anything has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from gpnode import cli

_ASK = """
import sys
from gpnode import cli
for command in (["diagnose", sys.argv[1]], ["export", sys.argv[1], "--latex"], ["report", sys.argv[1]]):
    assert cli.run(command) == 0
loaded = {"jax", "pandas", "matplotlib", "sympy", "numba"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.fixture
def run(place, tmp_path):
    shutil.copytree(place / "lynx-hare" / "fit", tmp_path / "fit")
    return tmp_path / "fit"


def test_what_a_fit_has_said_needs_nothing_but_reading(run):
    page = (run / "report.html").read_text()
    (run / "report.html").unlink()
    done = subprocess.run([sys.executable, "-c", _ASK, str(run)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\\frac" in done.stdout
    assert (run / "report.html").read_text() == page


def test_kept_answers_are_those_that_are_worked_out(run, capsys):
    said = {}
    for anew in (False, True):
        if anew:
            shutil.rmtree(run / "answers")
        for command in (["diagnose"], ["diagnose", "--json"], ["export", "--python"], ["export", "--sympy"]):
            assert cli.run([command[0], str(run), *command[1:]]) == 0
            said.setdefault(tuple(command), []).append(capsys.readouterr().out)
    assert all(first == second != "" for first, second in said.values())
    assert (run / "answers" / "verdict.json").is_file()


def test_answers_about_something_else_are_not_given(run, capsys):
    kept = run / "answers" / "equations.sympy"
    made_from, _, _ = kept.read_text().partition("\n")
    kept.write_text(f"{made_from}\nthe answer that was kept\n")
    assert cli.run(["export", str(run), "--sympy"]) == 0
    assert capsys.readouterr().out == "the answer that was kept\n"
    with (run / "problem.toml").open("a") as problem:
        problem.write("# another problem, for all one can tell\n")
    assert cli.run(["export", str(run), "--sympy"]) == 0
    assert "hare" in capsys.readouterr().out
