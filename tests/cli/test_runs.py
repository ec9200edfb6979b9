"""The commands that read a fit."""

from __future__ import annotations

import json
import shutil
import tomllib

import numpy as np

from gpnode import cli
from gpnode.formats.problem_toml import write_problem


def test_forecasts_are_written_as_tables(place, capsys):
    run = str(place / "lynx-hare" / "fit")
    assert cli.run(["forecast", run, "--until", "1925", "--points", "5", "--initial", "hare=50", "--noise"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "time,hare.mean,hare.std,hare.low,hare.high,lynx.mean,lynx.std,lynx.low,lynx.high"
    assert [float(line.split(",")[0]) for line in lines[1:]] == [1900.0, 1906.25, 1912.5, 1918.75, 1925.0]


def test_verdicts_as_json_and_exit_codes(place, capsys, tmp_path):
    run = str(place / "lynx-hare" / "fit")
    assert cli.run(["diagnose", run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["converged"] is True
    strict = tmp_path / "strict"
    shutil.copytree(run, strict)
    problem = tomllib.loads((strict / "problem.toml").read_text())
    write_problem(problem | {"sampler": problem["sampler"] | {"pareto_limit": -10.0}}, strict / "problem.toml")
    assert cli.run(["fit", str(strict / "problem.toml"), "-o", str(strict), "--anew", "-q"]) == 2
    assert cli.run(["diagnose", str(strict)]) == 2
    assert "POORLY" in capsys.readouterr().out


def test_an_exported_module_simulates_the_equations(place, capsys):
    """By itself, in steps of its own."""
    run = str(place / "lynx-hare" / "fit")
    assert cli.run(["export", run, "--python"]) == 0
    source = capsys.readouterr().out
    module: dict = {"__name__": "exported"}
    exec(compile(source, "exported.py", "exec"), module)
    path = module["simulate"]({"hare": 30.0, "lynx": 4.0}, [1900.0, 1905.0])
    assert np.allclose(path[0], [30.0, 4.0])
    assert path[1].min() > 0.0
    assert callable(module["main"])


def test_an_exported_notebook_opens_the_fit(place, capsys):
    assert cli.run(["export", str(place / "lynx-hare" / "fit"), "--notebook"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert any("load_run" in "".join(cell["source"]) for cell in cells)
