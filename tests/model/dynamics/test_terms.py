"""Terms of a library: their order and their size."""

from __future__ import annotations

import gpnode as gn


def test_polynomial_order_is_the_paper_s():
    names = [t.name for t in gn.polynomial(3, cross=2, constant=False).terms(["x1", "x2"])]
    assert names == ["x1", "x2", "x1*x2", "x1^2", "x2^2", "x1^3", "x2^3"]
    names = [t.name for t in gn.polynomial(2).terms(["a", "b", "c"])]
    assert names == ["1", "a", "b", "c", "a*b", "a*c", "b*c", "a^2", "b^2", "c^2"]
    assert [t.name for t in gn.polynomial(2, cross=0).terms(["a", "b"])] == ["1", "a", "b", "a^2", "b^2"]


def test_custom_terms_are_scaled_by_their_typical_size():
    term = gn.term("hump", lambda x: x.x * (1 - x.x / 50.0)).terms(["x"])[0]
    assert 8.0 < term.magnitude({"x": 50.1}) < 10.0  # its peak is 12.5; at x = 50.1 it is -0.1
