"""SBML files as models that are fitted."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn

pytest.importorskip("libsbml", reason="needs python-libsbml")

from gpnode.model.dynamics import Named
from support import sbml

TIMES = np.linspace(0.3, 5.0, 12)
TIGHT = gn.NativeStiff(rtol=1e-10, atol=1e-10)


def network(*more):
    return [
        sbml.compartment("c", 2.0, constant="false"),
        sbml.species("A", initialConcentration=3),
        sbml.species("B", initialAmount=1, amounts="true"),
        sbml.parameter("k", 0.5),
        sbml.parameter("twice"),
        sbml.parameter("unused", 7),
        sbml.parameter("total", constant="false"),
        sbml.initial("twice", "2*k"),
        sbml.rule("assignment", "total", "A*c + B/2"),
        sbml.rule("rate", "c", "0.1*c"),
        sbml.reaction("R", "twice*A*c*q", {"A": 1}, {"B": 2}, '<localParameter id="q" value="0.7"/>'),
        sbml.reaction("S", "piecewise(k*B, time < 2, 0)", {"B": 1}),
        *more,
    ]


def assert_paths_agree(file, model, experiment, k=0.5, rtol=1e-6):
    """The simulation, with events, and what a fit computes."""
    simulated = file.simulate([0.0, *TIMES], {"k": k})
    seen = [*model.states, *model.observables]
    simulated["A@amount"] = simulated["A"] * simulated["c"]
    data = gn.Observations({name: (TIMES, simulated[name].to_numpy()[1:]) for name in seen}, start=0.0)
    problem = gn.bind(model, data.with_experiments(experiment))
    values = problem.constrain(problem.layout.unconstrain({**problem.constrain(jnp.zeros(problem.size)), "k": k}))
    solution = problem.solve(values)
    assert int(solution.status[0]) == 0
    found = dict(zip([o.variable for o in problem.observables], problem.predictions(solution, values), strict=True))
    scale = dict(zip(problem.outputs, problem.output_scale, strict=True))
    for name in seen:
        want = simulated[name].to_numpy()[1:]
        assert np.allclose(np.ravel(found[name]) * scale[name], want, rtol=rtol, atol=rtol * np.abs(want).max()), name


TRIGGERED = sbml.event("E", "B >= 3", {"B": "B - 2.2"})
EVENTS = [
    sbml.event("E", "time > 1.05", {"A": "A + 1", "c": "c/2"}),
    sbml.event("F", "2.6 - time < 0", {"B": "k"}),
    sbml.event("never", "time > -1", {"B": "7"}),
]


def test_equations_and_events_are_those_of_the_file(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network(*EVENTS))).with_priors({"k": gn.LogNormal(0.0, 0.5)})
    x, p = {"c": 2.0, "A@amount": 6.0, "B": 1.0}, {"k": 0.8, "R@q": 0.7}
    slopes = file.model.dynamics.slopes(0.5, x, p)
    rate = 2 * 0.8 * 3.0 * 2.0 * 0.7  # the initial assignment follows the parameter
    assert float(slopes["c"]) == pytest.approx(0.2)
    assert float(slopes["A@amount"]) == pytest.approx(-rate)
    assert float(slopes["B"]) == pytest.approx(2 * rate - 0.8)
    first, second = file.experiment.events
    assert (first.time, second.time) == (1.05, pytest.approx(2.6))
    assert not file.experiment.measured_after
    made = {state: float(change(1.05, Named(x), Named(p))) for state, change in first.changes.items()}
    assert made == {"A@amount": 8.0, "c": 1.0}
    assert float(second.changes["B"](2.6, Named(x), Named(p))) == 0.8


@pytest.mark.slow
def test_a_fit_computes_what_the_simulation_does(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network(*EVENTS))).with_priors({"k": gn.LogNormal(0.0, 0.5)})
    assert file.states == ("c", "A@amount", "B")
    assert repr(file) == "SbmlFile(model.xml: 3 states, 3 numbers, 3 events)"
    assert set(file.numbers) == {"k", "unused", "R@q"}
    model = file.model_with(measured=["total", "A"], kernel=None, solver=TIGHT)
    assert_paths_agree(file, model, file.experiment, 0.8)


def test_what_the_state_triggers_needs_a_count(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network(TRIGGERED)))
    with pytest.raises(gn.SbmlError, match="say how often"):
        _ = file.experiment
    assert [trigger.count for trigger in file.experiment_with(most=3).triggers] == [3]


@pytest.mark.slow
def test_what_the_state_triggers_happens_as_in_the_simulation(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network(TRIGGERED))).with_priors({"k": gn.LogNormal(0.0, 0.5)})
    model = file.model_with(kernel=None, solver=TIGHT)
    assert_paths_agree(file, model, file.experiment_with(most=5))


def test_events_that_include_their_time_come_before_what_is_measured_then(tmp_path):
    for trigger, delay, at in (("time >= 2", None, 2.0), ("time > 2", "0.5", 2.5)):
        event = sbml.event("E", trigger, {"B": "1"}, delay=delay)
        experiment = gn.read_sbml(sbml.write(tmp_path, *network(event))).experiment
        assert experiment.measured_after
        assert [event.time for event in experiment.events] == [at]


def test_starts_follow_priors(tmp_path):
    parts = [
        sbml.parameter("first", 2),
        sbml.parameter("x", constant="false"),
        sbml.initial("x", "first^2"),
        sbml.rule("rate", "x", "-x"),
    ]
    file = gn.read_sbml(sbml.write(tmp_path, *parts))
    assert file.model.initial == {"x": 4.0}
    model = file.with_priors({"first": gn.LogNormal(0.0, 1.0)}).model
    assert float(model.initial["x"](Named({"first": 3.0}))) == 9.0
    assert set(model.parameters) == {"first"}


def test_numbers_take_the_place_of_priors(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network())).with_priors({"k": 0.25})
    assert file.model.dynamics.priors == {"k": 0.25, "R@q": 0.7}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([sbml.event("E", "B > 3 && B < 4", {"B": "1"})], "more than one comparison"),
        ([sbml.event("E", "B > 3", {"B": "1"}, delay="1")], "has a delay, and is triggered by the state"),
        ([sbml.event("E", "time > 1", {"B": "A"}, delay="1")], "keeps values of the time it was triggered"),
        ([sbml.event("E", "time > 1", {"B": "1"}, delay="A", at_trigger="false")], "its delay is not one number"),
        ([sbml.event("E", "time >= 0", {"B": "1"}, before="false")], "at the very start"),
        ([sbml.event("E", "B > 3", {"B": "1"}), sbml.event("F", "time > 1", {"B": "9"})], "'F' changes can trigger it"),
        ([sbml.event("E", "time > 1", {"B": "1"}), sbml.event("F", "time > 1", {"c": "9"})], "at the same time"),
        ([sbml.event("E", "time > 1", {"B": "1"}), sbml.event("F", "time >= 2", {"c": "9"})], "Write them in one way"),
        ([sbml.event("E", "time^2 > 1", {"B": "1"})], "no time that can be told"),
        ([sbml.event("E", "time > 1", {"B": "unused"})], "uses 'unused', which has a prior and is in no equation"),
    ],
)
def test_events_that_a_fit_cannot_have_are_refused_by_name(tmp_path, parts, message):
    file = gn.read_sbml(sbml.write(tmp_path, *network(*parts))).with_priors({"unused": gn.Normal(0, 1)})
    with pytest.raises(gn.SbmlError, match=message):
        file.experiment_with(most=1)
    assert len(file.simulate([0.0, 2.0])) == 2


def test_mistakes_are_named(tmp_path):
    file = gn.read_sbml(sbml.write(tmp_path, *network()))
    with pytest.raises(gn.ModelError, match="no number 'A' in the file"):
        _ = file.with_priors({"A": gn.Normal(0, 1)}).model
    with pytest.raises(gn.ModelError, match="'unused' has a prior, but neither"):
        _ = file.with_priors({"unused": gn.Normal(0, 1)}).model
    with pytest.raises(gn.ModelError, match="'nobody' is not in the file"):
        file.model_with(measured=["nobody"])
    empty = gn.read_sbml(sbml.write(tmp_path, sbml.parameter("k", 1)))
    with pytest.raises(gn.SbmlError, match="nothing in the file is integrated"):
        _ = empty.model
    unset = [sbml.parameter("k"), sbml.parameter("x", 1, constant="false"), sbml.rule("rate", "x", "k")]
    with pytest.raises(gn.SbmlError, match="'k' has no finite value"):
        _ = gn.read_sbml(sbml.write(tmp_path, *unset)).model


def test_without_the_library_one_line_says_what_to_install(tmp_path, monkeypatch):
    import sys

    path = sbml.write(tmp_path, *network())
    monkeypatch.setitem(sys.modules, "libsbml", None)
    with pytest.raises(gn.SbmlError, match=r"pip install 'gpnode\[petab\]'"):
        gn.read_sbml(path)
