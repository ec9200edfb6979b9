"""From a table to a report without writing Python."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import gpnode as gn
from gpnode import cli
from gpnode.cli.checking import data_remarks
from gpnode.cli.examples import EXAMPLES
from gpnode.formats.problem_toml import read_prior, read_problem, write_problem
from gpnode.inference.running.checkpoint import Checkpoint
from gpnode.studies import glycolysis

QUICK = {"method": "laplace", "draws": 200}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the lynx-hare example, fitted quickly."""
    folder = tmp_path_factory.mktemp("lynx")
    assert cli.run(["example", "lynx-hare", "-o", str(folder / "lynx-hare")]) == 0
    file = folder / "lynx-hare" / "problem.toml"
    content = tomllib.loads(file.read_text())
    write_problem(content | {"sampler": QUICK}, file)
    assert cli.run(["fit", str(file), "-o", str(folder / "lynx-hare" / "fit"), "-q"]) == 0
    return folder


def test_a_fit_leaves_everything_needed_behind(place):
    folder = place / "lynx-hare" / "fit"
    assert {p.name for p in folder.iterdir()} == {
        "checkpoint",
        "data.csv",
        "problem.toml",
        "posterior.nc",
        "report.html",
        "equations.txt",
    }
    assert "dhare/dt = alpha*hare - beta*hare*lynx" in (folder / "equations.txt").read_text()
    again = read_problem(folder / "problem.toml")
    loaded = gn.Posterior.load(folder / "posterior.nc", again.model)
    assert loaded.draws["alpha"].mean() == pytest.approx(0.55, abs=0.05)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_complete_problems(name, tmp_path):
    assert cli.run(["example", name, "-o", str(tmp_path)]) == 0
    problem = read_problem(tmp_path / "problem.toml")
    assert gn.bind(problem.model, problem.data).size > 0


def all_commands(parser, before=()):
    """Every command as the words to call it by, those of ``study`` one by one."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        return [before]
    return [found for name, own in below[0].choices.items() for found in all_commands(own, (*before, name))]


COMMANDS = all_commands(cli._parser())


def help_example(command, capsys):
    """The example at the end of a command's --help, as arguments."""
    with pytest.raises(SystemExit):
        cli.run([*command, "--help"])
    return shlex.split(re.search(r"example: gpnode (.*)", capsys.readouterr().out)[1])


def test_every_command_has_an_example_of_itself(capsys):
    assert len(COMMANDS) == 13
    for command in COMMANDS:
        assert tuple(help_example(command, capsys)[: len(command)]) == command


def test_python_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "gpnode", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpnode ")


