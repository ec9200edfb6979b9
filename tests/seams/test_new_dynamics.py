"""A new kind of dynamics prints, exports and forecasts; nothing else knows of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import gpnode as gn
from gpnode.model.dynamics.base import BoundDynamics, Dynamics
from gpnode.model.dynamics.writing import RightSide
from gpnode.model.priors.parameters import Independent


class Drift(Dynamics):
    """A steady drift of one state."""

    states: tuple[str, ...] = eqx.field(static=True)
    prior: Any

    def bind(self, states, scaling, num_observations, prefix):
        return BoundDrift(Independent({f"{prefix}speed": self.prior}), scaling, states.index(self.states[0]), states)

    def describe(self, states):
        return {"kind": "drift", "states": list(self.states)}


class BoundDrift(BoundDynamics):
    block: Independent
    scaling: Any
    index: int = eqx.field(static=True)
    all_states: tuple[str, ...] = eqx.field(static=True)

    @property
    def blocks(self):
        return (self.block,)

    @property
    def parameter_names(self):
        return self.block.names

    def vector_field(self, t, x, values):
        slope = values[self.block.names[0]] * self.scaling.time_unit / self.scaling.state_scale[self.index]
        return jnp.zeros(len(self.all_states)).at[self.index].set(slope)

    def report(self, values):
        return {name: values[name] for name in self.block.names}

    def dims(self):
        return {name: {} for name in self.block.names}

    def right_sides(self):
        return {self.all_states[self.index]: RightSide(sympy.Symbol(self.block.names[0]))}

    @property
    def estimates(self):
        return self.block.names


class Silent(BoundDrift):
    """One that forgets to write its equation."""

    def right_sides(self):
        return {}


DATA = gn.Observations({"x": (np.arange(8.0), 2.0 + 3.0 * np.arange(8.0) + 0.1 * np.cos(5.0 * np.arange(8.0)))})


@pytest.fixture(scope="module")
def posterior():
    model = gn.Model(Drift(("x",), gn.Normal(0.0, 10.0)), kernel=None)
    return gn.fit(model, DATA, method=gn.Laplace(draws=400), progress=False)


def test_it_prints_and_exports(posterior):
    equations = posterior.equations()
    assert "dx/dt = speed" in str(equations)
    assert "speed" in equations.latex()
    assert equations.function()(0.0, [1.0]) == pytest.approx([3.0], abs=0.1)
    module: dict[str, Any] = {}
    exec(equations.python(start={"x": 2.0}), module)
    assert module["START"] == {"x": 2.0}
    assert module["simulate"]({"x": 1.0}, np.array([0.0, 2.0])) == pytest.approx(np.array([[1.0], [7.0]]), abs=0.2)
    assert module["slopes"](0.0, [1.0]) == pytest.approx([3.0], abs=0.1)


def test_it_is_a_table(posterior):
    (row,) = posterior.equations().to_dataframe().to_dict("records")
    assert row["term"] == "speed"
    assert row["2.5%"] < 3.0 < row["97.5%"]
    shown = str(gn.forecast(posterior, np.linspace(0.0, 10.0, 50)))
    assert "50 times" in shown
    assert len(shown.splitlines()) == 10


def test_it_forecasts(posterior):
    assert float(gn.forecast(posterior, [10.0]).mean().sel(state="x")[0]) == pytest.approx(32.0, abs=0.5)


@pytest.mark.slow
def test_it_adds_to_other_dynamics():
    dynamics = gn.Sum(steady=Drift(("x",), gn.Normal(0.0, 10.0)), rest=gn.Dictionary(["x"], gn.polynomial(1)))
    found = gn.fit(gn.Model(dynamics, kernel=None), DATA, method=gn.Laplace(draws=100), progress=False)
    assert "dx/dt = steady.speed" in str(found.equations())


def test_dynamics_without_an_equation_are_an_error_and_no_zero(posterior):
    dynamics = posterior.problem.dynamics
    silent = Silent(dynamics.block, dynamics.scaling, dynamics.index, dynamics.all_states)
    problem = dataclasses.replace(posterior.problem, dynamics=silent)
    with pytest.raises(gn.ModelError, match="has no equation for x"):
        dataclasses.replace(posterior, problem=problem).equations()
