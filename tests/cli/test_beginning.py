"""``gpnode init``: a problem file from a table."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode import cli
from gpnode.formats.problem_toml import read_problem


@pytest.fixture
def table(tmp_path):
    t = np.arange(8)
    rows = [f"{i};{2.0 - 0.1 * i:.2f}".replace(".", ",") for i in t]
    file = tmp_path / "growth.csv"
    file.write_text("\n".join(["Time (h);OD (600 nm)", *rows]))
    return file


def test_a_table_becomes_a_problem_that_can_be_read(table, capsys):
    assert cli.run(["init", str(table), "--yes", "--degree", "2"]) == 0
    said = capsys.readouterr().out
    assert "gpnode check" in said
    assert "'OD (600 nm)' is called OD" in said
    problem = read_problem(table.parent / "problem.toml")
    assert problem.data.variables == ("OD",)
    assert problem.data.time_unit == "hour"
    assert problem.data.values_of("OD")[1] == 1.9
    assert "decimal commas" in (table.parent / "problem.toml").read_text()


def test_known_equations_get_a_prior_for_each_unknown(table):
    line = "dOD/dt = r*OD*(1 - OD/K)"
    assert cli.run(["init", str(table), "--yes", "--equation", line, "-o", str(table.parent / "known.toml")]) == 0
    text = (table.parent / "known.toml").read_text()
    assert 'r = "LogNormal(0, 1)"' in text
    assert 'K = "LogNormal(0, 1)"' in text
    read_problem(table.parent / "known.toml")


def test_questions_are_asked_of_a_person(table, monkeypatch, capsys):
    answers = iter(["", "2", "y"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert cli.run(["init", str(table)]) == 0
    text = (table.parent / "problem.toml").read_text()
    assert "degree = 2" in text
    assert 'kind = "log"' in text


def test_what_is_there_is_not_overwritten(table, capsys):
    (table.parent / "problem.toml").write_text("mine")
    assert cli.run(["init", str(table), "--yes"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert (table.parent / "problem.toml").read_text() == "mine"
