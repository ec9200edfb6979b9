"""The formulas of a file in arrays: as in plain numbers, and with derivatives."""

from __future__ import annotations

import jax
import numpy as np
import pytest

pytest.importorskip("libsbml", reason="needs python-libsbml")

from gpnode.formats.formula import Number
from gpnode.formats.sbml.equations import Equations
from gpnode.formats.sbml.reading import read_system
from gpnode.formats.sbml.running import Running
from support import sbml

PARTS = [
    sbml.compartment("c", 2.0, constant="false"),
    sbml.species("A", initialConcentration=3),
    sbml.species("B", initialAmount=1, amounts="true"),
    sbml.parameter("k", 0.5),
    sbml.parameter("twice"),
    sbml.parameter("root", constant="false"),
    sbml.parameter("seen", constant="false"),
    sbml.initial("twice", "2*k"),
    sbml.initial("A", "twice + c"),
    sbml.rule("assignment", "root", "sqrt(A - B)"),
    sbml.rule("assignment", "seen", "piecewise(root, A > B, 0)"),
    sbml.rule("rate", "c", "k"),
    sbml.reaction("R", "twice*A*c + seen", {"A": 1}, {"B": 2}),
]


def test_both_ways_to_compute_agree(tmp_path):
    system = read_system(sbml.write(tmp_path, *PARTS))
    assert set(system.states) == {"c", "A@amount", "B"}
    equations = Equations(system)
    for k in (0.5, 0.7):
        running = Running(system, {"k": k})
        starts = equations.starts({"k": k})
        assert np.allclose([starts[s] for s in running.moving], running.starts())
        y = np.array([1.3, 0.2, 2.5])
        x = dict(zip(running.moving, y, strict=True))
        slopes = equations.slopes(0.3, x, {"k": k})
        assert np.allclose([slopes[s] for s in running.moving], running.slopes(0.3, y))
        values = equations.values(running.identifiers, 0.3, x, {"k": k})
        assert np.allclose([float(values[n]) for n in running.identifiers], running.everything(0.3, y), equal_nan=True)


def test_conditions_leave_derivatives_alone(tmp_path):
    """The root has none where A is B, but does not count there."""
    equations = Equations(read_system(sbml.write(tmp_path, *PARTS)))

    def slope(amount):
        return equations.slopes(0.0, {"c": 2.0, "A@amount": amount, "B": 3.0}, {})["B"]

    for amount in (6.0, 5.0):
        assert float(jax.grad(slope)(amount)) == 2.0
    assert float(jax.grad(slope)(8.0)) == pytest.approx(2 * (1 + 0.25))


def test_initial_values_are_functions_of_numbers(tmp_path):
    equations = Equations(read_system(sbml.write(tmp_path, *PARTS)))
    assert float(jax.grad(lambda k: equations.starts({"k": k})["A@amount"])(0.5)) == 4.0
    changed = equations.system.with_starts({"A": Number(5.0)})
    assert float(Equations(changed).starts({})["A@amount"]) == 10.0
