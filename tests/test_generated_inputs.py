"""Tables and problem files made by chance give a problem or a clear error, in little time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gpnode as gn
from generated import PROBLEMS, TABLES, Case, _as_toml, attempt, read_many


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_that_are_whole_are_read(problem, tmp_path):
    """What the generators damage is sound to begin with."""
    assert attempt(Case(TABLES[0][0].encode(), _as_toml(problem)), tmp_path) == "problem"


@pytest.mark.parametrize(("table", "reading"), TABLES)
def test_tables_that_are_whole_are_read(table, reading, tmp_path):
    problem = {"data": {"file": "data.csv", **reading}, "model": {"degree": 1}}
    assert attempt(Case(table.encode(), _as_toml(problem)), tmp_path) == "problem"


def test_an_error_that_is_not_ours_is_seen(tmp_path, monkeypatch):
    """The check itself can fail: an error of another kind, and one without a message."""

    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr("generated.read_problem", broken)
    assert read_many(5, 0, tmp_path).failures
    monkeypatch.setattr("generated.read_problem", lambda *_: (_ for _ in ()).throw(gn.DataError("")))
    assert read_many(5, 0, tmp_path).failures


def test_generated_inputs_give_a_problem_or_a_clear_error(tmp_path):
    for count, bind in ((300, False), (40, True)):
        seen = read_many(count, 0, tmp_path, bind)
        assert seen.failures == []
        assert seen.count >= count
        assert {"problem", "DataError", "ModelError"} <= set(seen.outcomes)


@pytest.mark.slow
def test_ten_thousand_inputs_in_little_time_and_memory():
    """In a process of its own, so that its memory is that of reading."""
    script = Path(__file__).with_name("generated.py")
    done = subprocess.run([sys.executable, script, "--count", "10000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]  # a case that hangs ends the process
    found = json.loads(done.stdout)
    print(found)
    assert found["failures"] == 0, done.stderr[-3000:]
    assert found["count"] >= 10_000
    assert found["peak_megabytes"] < 1000
