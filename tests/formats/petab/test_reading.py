"""Problems of PEtab: what they come to, against a closed form, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import laplace, norm

import gpnode as gn
from gpnode.errors import GpnodeError
from gpnode.formats.petab.file_format import PetabYaml
from gpnode.formats.registry import format_of
from support import sbml
from support.petab_problem import CONDITIONS, MEASUREMENTS, OBSERVABLES, PARAMETERS, write_problem


def path(k, feed, start, times):
    """The closed form: the feed doubles at time one."""
    before = feed / k + (start - feed / k) * np.exp(-k * np.minimum(times, 1.0))
    later = np.maximum(times - 1.0, 0.0)
    return 2 * feed / k + (before - 2 * feed / k) * np.exp(-k * later)


def test_a_problem_comes_to_what_a_closed_form_says(tmp_path):
    problem = gn.PetabProblem.read(write_problem(tmp_path))
    at = {"k_fast": 1.2, "gain": 1.8, "start": 4.2}
    found = problem.evaluate(at)
    fast = path(1.2, 0.0, 5.0, np.array([0.0, 1.0]))
    slow = path(0.3, 0.2, 4.2, np.array([0.0, 2.0, 1.0, 3.0]))
    predicted = np.array([1.8 * fast[0], 1.8 * fast[1], slow[0], slow[1], slow[2] + 1, slow[3] + 1, 1.8 * slow[1]])
    assert np.allclose(found.simulations.simulation, predicted, rtol=1e-7)
    raw, log = [0, 1, 2, 3, 6], [4, 5]
    measured = found.simulations.measurement.to_numpy()
    std = np.array([0.2, 0.3, 0.2, 0.1, 0.1]) + 0.1 * predicted[raw]
    scale = np.array([0.05, 0.07])
    expected = norm(predicted[raw], std).logpdf(measured[raw]).sum()
    expected += (laplace(np.log10(predicted[log]), scale).logpdf(np.log10(measured[log]))).sum()
    expected -= np.log(measured[log] * math.log(10.0)).sum()
    assert found.log_likelihood == pytest.approx(expected, abs=1e-6)
    assert found.log_priors["k_rest"] == pytest.approx(-math.log(0.5 * math.log(1000.0)))
    assert found.log_priors["start"] == pytest.approx(-math.log(10.0))


def test_what_depends_on_noise_alone_is_no_parameter_of_the_path(tmp_path):
    model, data = gn.read_petab(write_problem(tmp_path))
    problem = gn.bind(model, data)
    hyper = [p.name for p in problem.layout.parameters if p.name not in problem.path_names]
    assert hyper == ["sd_a"]
    assert {p.name for p in problem.layout.parameters} == {"k_rest", "k_fast", "start", "gain", "sd_a"}


def test_it_can_be_read_by_suffix_and_kept(tmp_path):
    file = write_problem(tmp_path)
    read = format_of(file)
    assert isinstance(read, PetabYaml)
    read.write(read.read(file), tmp_path / "kept")
    model, data = gn.read_petab(tmp_path / "kept" / "problem.yaml")
    assert data.size == 7
    assert model.states == ("x",)


NO_FILES = "format_version: 1\nparameter_file: ../parameters.tsv\nproblems:\n- sbml_files: [model.xml]\n"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"problem": "format_version: 7\n"}, "format version '7'"),
        ({"problem": "- a\n"}, "no PEtab problem"),
        ({"problem": "a: [b\n"}, "not YAML"),
        ({"problem": "a: &x [1]\nb: *x\n"}, "aliases"),
        ({"problem": NO_FILES}, "not in the folder"),
        ({"conditions": CONDITIONS.replace("conditionId", "id")}, "no column 'conditionId'"),
        ({"conditions": CONDITIONS.replace("k_fast", "k_fst")}, "'k_fst'"),
        ({"conditions": CONDITIONS.replace("\tfeed\n", "\tother\n")}, "change 'other'"),
        ({"parameters": PARAMETERS.replace("log10\t0.01", "log3\t0.01")}, "the scale 'log3'"),
        ({"parameters": PARAMETERS.replace("0.01\t10\t0.5", "0\t10\t0.5")}, "bounds must be positive"),
        ({"parameters": PARAMETERS.replace("0\t10\t1.0\t0", "0\t10\t\t0")}, "not estimated, and has no value"),
        ({"observables": OBSERVABLES.replace("* x", "* y")}, "'y'"),
        ({"observables": OBSERVABLES.replace("x + 1", "x + (1")}, "bracket is not closed"),
        ({"measurements": MEASUREMENTS.replace("\tgain\tsd_a", "\tgain;gain\tsd_a")}, "says 2 observable parameters"),
        ({"measurements": MEASUREMENTS.replace("slow", "none")}, "condition 'none'"),
        ({"measurements": MEASUREMENTS.replace("9.0\t0", "high\t0")}, "where a number should be"),
        ({"measurements": MEASUREMENTS.replace("log\t\tslow\t4.0", "log\t\tslow\t-4.0")}, "logarithm"),
    ],
)
def test_mistakes_are_refused(tmp_path, changed, text):
    with pytest.raises(GpnodeError, match=text.replace("(", r"\(")):
        gn.bind(*gn.read_petab(write_problem(tmp_path, **changed)))


def test_an_event_of_the_model_happens_at_the_time_that_conditions_give(tmp_path):
    file = write_problem(
        tmp_path,
        conditions="conditionId\twhen\na\t1.0\nb\t2.5\n",
        measurements=(
            "observableId\tsimulationConditionId\tmeasurement\ttime\n"
            "raw\ta\t1\t0.5\nraw\ta\t1\t2\nraw\tb\t1\t2\nraw\tb\t1\t4\n"
        ),
        observables="observableId\tobservableFormula\tnoiseFormula\nraw\tx\t0.1\n",
        parameters="parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate\nk\tlin\t0\t9\t0.5\t1\n",
    )
    parts = [
        sbml.compartment("c"),
        sbml.species("x", initialConcentration=1.0),
        sbml.parameter("k", 1.0),
        sbml.parameter("when", 0.0),
        sbml.reaction("out", "k * x", reactants={"x": 1}),
    ]
    sbml.write(tmp_path, *parts, sbml.event("more", "time >= when", {"x": "x + 2"}))
    found = gn.PetabProblem.read(file).evaluate().simulations.simulation.to_numpy()
    decayed = [np.exp(-0.25), np.exp(-1.0) + 2 * np.exp(-0.5), np.exp(-1.0), np.exp(-2.0) + 2 * np.exp(-0.75)]
    assert np.allclose(found, decayed, rtol=1e-7)
    for trigger, text in (("x <= 0.5", "the state triggers it"), ("time >= k", "estimated")):
        sbml.write(tmp_path, *parts, sbml.event("more", trigger, {"x": "x + 2"}))
        with pytest.raises(GpnodeError, match=text):
            gn.read_petab(file)


def test_what_is_measured_after_an_infinite_time_is_at_rest(tmp_path):
    rows = MEASUREMENTS + "raw\t\tslow\t1.5\tinf\tgain\t0.1\n"
    found = gn.PetabProblem.read(write_problem(tmp_path, measurements=rows)).evaluate({"gain": 1.8})
    assert found.simulations.simulation.to_numpy()[-1] == pytest.approx(1.8 * 2 * 0.2 / 0.3)
    assert found.simulations.time.to_numpy()[-1] == math.inf
    with pytest.raises(GpnodeError, match="changes on the way there"):
        gn.read_petab(write_problem(tmp_path, measurements=MEASUREMENTS.replace("2.0\t1.0\tgain", "2.0\tinf\tgain")))
