"""Tables of what is done, made by chance, are read as a second reader reads them, or refused by a clear error."""

from __future__ import annotations

import dataclasses

import pytest

from gpnode.data import protocols
from support.generated_protocols import read_many


def test_generated_tables_give_what_they_say_or_a_clear_error(tmp_path):
    seen = read_many(200, 0, tmp_path)
    assert not seen.failures, seen.failures[0]
    assert {"read", "refused", "section read", "section refused"} <= set(seen.outcomes)


@pytest.mark.slow
def test_five_thousand_tables(tmp_path):
    seen = read_many(5000, 1, tmp_path)
    print(seen.outcomes)
    assert not seen.failures, "\n\n".join(seen.failures[:5])
    # What is clear and refused all the same is rare: the check would be empty if all were.
    assert seen.outcomes["read"] > 1500
    assert seen.outcomes["refused, though clear"] < 100


def count_for_additional(right):
    """ADDL taken for how often a dose is given in all."""

    def misread(table, row, numbers, state):
        dose = right(table, row, numbers, state)
        return dataclasses.replace(dose, count=max(1, dose.count - (numbers["additional"] is not None)))

    return misread


def rate_for_duration(right):
    def misread(table, row, numbers, state):
        return right(table, row, {**numbers, "duration": numbers["rate"] or numbers["duration"], "rate": None}, state)

    return misread


def skipped(right):
    """Doses of a table's last row."""

    def misread(table, row, numbers, state):
        dose = right(table, row, numbers, state)
        return dataclasses.replace(dose, amount=1e-9) if row == len(table.rows) - 1 else dose

    return misread


@pytest.mark.parametrize("mistake", [count_for_additional, rate_for_duration, skipped])
def test_planted_misreadings_are_caught(mistake, tmp_path, monkeypatch):
    monkeypatch.setattr(protocols, "_dose", mistake(protocols._dose))
    assert read_many(200, 0, tmp_path).failures


def test_an_error_that_is_not_ours_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr("gpnode.data.protocols._conditions", lambda *_: {}["x"])
    assert any("KeyError" in failure for failure in read_many(100, 0, tmp_path).failures)
