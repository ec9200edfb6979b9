"""Tables and problem files made by chance give a problem or a clear error, in little time and memory."""

from __future__ import annotations

import pytest

import gpnode as gn
from support.generated import PROBLEMS, TABLES, Case, as_toml, attempt, read_in_processes, read_many


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_that_are_whole_are_read(problem, tmp_path):
    """What the generators damage is sound to begin with."""
    assert attempt(Case(TABLES[0][0].encode(), as_toml(problem)), tmp_path) == "problem"


@pytest.mark.parametrize(("table", "reading"), TABLES)
def test_tables_that_are_whole_are_read(table, reading, tmp_path):
    problem = {"data": {"file": "data.csv", **reading}, "model": {"degree": 1}}
    assert attempt(Case(table.encode(), as_toml(problem)), tmp_path) == "problem"


def test_an_error_that_is_not_ours_is_seen(tmp_path, monkeypatch):
    """The check itself can fail: an error of another kind, and one without a message."""

    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr("support.generated.read_problem", broken)
    assert read_many(5, 0, tmp_path).failures
    monkeypatch.setattr("support.generated.read_problem", lambda *_: (_ for _ in ()).throw(gn.DataError("")))
    assert read_many(5, 0, tmp_path).failures


def test_generated_inputs_give_a_problem_or_a_clear_error(tmp_path):
    for count, bind in ((150, False), (4, True)):
        seen = read_many(count, 0, tmp_path, bind)
        assert seen.failures == []
        assert seen.count >= count
        assert {"problem", "DataError", "ModelError"} <= set(seen.outcomes)


@pytest.mark.slow
def test_ten_thousand_inputs_in_little_time_and_memory(tmp_path):
    found = read_in_processes(10_000, 0, tmp_path)  # a case that hangs ends its process, which raises here
    assert found.pop("failures") == []
    print(found)
    assert found["count"] >= 10_000
    assert found["peak_megabytes"] < 1000
