"""What SBML files mean, against paths that are known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpnode as gn

pytest.importorskip("libsbml", reason="needs python-libsbml")

from gpnode.formats.sbml.reading import read_system
from gpnode.formats.sbml.simulation import Simulation
from support import sbml

TIMES = np.linspace(0.0, 5.0, 51)
C = sbml.compartment("c", 2.0)


def simulate(folder, *parts, times=TIMES, numbers=None, **more):
    return Simulation().run(read_system(sbml.write(folder, *parts, **more)), times, numbers)


def decay(**more):
    return [
        sbml.compartment("c", 4.0),
        sbml.species("A", initialConcentration=3, **more),
        sbml.species("B", initialAmount=0, amounts="true"),
        sbml.parameter("k", 0.5),
        sbml.reaction("R", "k*A*c", {"A": 1}, {"B": 2}),
    ]


def test_concentrations_and_amounts(tmp_path):
    found = simulate(tmp_path, *decay())
    assert np.allclose(found["A"], 3 * np.exp(-0.5 * TIMES), rtol=1e-6)
    assert np.allclose(found["B"], 2 * 4 * (3 - found["A"]), rtol=1e-6, atol=1e-9)
    assert np.allclose(found["R"], 0.5 * 4 * found["A"])
    other = simulate(tmp_path, *decay(), numbers={"k": 1.0, "c": 2.0})
    assert np.allclose(other["A"], 3 * np.exp(-TIMES), rtol=1e-6)
    with pytest.raises(gn.SbmlError, match="'q' is not a number"):
        simulate(tmp_path, *decay(), numbers={"q": 1.0})


def test_boundary_and_constant_species_stay(tmp_path):
    for more in ({"boundary": "true"}, {"constant": "true", "boundary": "true"}):
        found = simulate(tmp_path, *decay(**more))
        assert (found["A"] == 3).all()
        assert np.allclose(found["B"], 2 * 0.5 * 12 * TIMES)


def test_growing_compartments_dilute(tmp_path):
    parts = [
        sbml.compartment("c", 2.0, constant="false"),
        sbml.species("A", initialAmount=6),
        sbml.species("X", initialConcentration=1),
        sbml.parameter("k", 0.3),
        sbml.parameter("seen", constant="false"),
        sbml.rule("rate", "c", "1"),
        sbml.rule("assignment", "seen", "rateOf(X)"),
        sbml.reaction("R", "k*A*c", {"A": 1}),
        sbml.reaction("S", "0", {"X": 1}),
    ]
    found = simulate(tmp_path, *parts)
    assert np.allclose(found["A"] * found["c"], 6 * np.exp(-0.3 * TIMES), rtol=1e-6)
    assert np.allclose(found["X"], 2 / (2 + TIMES), rtol=1e-6)
    assert np.allclose(found["seen"], -2 / (2 + TIMES) ** 2, rtol=1e-5)


def test_initial_assignments_use_what_other_things_begin_with(tmp_path):
    parts = [
        C,
        sbml.species("A", initialConcentration=1),
        sbml.parameter("a"),
        sbml.parameter("b", 3),
        sbml.parameter("y", constant="false"),
        sbml.initial("A", "a + y"),
        sbml.initial("a", "b^2"),
        sbml.rule("assignment", "y", "b*(1 + time)"),
        sbml.reaction("R", "c*1", {}, {"A": 1}),
    ]
    found = simulate(tmp_path, *parts)
    assert np.allclose(found["A"], 9 + 3 + TIMES)
    assert np.allclose(found["a"], 9)
    assert np.allclose(simulate(tmp_path, *parts, numbers={"b": 1.0})["A"], 1 + 1 + TIMES)


def test_algebraic_rules_are_solved(tmp_path):
    parts = [
        C,
        sbml.parameter("k", 2),
        *(sbml.parameter(n, 1, constant="false") for n in "xyz"),
        sbml.rule("rate", "x", "-x"),
        sbml.rule("algebraic", "", "x + 2*y - z"),
        sbml.rule("algebraic", "", "z/k + y - 3"),
    ]
    found = simulate(tmp_path, *parts)
    y = (3 - np.exp(-TIMES) / 2) / 2
    assert np.allclose(found["y"], y, rtol=1e-6)
    assert np.allclose(found["z"], np.exp(-TIMES) + 2 * y, rtol=1e-6)
    with pytest.raises(gn.SbmlError, match="algebraic rule cannot be solved"):
        simulate(tmp_path, C, sbml.parameter("x", 1, constant="false"), sbml.rule("algebraic", "", "exp(x) - 2"))


def test_functions_are_written_out(tmp_path):
    parts = [
        sbml.function("f", "lambda(x, y, x - 2*y)"),
        sbml.function("g", "lambda(y, f(y, 1)^2)"),
        sbml.parameter("p", constant="false"),
        sbml.rule("assignment", "p", "g(time)"),
    ]
    assert np.allclose(simulate(tmp_path, *parts)["p"], (TIMES - 2) ** 2)


def test_stoichiometry_and_factors(tmp_path):
    law = sbml.math("1")
    reaction = (
        "reaction",
        '<reaction id="R" reversible="false"><listOfProducts>'
        '<speciesReference id="n" species="A" constant="false" stoichiometry="1"/></listOfProducts>'
        f"<kineticLaw>{law}</kineticLaw></reaction>",
    )
    parts = [
        C,
        sbml.species("A", initialAmount=0, conversionFactor="f"),
        sbml.parameter("f", 10),
        sbml.rule("rate", "n", "1"),
        reaction,
    ]
    assert np.allclose(simulate(tmp_path, *parts)["A"], 10 * (TIMES + TIMES**2 / 2) / 2, rtol=1e-6)


# -- events --------------------------------------------------------------------------------


def counter(*events, **more):
    """``x`` runs like time; ``n`` and ``m`` only change by events."""
    return [
        sbml.parameter("x", 0, constant="false"),
        sbml.parameter("n", 0, constant="false"),
        sbml.parameter("m", 0, constant="false"),
        sbml.rule("rate", "x", "1"),
        *events,
    ]


def test_events_happen_where_their_trigger_turns_true(tmp_path):
    saw = counter(sbml.event("E", "x > 1.234", {"x": "0", "n": "n + 1"}))
    found = simulate(tmp_path, *saw)
    assert np.allclose(found["x"], TIMES % 1.234, atol=1e-8)
    assert (found["n"] == TIMES // 1.234).all()


def test_values_at_the_time_of_an_event(tmp_path):
    """Those at a time that a trigger includes are what comes after it, else what comes before."""
    including, excluding = (counter(sbml.event("E", f"time {sign} 2", {"n": "1"})) for sign in (">=", ">"))
    assert simulate(tmp_path, *including, times=[0, 2, 3])["n"].tolist() == [0, 1, 1]
    assert simulate(tmp_path, *excluding, times=[0, 2, 3])["n"].tolist() == [0, 0, 1]
    beginning = counter(sbml.event("E", "time >= 0", {"n": "1"}, before="false"))
    assert simulate(tmp_path, *beginning)["n"][0] == 1
    not_at_first = counter(sbml.event("E", "time >= 0", {"n": "1"}))
    assert (simulate(tmp_path, *not_at_first)["n"] == 0).all()
    momentary = counter(sbml.event("E", "time == 2", {"n": "n + 1"}))
    assert simulate(tmp_path, *momentary, times=[0, 2, 3])["n"].tolist() == [0, 1, 1]


def test_delays_and_the_values_they_use(tmp_path):
    early = counter(sbml.event("E", "x > 1", {"n": "x"}, delay="2"))
    late = counter(sbml.event("E", "x > 1", {"n": "x"}, delay="2", at_trigger="false"))
    times = [0, 2.9, 3.1, 5]
    assert np.allclose(simulate(tmp_path, *early, times=times)["n"], [0, 0, 1, 1])
    assert np.allclose(simulate(tmp_path, *late, times=times)["n"], [0, 0, 3, 3])


def test_rounding_does_not_order_what_happens_at_once(tmp_path):
    first = sbml.event("A", "time >= 0.3", {"n": "n*2 + 1"}, priority="1", at_trigger="false")
    second = sbml.event("B", "time >= 0.1", {"n": "n + 10"}, delay="0.2", priority="2", at_trigger="false")
    assert simulate(tmp_path, *counter(first, second), times=[0, 0.3])["n"][-1] == 21
    late = sbml.event("B", "time >= 0.1", {"n": "1"}, delay="0.2")
    assert simulate(tmp_path, *counter(late), times=[0, 0.3])["n"].tolist() == [0, 1]


def test_what_is_not_persistent_is_dropped(tmp_path):
    for persistent, want in (("true", 1), ("false", 0)):
        parts = counter(sbml.event("E", "x > 1 && x < 2", {"n": "1"}, delay="1.5", persistent=persistent))
        assert simulate(tmp_path, *parts)["n"][-1] == want


def test_priorities_order_what_happens_at_once(tmp_path):
    first = sbml.event("A", "x > 1", {"n": "n*2 + 1"}, priority="1", at_trigger="false")
    second = sbml.event("B", "x > 1", {"n": "n + 10"}, priority="2", at_trigger="false")
    assert simulate(tmp_path, *counter(first, second))["n"][-1] == 21


def test_events_trigger_events(tmp_path):
    first = sbml.event("A", "x > 1", {"n": "5"})
    second = sbml.event("B", "n > 4", {"m": "n + 1"}, delay="0.5")
    found = simulate(tmp_path, *counter(first, second), times=[0, 1.4, 1.6])
    assert found["m"].tolist() == [0, 0, 6]


def test_amounts_stay_when_an_event_changes_their_compartment(tmp_path):
    parts = [
        sbml.compartment("c", 2.0, constant="false"),
        sbml.species("A", initialConcentration=3),
        sbml.species("B", initialConcentration=3),
        sbml.species("D", initialConcentration=3),
        sbml.rule("rate", "D", "1"),
        sbml.event("E", "time > 1", {"c": "4", "B": "7"}),
    ]
    found = simulate(tmp_path, *parts, times=[0, 1.5, 2])
    assert np.allclose(found["A"], [3, 1.5, 1.5])
    assert np.allclose(found["B"], [3, 3.5, 3.5])  # 7 in what the compartment was
    assert np.allclose(found["D"], [3, 2.5, 3.0])


def test_pieces_begin_where_they_say(tmp_path):
    parts = [
        sbml.parameter("x", 0, constant="false"),
        sbml.rule("rate", "x", "piecewise(1000, time > 1 && time < 1.001, 0)"),
    ]
    assert np.allclose(simulate(tmp_path, *parts)["x"], np.where(TIMES > 1.0005, 1.0, 0.0), rtol=1e-6)


# -- what cannot be ------------------------------------------------------------------------


def x_follows(formula, **more):
    return [sbml.parameter("x", constant="false"), sbml.rule("assignment", "x", formula)]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (x_follows("x + 1"), "in a circle: 'x' -> 'x'"),
        ([*x_follows("y"), sbml.parameter("y", constant="false"), sbml.rule("assignment", "y", "x")], "in a circle"),
        ([sbml.function("f", "lambda(x, f(x))"), *x_follows("f(1)")], "functions call each other in a circle: f -> f"),
        (x_follows("delay(time, 1)"), "values of the past"),
        (x_follows("nobody"), "uses 'nobody', which the file does not define"),
        (x_follows("f(1)"), "no function 'f'"),
        ([*x_follows("1"), sbml.rule("rate", "x", "1")], "two rules for 'x'"),
        ([*x_follows("1"), sbml.parameter("x", 2)], "two things in the file are called 'x'"),
        ([sbml.parameter("", 2)], "is not valid SBML"),
        ([sbml.parameter("x", 2), sbml.initial("x", "1"), sbml.initial("x", "2")], "two initial assignments for 'x'"),
        ([C, sbml.species("A", initialAmount=1, initialConcentration=1)], "both an initial amount and"),
        (
            [*(sbml.function(f"f{i}", f"lambda(x, f{i + 1}(x))") for i in range(999)), *x_follows("f0(1)")],
            "functions within functions|no function 'f999'",
        ),
        ([sbml.rule("rate", "q", "1")], "'q', which is no compartment"),
        ([sbml.species("A", within="q")], "in 'q', which is no compartment"),
        ([*x_follows("1"), sbml.event("E", "time > 1", {"x": "1"})], "an event changes 'x', which an assignment rule"),
        ([sbml.parameter("x", 1, constant="false"), sbml.rule("rate", "x", "x^2")], "(at|beyond) time 1"),
        ([sbml.parameter("x", constant="false"), sbml.rule("rate", "x", "x^2")], "'x' is no finite number at time 0"),
        (
            [sbml.parameter("x", 0, constant="false"), sbml.event("E", "x == x", {"x": "1 - x"}, before="false"),
             sbml.event("F", "x > 0", {"x": "0"}), sbml.event("G", "x < 1", {"x": "1"}, before="false")],
            "without end",
        ),
        ([sbml.parameter("x", 0, constant="false"), sbml.event("E", "time>1", {"x": "1"}, delay="-1")], "the delay of"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(tmp_path, parts, message):
    with pytest.raises(gn.SbmlError, match=message):
        simulate(tmp_path, *parts)


def test_times_are_checked(tmp_path):
    for times in ([], [1, 0], [-1, 0], [math.nan]):
        with pytest.raises(gn.SbmlError, match="times of a simulation"):
            simulate(tmp_path, *x_follows("time"), times=times)
