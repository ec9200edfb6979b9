"""What is done, from a problem file to a forecast of something else."""

from __future__ import annotations

import io

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import gpnode as gn
from gpnode.cli import run
from gpnode.cli.fitting import problem_of
from gpnode.data.scaling import Scaling
from gpnode.formats.problem_toml import read_problem
from gpnode.problem.planning import driving_of

PROBLEM = """
[data]
file = "blood.csv"

[experiments]
doses = "doses.csv"
conditions = { factor = 2.0 }
events = [{ time = 9.0, blood = "0.5*blood" }]

[model]
equations = ["dgut/dt = -ka*gut", "dblood/dt = factor*ka*gut - ke*blood"]

[parameters]
ka = "LogNormal(0, 0.5)"
ke = "LogNormal(-1.5, 0.5)"

[initial]
gut = 0.0
blood = 0.0

[kernel]
kind = "none"

[noise]
std = 0.05

[sampler]
method = "laplace"
"""
SCALING = Scaling(*map(jnp.asarray, (np.ones(2), 0.0, 1.0, 12.0)))
TIMES = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 12.0])


def path(times, doses, ka=1.0, ke=0.25):
    """Blood, from ``{time: amount}`` into the gut, halved after 9."""

    def after(dose, t):
        return 2.0 * dose * ka / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t)) * (t > 0)

    total = sum(after(amount, times - time) for time, amount in doses.items())
    at_nine = sum(after(amount, 9.0 - time) for time, amount in doses.items() if time < 9.0)
    return total - np.where(times > 9.0, 0.5 * at_nine * np.exp(-ke * (times - 9.0)), 0.0)


@pytest.fixture
def folder(tmp_path):
    noise = 0.02 * np.random.default_rng(0).normal(size=TIMES.size)
    blood = path(TIMES, {0.0: 3.0, 6.0: 1.0}) + noise
    pd.DataFrame({"time": TIMES, "blood": blood}).to_csv(tmp_path / "blood.csv", index=False)
    (tmp_path / "doses.csv").write_text("time,amount,state\n0,3,gut\n6,1,gut\n")
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


@pytest.mark.slow
def test_a_problem_with_doses_is_fitted_kept_and_forecast_under_others(folder, tmp_path, capsys):
    assert run(["fit", str(folder / "problem.toml"), "-o", str(tmp_path / "fit"), "-q"]) in (0, 1, 3)
    assert (tmp_path / "fit" / "doses.csv").exists()  # the directory stands by itself
    posterior = gn.load_run(tmp_path / "fit")
    assert abs(float(posterior.draws["ka"].mean()) - 1.0) < 0.15
    as_it_was = gn.forecast(posterior, TIMES[:-1])
    assert np.allclose(as_it_was.mean().sel(state="blood"), path(TIMES[:-1], {0.0: 3.0, 6.0: 1.0}), atol=0.1)
    (tmp_path / "twice.csv").write_text("time,amount,state\n0,6,gut\n")
    capsys.readouterr()
    command = ["forecast", str(tmp_path / "fit"), "--until", "8", "--points", "9"]
    assert run([*command, "--doses", str(tmp_path / "twice.csv"), "--condition", "factor=1"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert np.allclose(table["blood.mean"], path(np.arange(9.0), {0.0: 3.0}), atol=0.1)


def bound(path):
    problem = read_problem(path)
    return gn.bind(problem.model, problem.data)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('doses = "doses.csv"', 'doses = "none.csv"', "there is no file"),
        ('doses = "doses.csv"', "doses = 3", "must be a list of tables"),
        ('doses = "doses.csv"', 'doses = [{ state = "gut" }]', "needs amount"),
        ('doses = "doses.csv"', 'doses = [{ state = "ear", amount = 1.0 }]', "'ear', which is not a state"),
        ("factor = 2.0 }", "other = 2.0 }", "uses 'factor'"),
        ('blood = "0.5*blood"', 'blood = "0.5*what"', "uses 'what'"),
        (', blood = "0.5*blood"', "", "changes at least one state"),
        ("[experiments]", "[experiments]\ndosses = 1", "has 'dosses'"),
        ("ka = ", "factor = 1.0\nka = ", "gives it too"),
    ],
)
def test_mistakes_are_named(folder, old, new, words):
    assert old in PROBLEM
    (folder / "problem.toml").write_text(PROBLEM.replace(old, new, 1))
    with pytest.raises(gn.GpnodeError, match=words):
        bound(folder / "problem.toml")


