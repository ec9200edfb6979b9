"""The command that calibrates."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpnode import cli
from gpnode.formats.problem_toml import write_problem
from support.commands import QUICK, help_example


@pytest.mark.slow
def test_the_example_of_calibrate_runs(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert cli.run(help_example(("calibrate",), capsys)) in (0, 2)
    assert "CALIBRATED" in capsys.readouterr().out


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
