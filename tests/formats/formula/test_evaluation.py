"""What formulas mean: in arrays, in plain numbers, in native code, and differentiated."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import gpnode as gn
from gpnode.formats.formula import Call, Name, Number, evaluate, parse, replace_names, scalar_function
from gpnode.formats.formula.operations import OPERATIONS
from gpnode.formats.formula.scalars import SCALARS
from gpnode.tracing.code import Tape
from gpnode.tracing.interpreter import known_elements, run

POINTS = (-3.0, -1.0, -0.5, 0.0, 0.3, 1.0, 2.0, 4.5)
KNOWN = {
    "arcsec": sympy.asec,
    "arccsc": sympy.acsc,
    "arccot": sympy.acot,
    "arcsech": sympy.asech,
    "arccsch": sympy.acsch,
    "arccoth": sympy.acoth,
    "sec": sympy.sec,
    "csc": sympy.csc,
    "cot": sympy.cot,
    "sech": sympy.sech,
    "csch": sympy.csch,
    "coth": sympy.coth,
    "factorial": sympy.factorial,
    "root": sympy.sqrt,
}


def same(a, b):
    return np.allclose(float(a), float(b), rtol=1e-12, atol=1e-12, equal_nan=True)


def test_both_evaluators_know_the_same_operations():
    assert set(SCALARS) | {"piecewise"} == set(OPERATIONS)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"piecewise", "true", "false"}))
def test_arrays_and_numbers_agree(name):
    count = max(OPERATIONS[name].least, 1)
    tree = Call(name, tuple(Name(n) for n in "ab"[:count]))
    number = scalar_function(tree)
    for a in POINTS:
        for b in POINTS if count == 2 else (0.0,):
            values = {"a": a, "b": b}
            arrays = evaluate(tree, {n: jnp.asarray(v) for n, v in values.items()})
            if name == "factorial" and a < 0:
                continue  # poles
            assert same(arrays, number(values)), (a, b)
            assert same(evaluate(tree, values, guarded=True), arrays)


@pytest.mark.parametrize("name", KNOWN)
def test_rarer_functions_are_what_their_names_say(name):
    for x in (0.4, 1.7):
        want = complex(KNOWN[name](sympy.Float(x, 30)))
        got = scalar_function(Call(name, (Number(x),)))({})
        assert math.isnan(got) if abs(want.imag) > 1e-12 else got == pytest.approx(want.real, rel=1e-12)


def test_logic_and_choices():
    def of(text, **values):
        tree = parse(text).tree
        assert same(evaluate(tree, values), scalar_function(tree)(values))
        return float(evaluate(tree, values))

    assert of("piecewise(1, x < 1, 2, x < 2 and not x == 1.5, 3)", x=0.0) == 1
    assert of("piecewise(1, x < 1, 2, x < 2 and not x == 1.5, 3)", x=1.0) == 2
    assert of("piecewise(1, x < 1, 2, x < 2 and not x == 1.5, 3)", x=1.5) == 3
    assert of("piecewise(1, 0 < x <= 1, 0)", x=1.0) == 1
    assert of("piecewise(1, xor(x > 0, x > 1, x > 2), 0)", x=3.0) == 1
    assert of("piecewise(1, implies(x > 0, x > 1), 0)", x=0.5) == 0
    assert of("2 + (x > 1)", x=3.0) == 3
    assert of("piecewise(5, x, 6)", x=2.0) == 5
    assert math.isnan(of("piecewise(1, x > 0)", x=-1.0))
    assert of("log(2, 8) + quotient(-7, 2) + rem(-7, 2)") == pytest.approx(3 - 3 - 1)


@pytest.mark.parametrize(
    "text",
    ["log(x)", "sqrt(x)", "1/x", "x**0.5", "x**-2", "arcsin(x + 2)", "arccosh(x - 3)", "exp(1/x)", "log(2, x)"],
)
def test_branches_that_do_not_count_leave_derivatives_alone(text):
    tree = parse(f"piecewise({text}, x > 4, 3*x)").tree
    for x in (0.0, -1.0, 1.0):
        for derivative in (jax.grad, jax.jacfwd):
            assert float(derivative(lambda x: evaluate(tree, {"x": x}))(x)) == 3.0
    inside = jax.grad(lambda x: evaluate(parse("piecewise(log(x)/x, x > 1, 0)").tree, {"x": x}))(2.0)
    assert float(inside) == pytest.approx((1 - math.log(2)) / 4)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"piecewise", "true", "false", "factorial"}))
def test_they_can_be_written_as_scalar_code(name):
    """So that vector fields with them run in native code."""
    count = max(OPERATIONS[name].least, 1)
    tree = Call("piecewise", (Call(name, tuple(Name(n) for n in "ab"[:count])), parse("(a < b) + 0").tree, Name("a")))

    def value(a, b):
        return jnp.asarray(evaluate(tree, {"a": a, "b": b}), dtype=float)

    for function in (value, jax.grad(value)):
        traced = jax.make_jaxpr(function)(0.5, 0.7)
        tape = Tape()
        inputs = [np.full((), tape.let(n), dtype=object) for n in ("a", "b")]
        run(traced.jaxpr, [known_elements(c) for c in traced.consts], tape, inputs)


def test_names_are_replaced_by_trees():
    tree = replace_names(parse("f*f + x").tree, {"f": parse("x + 1").tree})
    assert scalar_function(tree)({"x": 2.0}) == 11.0


def test_trees_are_bounded():
    tree = long = parse("x + x").tree
    for _ in range(12):
        long = replace_names(tree, {"x": long})
    with pytest.raises(gn.ModelError, match="too long or too deeply"):
        replace_names(tree, {"x": replace_names(tree, {"x": long})})
    with pytest.raises(gn.ModelError, match="no function 'system'"):
        Call("system", (Number(1.0),))
    with pytest.raises(gn.ModelError, match=r"takes 2 argument"):
        Call("divide", (Number(1.0),))
