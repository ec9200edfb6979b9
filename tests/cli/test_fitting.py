"""The commands that fit, and go on with a fit."""

from __future__ import annotations

import os
import shutil
import signal
import tomllib

import numpy as np
import pytest

import gpnode as gn
from gpnode import cli
from gpnode.formats.problem_toml import read_problem, write_problem
from gpnode.inference.running.checkpoint import Checkpoint
from gpnode.render.report import page as report


def test_a_fit_leaves_everything_needed_behind(place):
    folder = place / "lynx-hare" / "fit"
    assert {p.name for p in folder.iterdir()} == {
        "checkpoint",
        "data.csv",
        "problem.toml",
        "posterior.nc",
        "report.html",
        "equations.txt",
        "answers",
    }
    assert "dhare/dt = alpha*hare - beta*hare*lynx" in (folder / "equations.txt").read_text()
    again = read_problem(folder / "problem.toml")
    loaded = gn.Posterior.load(folder / "posterior.nc", again.model)
    assert loaded.draws["alpha"].mean() == pytest.approx(0.55, abs=0.05)


@pytest.mark.slow
def test_a_stopped_fit_reports_goes_on_and_takes_more_draws(place, tmp_path, monkeypatch, capsys):
    file = tmp_path / "problem.toml"
    content = tomllib.loads((place / "lynx-hare" / "problem.toml").read_text())
    shutil.copy(place / "lynx-hare" / "data.csv", tmp_path)
    one_step = {"seconds": 1e-9}  # a chunk
    sampler = {"method": "lifted", "draws": 40, "warmup": 20, "chains": 2, "chunking": one_step}
    write_problem(content | {"sampler": sampler}, file)
    run = tmp_path / "fit"
    keep, done, sent = Checkpoint.keep, {0: 0, 1: 0}, []

    def interrupted(self, chain):
        keep(self, chain)
        done[chain.index] = chain.done
        if min(done.values()) > 22 and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
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


@pytest.mark.slow
def test_there_is_a_first_look_while_chains_run(tmp_path, monkeypatch, capsys):
    """And it gives way to the real report; a fit that goes on does without."""
    drawn = []
    write = report.write_report

    def note(posterior, path, **others):
        write(posterior, path, **others)
        drawn.append((posterior.is_sample, path.read_text().count(cli.fitting.DRAFT)))

    monkeypatch.setattr(report, "write_report", note)
    (tmp_path / "decay.csv").write_text("time,x\n" + "".join(f"{t},{3 * 0.7**t:.3f}\n" for t in range(9)))
    told = ["--equation", "dx/dt = -k*x", "--prior", "k=LogNormal(0, 1)", "--no-gp", "--draws", "40"]
    run = tmp_path / "fit"
    assert cli.run(["fit", str(tmp_path / "decay.csv"), *told, "-o", str(run)]) in (0, 2, 3)
    assert "a first look is in" in capsys.readouterr().err
    assert drawn == [(False, 1), (True, 0)]
    assert cli.run(["resume", str(run), "--draws", "60"]) in (0, 2, 3)
    assert drawn[2:] == [(True, 0)]
