"""Measurements by name, every complaint, and what no input may break."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpnode as gn

GOOD = {"hare": ([0.0, 1.0, 2.0], [30.0, 47.2, 70.2])}


def test_mapping_keeps_each_variable_on_its_own_times():
    data = gn.Observations({"a": ([0, 1, 2], [1, np.nan, 3]), "b": ([0.5, 4.0], [2, 5])})
    assert data.variables == ("a", "b")
    assert data.of("a")[0].times.tolist() == [0.0, 2.0]
    assert data.size == 4
    assert data.start == {"0": 0.0}


def test_sort_on_request():
    data = gn.Observations({"a": ([2, 0, 1], [3, 1, 2])}, sort=True)
    assert data.of("a")[0].values.tolist() == [1, 2, 3]


BAD = {
    "unsorted": ({"hare": ([1902, 1904, 1903], [1, 2, 3])}, {}, ["'hare'", "1903 follows 1904", "row 3", "sort=True"]),
    "NaN time": ({"hare": ([0, np.nan, 2], [1, 2, 3])}, {}, ["'hare'", "row 2", "time"]),
    "infinite time": ({"hare": ([0, np.inf, 2], [1, 2, 3])}, {}, ["'hare'", "row 2"]),
    "infinite value": ({"hare": ([0, 1, 2], [1, np.inf, 3])}, {}, ["'hare'", "row 2", "infinite"]),
    "text value": ({"hare": ([0, 1, 2], [1, "many", 3])}, {}, ["'hare'", "row 2", "'many'", "not a number"]),
    "text time": ({"hare": ([0, "noon", 2], [1, 2, 3])}, {}, ["'hare'", "row 2", "'noon'"]),
    "all zero": ({"hare": ([0, 1, 2], [0, 0, 0])}, {}, ["'hare'", "zero", "Remove"]),
    "constant": ({"hare": ([0, 1, 2], [4, 4, 4])}, {}, ["'hare'", "constant", "4"]),
    "single": ({"hare": ([0], [4])}, {}, ["'hare'", "single observation"]),
    "all missing": ({"hare": ([0, 1], [np.nan, np.nan])}, {}, ["'hare'", "no observations"]),
    "nothing": ({}, {}, ["no observations"]),
    "lengths": ({"hare": ([0, 1, 2], [1, 2])}, {}, ["'hare'", "3 times but 2 values"]),
    "two-dimensional": ({"hare": ([[0, 1]], [[1, 2]])}, {}, ["'hare'", "one-dimensional"]),
    "not a pair": ({"hare": 3}, {}, ["'hare'", "pair"]),
    "dates without unit": ({"hare": (["2024-01-01", "2024-01-02"], [1, 2])}, {}, ["time_unit", "day"]),
    "start too late": (GOOD, {"start": 1.0}, ["start", "first measurement"]),
    "endless start": (GOOD, {"start": -np.inf}, ["start", "first measurement"]),
    "text start": (GOOD, {"start": "soon"}, ["start", "'soon'"]),
    "unknown experiment": (GOOD, {"start": {"x": 0.0}}, ["'x'"]),
    "huge value": ({"hare": ([0, 1], [2.0, 1e200])}, {}, ["'hare'", "row 2", "larger unit"]),
    "huge whole number": ({"hare": ([0, 1], [2, 10**400])}, {}, ["'hare'", "row 2"]),
    "huge whole time": ({"hare": ([0, 10**400], [2, 1])}, {}, ["'hare'", "row 2"]),
    "huge time": ({"hare": ([0, 1e200], [2.0, 1.0])}, {}, ["'hare'", "row 2", "larger unit"]),
    "tiny values": ({"hare": ([0, 1], [2e-200, 1e-200])}, {}, ["'hare'", "smaller unit"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_variable_row_and_remedy(case):
    measurements, options, words = BAD[case]
    with pytest.raises(gn.DataError) as error:
        gn.Observations(measurements, **options)
    for word in words:
        assert word in str(error.value)


def test_zero_span():
    runs = {"a": {"x": ([1.0, 2.0], [1.0, 2.0])}, "b": {"x": ([3.0], [4.0])}}
    with pytest.raises(gn.DataError, match="'b' spans no time"):
        gn.Observations.from_experiments(runs)


finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(
    times=hnp.arrays(float, st.integers(2, 30), elements=st.floats(-1e4, 1e4, width=32), unique=True),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_order_gives_the_same_series(times, data):
    values = data.draw(hnp.arrays(float, times.size, elements=st.floats(-1e4, 1e4, width=32), unique=True))
    shuffled = np.asarray(data.draw(st.permutations(range(times.size))))
    one = gn.Observations({"x": (times, values)}, sort=True)
    two = gn.Observations({"x": (times[shuffled], values[shuffled])}, sort=True)
    assert np.array_equal(one.series[0].times, two.series[0].times)
    assert np.array_equal(one.series[0].values, two.series[0].values)
    assert np.all(np.diff(one.series[0].times) > 0)


@given(
    column=st.lists(st.one_of(finite, st.none(), st.text(max_size=4), st.just(np.inf), st.booleans()), max_size=8),
    times=st.lists(st.one_of(finite, st.none(), st.text(max_size=4)), max_size=8),
)
@settings(max_examples=200, deadline=None)
def test_anything_else_is_one_clear_error(column, times):
    try:
        data = gn.Observations({"x": (times, column)})
    except gn.DataError as error:
        assert len(str(error)) > 20
    else:
        assert np.isfinite(data.values_of("x")).all()
        assert data.size >= 2
