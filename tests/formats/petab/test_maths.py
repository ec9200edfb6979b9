"""Expressions of PEtab."""

from __future__ import annotations

import math

import pytest
import yaml

from gpnode.errors import GpnodeError
from gpnode.formats.formula import evaluate, names_in, scalar_function
from gpnode.formats.petab.maths import parse_expression
from support.petab import shared_petab


def test_all_expressions_of_the_suite_mean_what_they_should():
    cases = yaml.safe_load(shared_petab("test-suite/math_tests.yaml").read_text())["cases"]
    assert len(cases) == 98
    for case in cases:
        tree = parse_expression(case["expression"])
        if isinstance(case["expected"], str) and "*" in case["expected"]:
            assert names_in(tree) == {"a", "b"}
            continue
        expected = float(case["expected"])
        for found in (evaluate(tree, {}), scalar_function(tree)({})):
            assert float(found) == expected or math.isclose(float(found), expected, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-a^2", -9.0),
        ("2 - 3 - 4", -5.0),
        ("12 / 2 / 3", 2.0),
        ("a * -b", -6.0),
        ("2^-a", 0.125),
        ("1 - (b - a) * 2", 3.0),
        ("piecewise(1, a < b, 2)", 2.0),
        ("1e-2*a", 0.03),
    ],
)
def test_signs_bind_as_they_do_in_arithmetic(text, value):
    assert float(evaluate(parse_expression(text), {"a": 3.0, "b": 2.0})) == pytest.approx(value)


def test_sums_may_be_long():
    tree = parse_expression(" + ".join(["a"] * 2000))
    assert float(evaluate(tree, {"a": 1.0})) == 2000.0


@pytest.mark.parametrize(
    "text",
    ["", "a +", "(a", "a b", "sin()", "foo(1)", "__import__('os')", "a.b", "1 2", "a; b", "(" * 500, "-" * 500 + "a"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(GpnodeError):
        parse_expression(text)
