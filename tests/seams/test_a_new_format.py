"""A new file format: one class in the registry, and the command line fits, resumes and reads its problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import numpy as np

import gpnode as gn
from gpnode import cli
from gpnode.formats.base import Format, ProblemFile
from gpnode.formats.registry import FORMATS


@FORMATS.add
class DecayJson(Format):
    """Times and values of something that decays."""

    name: ClassVar[str] = "decay"
    suffixes: ClassVar[tuple[str, ...]] = (".decay",)

    def read(self, path: Path) -> ProblemFile:
        content = json.loads(path.read_text())
        dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(0.0, 1.0)})
        data = gn.Observations({"x": (content["times"], content["values"])})
        model = gn.Model(dynamics, kernel=None)
        return ProblemFile(data, model, self, gn.Laplace(draws=content.get("draws", 200)), 0, content)

    def write(self, problem: ProblemFile, folder: Path) -> None:
        (folder / "problem.decay").write_text(json.dumps(problem.content))


def test_the_command_line_takes_it(tmp_path, capsys):
    t = np.linspace(0.0, 4.0, 12)
    values = np.exp(-0.5 * t) + 0.01 * np.cos(7.0 * t)
    (tmp_path / "mine.decay").write_text(json.dumps({"times": t.tolist(), "values": values.tolist()}))
    fit = tmp_path / "fit"
    assert cli.run(["fit", str(tmp_path / "mine.decay"), "-o", str(fit), "-q"]) in (0, 2)
    assert "dx/dt = -k*x" in capsys.readouterr().out
    assert (fit / "problem.decay").exists()
    assert cli.run(["resume", str(fit), "-q"]) in (0, 2)
    assert cli.run(["forecast", str(fit), "--until", "5", "--points", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("5")
