"""A small PEtab problem, written to a folder."""

from __future__ import annotations

from support import sbml

CONDITIONS = "conditionId\tk\tx\tfeed\nrest\tk_rest\t\t1\nfast\tk_fast\t5\t0\nslow\t0.3\tstart\t0.2\n"
PARAMETERS = (
    "parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate\n"
    "k_rest\tlog10\t0.01\t10\t0.5\t1\nk_fast\tlog10\t0.01\t10\t1.5\t1\nstart\tlin\t0\t10\t4\t1\n"
    "gain\tlog\t0.1\t10\t2\t1\nsd_a\tlin\t0\t1\t0.2\t1\nlate\tlin\t0\t10\t1.0\t0\n"
)
OBSERVABLES = (
    "observableId\tobservableFormula\tnoiseFormula\tobservableTransformation\tnoiseDistribution\n"
    "raw\tobservableParameter1_raw * x\tnoiseParameter1_raw + 0.1 * raw\tlin\tnormal\n"
    "log\tx + 1\tnoiseParameter1_log\tlog10\tlaplace\n"
)
MEASUREMENTS = (
    "observableId\tpreequilibrationConditionId\tsimulationConditionId\tmeasurement\ttime\tobservableParameters\t"
    "noiseParameters\n"
    "raw\trest\tfast\t9.0\t0\tgain\tsd_a\n"
    "raw\trest\tfast\t2.0\t1.0\tgain\t0.3\n"
    "raw\t\tslow\t3.5\t0\t1\tsd_a\n"
    "raw\t\tslow\t2.9\t2.0\t1\t0.1\n"
    "log\t\tslow\t4.0\t1.0\t\t0.05\n"
    "log\t\tslow\t2.5\t3.0\t\t0.07\n"
    "raw\t\tslow\t3.0\t2.0\tgain\t0.1\n"
)


def write_problem(folder, **changed):
    """A state that is fed, from a time on twice as much, and decays."""
    sbml.write(
        folder,
        sbml.compartment("c"),
        sbml.species("x", initialConcentration=1.0),
        sbml.parameter("k", 1.0),
        sbml.parameter("feed", 0.0),
        sbml.parameter("late", 1.0),
        sbml.reaction("in", "piecewise(2 * feed, time >= late, feed)", products={"x": 1}),
        sbml.reaction("out", "k * x", reactants={"x": 1}),
    )
    tables = {
        "conditions": CONDITIONS,
        "parameters": PARAMETERS,
        "observables": OBSERVABLES,
        "measurements": MEASUREMENTS,
        "problem": (
            "format_version: 1\nparameter_file: parameters.tsv\nproblems:\n- condition_files: [conditions.tsv]\n"
            "  measurement_files: [measurements.tsv]\n  observable_files: [observables.tsv]\n"
            "  sbml_files: [model.xml]\n"
        ),
    }
    for name, text in (tables | changed).items():
        (folder / f"{name}{'.yaml' if name == 'problem' else '.tsv'}").write_text(text)
    return folder / "problem.yaml"
