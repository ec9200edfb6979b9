"""The commands that run studies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gpnode as gn
from gpnode import cli
from gpnode.studies import glycolysis
from support.commands import COMMANDS, help_example

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
    monkeypatch.setattr("gpnode.fit", fit)
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
    frames = np.arange(82 * 4)[:, None] * np.linspace(0.01, 0.05, 12)
    lines = [f"{i + 1}\nroot {' '.join(f'{v:.6f}' for v in row)}" for i, row in enumerate(np.sin(frames))]
    Path("07_02.amc").write_text("\n".join(lines))

    fit = gn.fit

    def short(*arguments, method=None, **others):
        return fit(*arguments, method=gn.Lifted(draws=30, warmup=20, chains=2), **others)

    monkeypatch.setattr("gpnode.fit", short)
    assert cli.run([*help_example(command, capsys), "-q"]) in (0, 2)
    said = capsys.readouterr().out
    assert "inside 95 % bands" in said
    assert "Verdict:" in said
    assert json.loads(Path(f"{command[1]}-output", "results.json").read_text())["study"] == command[1]
