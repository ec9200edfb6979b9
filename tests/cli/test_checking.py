"""What is odd about data is said."""

from __future__ import annotations

import numpy as np

import gpnode as gn
from gpnode.cli.checking import data_remarks


def test_remarks_say_what_is_odd():
    data = gn.Observations(
        {
            "a": (np.array([0.0, 1, 2, 3, 30, 31, 32]), np.array([1.0, 2, 2, 2, 2, 5, 6])),
            "b": (np.arange(10.0), 1e6 + np.arange(10.0)),
        }
    )
    text = " ".join(data_remarks(data))
    for piece in ("only 7", "gap from 3 to 30", "hardly changes", "repeats the value", "more than 10,000"):
        assert piece in text
    assert data_remarks(gn.Observations({"a": (np.arange(12.0), np.sin(np.arange(12.0)))})) == []