def triggered(old="", new=""):
    text = PROBLEM.replace('{ time = 9.0, blood = "0.5*blood" }', WHEN.replace(old, new))
    return text.replace("[parameters]", "[parameters]\nlimit = 2.5")


def driven(path):
    problem = read_problem(path)
    return driving_of(problem.model, problem.data, SCALING, problem.data.done)


WHEN = '{ when = "blood - limit", blood = "0.5*blood", count = 2 }'


def test_events_are_triggered_by_formulas(folder):
    text = PROBLEM.replace('{ time = 9.0, blood = "0.5*blood" }', WHEN).replace(
        "[parameters]", "[parameters]\nlimit = 2.5"
    )
    (folder / "problem.toml").write_text(text)
    problem = read_problem(folder / "problem.toml")
    trigger = problem.data.done["0"].triggers[0]
    assert trigger.count == 2
    assert float(trigger.when(0.0, {"gut": 1.0, "blood": 4.0}, {"limit": 2.5})) == 1.5
    assert float(trigger.changes["blood"](0.0, {"gut": 1.0, "blood": 4.0}, {"limit": 2.5})) == 2.0
    assert not problem.data.done["0"].events
    assert driven(folder / "problem.toml").counts.tolist() == [[2]]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('when = "blood - limit"', 'when = "blood - limit", time = 3.0', "both a time and when"),
        ('when = "blood - limit"', "when = 3.0", "formula that turns positive"),
        ('when = "blood - limit"', 'when = "blood - limit - what"', "when an event happens uses 'what'"),
        ("count = 2", "count = 21", "1 to 20 times"),
        ('blood = "0.5*blood", ', "", "changes at least one state"),
    ],
)
def test_mistakes_in_triggers_are_named(folder, old, new, words):
    (folder / "problem.toml").write_text(triggered(old, new))
    with pytest.raises(gn.ModelError, match=words):
        driven(folder / "problem.toml")


@pytest.mark.slow
def test_a_delay_is_a_parameter(folder):
    (folder / "doses.csv").write_text("time,amount,state,delay\n0,3,gut,lag\n6,1,gut,\n")
    (folder / "problem.toml").write_text(PROBLEM.replace("[parameters]", '[parameters]\nlag = "LogNormal(-2, 1)"'))
    problem = bound(folder / "problem.toml")
    assert problem.late is not None
    assert "lag" in [p.name for p in problem.layout.parameters]
    (folder / "problem.toml").write_text(PROBLEM)
    with pytest.raises(gn.ModelError, match="'lag', which is no delay"):
        bound(folder / "problem.toml")


def test_options_say_the_same(folder, monkeypatch):
    command = ["check", str(folder / "blood.csv"), "--doses", str(folder / "doses.csv"), "--no-gp"]
    command += ["--equation", "dgut/dt = -ka*gut", "--equation", "dblood/dt = ka*gut - ke*blood"]
    command += ["--prior", "ka=LogNormal(0, 0.5)", "--prior", "ke=LogNormal(-1.5, 0.5)"]
    seen = []
    monkeypatch.setattr("gpnode.cli.checking._check", lambda options: seen.append(problem_of(options)) or 0)
    assert run([*command, "--initial", "gut=0", "--initial", "blood=0"]) == 0
    assert "2 doses of gut" in str(seen[0].data)
    assert gn.bind(seen[0].model, seen[0].data).driving is not None
