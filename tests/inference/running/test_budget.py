"""Fits that may take so much time and no more."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode.inference.running import budget
from gpnode.inference.running.budget import read_budget
from support.small_problems import linear_data, linear_model


@pytest.mark.parametrize(
    ("text", "seconds"), [("90 s", 90.0), ("5 min", 300.0), ("5m", 300.0), ("0.5h", 1800.0), (12, 12.0), (None, None)]
)
def test_budgets_as_people_write_them(text, seconds):
    assert read_budget(text) == seconds


@pytest.mark.parametrize("text", ["soon", "5 parsecs", "-3 s", "0", "", "1.2.3 s"])
def test_other_texts_are_no_budget(text):
    with pytest.raises(ValueError, match="a budget is a time"):
        read_budget(text)


class Ticking:
    """A clock that moves on by a second each time somebody looks."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now


def test_a_budget_is_spent_when_its_time_is_over(monkeypatch):
    monkeypatch.setattr(budget, "time", Ticking())
    allowed = budget.Budget(2.5)
    assert [allowed.is_spent for _ in range(4)] == [False, False, True, True]
    assert not budget.Budget().is_spent


METHOD = gn.Lifted(warmup=100, draws=20000, chains=2)


def fitted(budget):
    return gn.fit(linear_model(), linear_data(), method=METHOD, budget=budget, progress=False)


@pytest.mark.slow
def test_a_budget_that_is_spent_before_the_first_draw_leaves_the_approximation(monkeypatch):
    monkeypatch.setattr(budget, "time", Ticking())
    found = fitted(1)
    assert not found.is_sample
    assert found.record.out_of_time
    assert "the budget of 1 s ended the run, with no draw" in str(found.diagnose())


@pytest.mark.slow
def test_a_budget_that_is_spent_later_leaves_the_draws_so_far(monkeypatch):
    monkeypatch.setattr(budget, "time", Ticking())
    found = fitted(30)
    assert found.is_sample
    assert found.record.out_of_time
    assert 0 < max(found.record.draws_made) < 20000
    assert "the budget of 30 s ended the run" in str(found.diagnose())