def test_every_example_in_the_help_runs(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    shutil.copytree("lynx-hare/fit", "lynx-hare/other")  # for compare
    for command in COMMANDS:
        # The first is what the others work on; studies and calibration take minutes.
        if command[0] not in ("example", "study", "calibrate"):
            arguments = help_example(command, capsys)
            assert cli.run(arguments) == 0, arguments


@pytest.mark.slow
def test_the_example_of_calibrate_runs(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert cli.run(help_example(("calibrate",), capsys)) in (0, 2)
    assert "CALIBRATED" in capsys.readouterr().out


STUDIES = [c for c in COMMANDS if c[0] == "study"]


@pytest.mark.parametrize("command", STUDIES, ids=lambda c: c[1])
def test_examples_of_studies_call_them(command, monkeypatch, capsys, tmp_path):
    """The same arguments as below reach the study, and its verdict the exit code."""
    monkeypatch.chdir(tmp_path)
    called = []

    def study(output, *arguments, **_):
        called.append((output, *arguments))
        output.mkdir()
        (output / "verdict.txt").write_text("Verdict: well")
        (output / "table.txt").write_text("What bands hold")
        return {"convergence": {"converged": False}, "summary": {"all_converged": False}}

    for module in ("predator_prey", "glycolysis", "human_motion"):
        monkeypatch.setattr(f"gpnode.studies.{module}.run", study)
    assert cli.run(help_example(command, capsys)) == 2
    assert called[0][0] == Path(f"{command[1]}-output")
    said = capsys.readouterr().out
    assert "What bands hold" in said
    assert "Verdict: well" in said


def test_a_stopped_study_goes_on_with_what_was_sampled(monkeypatch, capsys, tmp_path):
    begun = []

    def fit(*_, seed, checkpoint, **__):
        begun.append(seed)
        checkpoint.mkdir(exist_ok=True)
        if begun == [0, 1]:
            raise KeyboardInterrupt
        return gn.Posterior

    verdict = {"convergence": {"converged": True}, "true_values_inside_95": {"k": True}}
    ahead = {"coverage_95": {kind: {"S1": 1.0} for kind in ("pointwise", "whole_path", "chance_below_90")}}
    figures = verdict | dict.fromkeys(glycolysis.STARTS, ahead | {"rmse_mean_path": {"S1": 0.1}})
    monkeypatch.setattr("gpnode.studies.glycolysis.fit", fit)
    monkeypatch.setattr("gpnode.studies.glycolysis._evaluate", lambda *_: figures)
    command = ["study", "glycolysis", "--seeds", "2", "-o", str(tmp_path)]
    assert cli.run(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    kept = [tmp_path / f"seed-{seed}" / "unfinished" for seed in (0, 1)]
    assert all(folder.is_dir() for folder in kept)
    assert cli.run(command) == 0
    assert begun == [0, 1, 0, 1]
    assert not any(folder.exists() for folder in kept)


@pytest.mark.slow
@pytest.mark.parametrize("command", STUDIES, ids=lambda c: c[1])
def test_examples_of_studies_run(command, monkeypatch, capsys, tmp_path):
    """From end to end, with chains too short to mean anything."""
    monkeypatch.chdir(tmp_path)
    whitenings = np.arange(82 * 4)[:, None] * np.linspace(0.01, 0.05, 12)
    lines = [f"{i + 1}\nroot {' '.join(f'{v:.6f}' for v in row)}" for i, row in enumerate(np.sin(whitenings))]
    Path("07_02.amc").write_text("\n".join(lines))

    def short(*arguments, method=None, **others):
        return gn.fit(*arguments, method=gn.Lifted(draws=30, warmup=20, chains=2), **others)

    for module in ("predator_prey", "glycolysis", "human_motion"):
        monkeypatch.setattr(f"gpnode.studies.{module}.fit", short)
    assert cli.run([*help_example(command, capsys), "-q"]) in (0, 2)
    said = capsys.readouterr().out
    assert "inside 95 % bands" in said
    assert "Verdict:" in said
    assert json.loads(Path(f"{command[1]}-output", "results.json").read_text())["study"] == command[1]


def test_a_stopped_fit_reports_goes_on_and_takes_more_draws(place, tmp_path, monkeypatch, capsys):
    file = tmp_path / "problem.toml"
    content = tomllib.loads((place / "lynx-hare" / "problem.toml").read_text())
    shutil.copy(place / "lynx-hare" / "data.csv", tmp_path)
    write_problem(content | {"sampler": {"method": "lifted", "draws": 40, "warmup": 20, "chains": 2}}, file)
    run = tmp_path / "fit"
    keep, done, sent = Checkpoint.keep, {0: 0, 1: 0}, []

    def interrupted(self, chain):
        keep(self, chain)
        done[chain.index] = chain.done
        if min(done.values()) > 22 and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr("gpnode.inference.running.chains._SECONDS", 1e-9)  # chunks of one step
        patch.setattr(Checkpoint, "keep", interrupted)
        assert cli.run(["fit", str(file), "-o", str(run), "-q"]) == 143
    assert f"gpnode resume {run}" in capsys.readouterr().err
    assert cli.run(["diagnose", str(run)]) == 2
    assert "the run was interrupted" in capsys.readouterr().out
    assert cli.run(["resume", str(run), "-q", "--draws", "50"]) == 2
    assert gn.Posterior.load(run / "posterior.nc").unconstrained.shape[1] == 50
    write_problem(content | {"sampler": {"method": "lifted", "draws": 40, "warmup": 30, "chains": 2}}, file)
    capsys.readouterr()
    assert cli.run(["fit", str(file), "-o", str(run), "-q"]) == 1
    assert "--anew" in capsys.readouterr().err


@pytest.mark.slow
def test_calibration_of_a_problem_whose_approximation_is_exact(tmp_path, capsys):
    t = np.linspace(0.0, 4.0, 6)
    (tmp_path / "data.csv").write_text("\n".join(["time,x", *(f"{a},{1.0 + 2.0 * a}" for a in t)]))
    content = {
        "data": {"file": "data.csv"},
        "model": {"equations": ["dx/dt = a"]},
        "parameters": {"a": "Normal(2, 1)"},
        "initial": {"x": "Normal(1, 1)"},
        "kernel": {"kind": "none"},
        "noise": {"std": 0.1},
        "sampler": QUICK,
    }
    write_problem(content, tmp_path / "problem.toml")
    arguments = ["calibrate", str(tmp_path / "problem.toml"), "-o", str(tmp_path / "out"), "--fits", "24", "-q"]
    assert cli.run(arguments) == 0
    assert "CALIBRATED" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert set(found["numbers"]) == {"a", "x.initial", "log density"}
    assert len((tmp_path / "out" / "ranks.csv").read_text().splitlines()) == 25
    assert (tmp_path / "out" / "calibration.png").stat().st_size > 1000
    assert cli.run([*arguments, "--json"]) == 0  # all fits are there already
    assert json.loads(capsys.readouterr().out) == found


def test_forecasts_are_written_as_tables(place, capsys):
    run = str(place / "lynx-hare" / "fit")
    assert cli.run(["forecast", run, "--until", "1925", "--points", "5", "--initial", "hare=50", "--noise"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "time,hare.mean,hare.std,hare.low,hare.high,lynx.mean,lynx.std,lynx.low,lynx.high"
    assert [float(line.split(",")[0]) for line in lines[1:]] == [1900.0, 1906.25, 1912.5, 1918.75, 1925.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["forecast", "RUN", "--until", "1890"], "after the start"),
        (["forecast", "RUN", "--until", "1910", "--initial", "fox=3"], "not a state"),
        (["forecast", "RUN", "--until", "1910", "--initial", "hare"], "NAME=VALUE"),
        (["forecast", "RUN", "--until", "1910", "--interval", "2"], "between 0 and 1"),
        (["forecast", "RUN", "--until", "1910", "--points", "1"], "between 2"),
        (["diagnose", "nowhere"], "no file"),
        (["compare", "RUN"], "at least two"),
        (["fit", "nowhere.csv", "-o", "out"], "no file"),
        (["fit", "RUN/problem.toml", "-o", "out", "--degree", "3"], "only with a CSV"),
        (["fit", "RUN/data.csv", "-o", "out", "--time", "month"], "month"),
        (["fit", "RUN/data.csv", "-o", "out", "--time", "year", "--prior", "a=1"], "--equation"),
        (["fit", "RUN/data.csv", "-o", "out", "--time", "year", "--equation", "dhare/dt = eval(1)"], "no function"),
        (["fit", "RUN/data.csv", "-o", "out", "--time", "year", "--equation", "dhare/dt = a*hare"], "give it a prior"),
    ],
)
def test_bad_input_is_one_clear_line(place, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    run = str(place / "lynx-hare" / "fit")
    assert cli.run([a.replace("RUN", run) for a in arguments]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("gpnode: ")
    assert len(said.strip().splitlines()) == 1


def test_verdicts_as_json_and_exit_codes(place, capsys, monkeypatch):
    run = str(place / "lynx-hare" / "fit")
    assert cli.run(["diagnose", run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["converged"] is True
    monkeypatch.setattr("gpnode.results.diagnostics.verdict.PARETO_LIMIT", -10.0)
    assert cli.run(["diagnose", run]) == 2
    assert "POORLY" in capsys.readouterr().out


def test_csv_with_options_is_the_same_problem_as_a_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 4.0, 12)
    table = "\n".join(["hour,x", *(f"{a:.3f},{2 * np.exp(-0.7 * a) + 0.02 * rng.normal():.4f}" for a in t)])
    (tmp_path / "decay.csv").write_text(table)
    arguments = ["--time", "hour", "--equation", "dx/dt = -k*x", "--prior", "k=LogNormal(0, 1)", "--no-gp"]
    assert cli.run(["check", str(tmp_path / "decay.csv"), *arguments, "-q"]) == 0
    said = capsys.readouterr().out
    assert "takes about" in said
    problem = cli.fitting.problem_of(
        cli._parser().parse_args(["fit", str(tmp_path / "decay.csv"), "-o", "x", *arguments])
    )
    write_problem(problem.content, tmp_path / "problem.toml")
    assert read_problem(tmp_path / "problem.toml").model.describe() == problem.model.describe()


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


# -- problem files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "content", "message"),
    [
        ("extra", {}, "may have"),
        ("data", {"file": 3}, "needs file"),
        ("data", {"file": "data.csv", "separator": ";"}, "may have"),
        ("model", {"degree": 99}, "up to 10"),
        ("model", {"degree": True}, "up to 10"),
        ("model", {"states": "hare"}, "list of texts"),
        ("model", {"terms": ["fox^2"]}, "not a state"),
        ("model", {"terms": ["hare+"]}, "cannot read"),
        ("model", {"forbidden": [["hare"]]}, "pairs"),
        ("model", {"fixed": [["hare", "hare"]]}, "triples"),
        ("model", {"solver": "magic"}, "solver"),
        ("initial", {"fox": 1.0}, "not a state"),
        ("initial", {"hare": "LogNormal(0, -1)"}, "not a prior"),
        ("kernel", {"kind": "cubic"}, "kind"),
        ("noise", {"std": -1.0}, "positive"),
        ("noise", {"relative": "yes"}, "true or false"),
        ("transform", {"kind": "cube"}, "none, log"),
        ("sampler", {"method": "magic"}, "lifted, nuts, laplace"),
        ("sampler", {"draws": -4}, "at least"),
        ("sampler", {"speed": 9}, "speed"),
        ("sampler", {"seed": "x"}, "whole number"),
    ],
)
def test_faulty_problems_are_named(tmp_path, section, content, message):
    table, _ = EXAMPLES["lynx-hare"]()
    (tmp_path / "data.csv").write_text(table)
    whole = {"data": {"file": "data.csv", "time": "year"}, "model": {"degree": 1}}
    whole[section] = content if section != "data" or "file" not in content else {**whole["data"], **content}
    write_problem(whole, tmp_path / "problem.toml")

    def read():
        problem = read_problem(tmp_path / "problem.toml")
        gn.bind(problem.model, problem.data)

    with pytest.raises(gn.GpnodeError, match=message):
        read()


@pytest.mark.parametrize("text", ["Normal(0, 1)", "LogNormal(loc=0, scale=2)", "Uniform(0, 3)", 2, 0.5])
def test_priors_as_text(text):
    assert read_prior(text, "here") is not None


@pytest.mark.parametrize(
    "text",
    ["Normal", "Normal(0)(1)", "Normal('a', 1)", "Cauchy(0, 1)", "exec(1)", "Normal(0, __import__('os'))", [], True],
)
def test_other_text_is_no_prior(text):
    with pytest.raises(gn.ModelError):
        read_prior(text, "here")
