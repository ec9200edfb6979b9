"""From a table to a report without writing Python."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from gpnode import cli
from support.commands import COMMANDS, help_example


def test_every_command_has_an_example_of_itself(capsys):
    assert len(COMMANDS) == 14
    for command in COMMANDS:
        assert tuple(help_example(command, capsys)[: len(command)]) == command


def test_python_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "gpnode", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpnode ")


@pytest.mark.slow
def test_every_example_in_the_help_runs(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    shutil.copytree("lynx-hare/fit", "lynx-hare/other")  # for compare
    for command in COMMANDS:
        # The first is what the others work on; studies and calibration take minutes.
        if command[0] not in ("example", "study", "calibrate"):
            arguments = help_example(command, capsys)
            assert cli.run(arguments) == 0, arguments


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
        (["fit", "RUN/problem.toml", "-o", "out", "--degree", "3"], "only with a table"),
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
