"""Tables, files and dates become measurements."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnode as gn


def test_wide_table_with_gaps():
    table = pd.DataFrame({"t": [0, 1, 2, 3], "a": [1.0, np.nan, 3.0, 4.0], "b": [np.nan, 2.0, np.nan, 5.0]})
    data = gn.Observations.from_wide(table, time="t")
    assert data.of("a")[0].times.tolist() == [0, 2, 3]
    assert data.of("b")[0].values.tolist() == [2.0, 5.0]


def test_long_table_with_experiments():
    table = pd.DataFrame(
        {
            "time": [0, 1, 0, 2, 1],
            "variable": ["a", "a", "a", "a", "b"],
            "value": [1.0, 2.0, 3.0, 4.0, 9.0],
            "run": ["one", "one", "two", "two", "two"],
        }
    )
    table = pd.concat([table, pd.DataFrame({"time": [3], "variable": ["b"], "value": [8.0], "run": ["two"]})])
    data = gn.Observations.from_long(table, experiment="run")
    assert data.experiments == ("one", "two")
    assert [s.experiment for s in data.of("b")] == ["two"]
    assert data.start == {"one": 0.0, "two": 0.0}


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_csv_equals_table(tmp_path, layout):
    wide = pd.DataFrame({"year": [1900, 1901, 1902], "hare": [30, 47.2, 70.2], "lynx": [4, None, 9.8]})
    path = tmp_path / "pelts.csv"
    if layout == "wide":
        wide.to_csv(path, index=False)
        data = gn.Observations.from_csv(path, time="year")
    else:
        wide.melt("year", var_name="species", value_name="pelts").to_csv(path, index=False)
        data = gn.Observations.from_csv(path, time="year", variable="species", value="pelts")
    assert data.of("lynx")[0].times.tolist() == [1900, 1902]
    assert data.of("hare")[0].values.tolist() == [30, 47.2, 70.2]


def test_dates_become_elapsed_time():
    times = ["2024-01-01", "2024-01-02 12:00", "2024-01-08"]
    data = gn.Observations({"a": (times, [1, 2, 3])}, time_unit="day")
    assert data.of("a")[0].times.tolist() == [0.0, 1.5, 7.0]
    assert data.time_unit == "day"


def test_dates_with_offsets_share_one_clock():
    times = ["2024-03-30T12:00+01:00", "2024-03-31T12:00+02:00"]  # summer time begins in between
    data = gn.Observations({"a": (times, [1, 2]), "b": (pd.to_datetime(times, utc=True), [3, 4])}, time_unit="hour")
    assert data.of("a")[0].times.tolist() == data.of("b")[0].times.tolist() == [0.0, 23.0]


def test_start_may_be_a_date():
    data = gn.Observations({"a": (["2024-01-02", "2024-01-03"], [1, 2])}, time_unit="day", start="2024-01-01")
    assert data.start == {"0": -1.0}


def test_numbered_experiments():
    table = pd.DataFrame({"t": [0, 1, 0, 1], "x": [1.0, 2.0, 3.0, 5.0], "run": [1, 1, 2, 2]})
    data = gn.Observations.from_wide(table, time="t", experiment="run", start={1: -1.0})
    assert data.start == {"1": -1.0, "2": 0.0}


def test_rows_are_those_of_the_table():
    table = pd.DataFrame({"time": [0, 1, 0, 1], "x": [1, 2, 3, "bad"], "run": ["a", "a", "b", "b"]})
    with pytest.raises(gn.DataError, match="row 4"):
        gn.Observations.from_wide(table, time="time", experiment="run")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda t: gn.Observations.from_wide(t, time="when"), "'when'"),
        (lambda t: gn.Observations.from_wide(t, time="time", variables=["fox"]), "'fox'"),
        (lambda t: gn.Observations.from_wide(t[["time"]], time="time"), "no column besides"),
        (lambda t: gn.Observations.from_wide(t.iloc[:0], time="time"), "no rows"),
        (lambda t: gn.Observations.from_long(t, time="time"), "'variable'"),
    ],
)
def test_bad_tables(call, word):
    with pytest.raises(gn.DataError, match=word):
        call(pd.DataFrame({"time": [0, 1], "hare": [1.0, 2.0]}))


def test_csv_that_is_not_one(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("")
    with pytest.raises(gn.DataError, match="is empty"):
        gn.Observations.from_csv(path)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_long_and_back(seed):
    rng = np.random.default_rng(seed)
    runs = {
        r: {v: (np.sort(rng.uniform(0, 9, n := rng.integers(2, 6))), rng.normal(size=n)) for v in ("a", "b")}
        for r in ("p", "q")
    }
    data = gn.Observations.from_experiments(runs)
    again = gn.Observations.from_long(data.to_long(), experiment="experiment")
    assert [(s.variable, s.experiment) for s in data.series] == [(s.variable, s.experiment) for s in again.series]
    assert all(np.array_equal(s.values, r.values) for s, r in zip(data.series, again.series, strict=True))
