"""Problem files: what is faulty is named, and text is never run."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode.cli.example_problems import EXAMPLES
from gpnode.formats.problem_toml import read_problem, write_problem
from gpnode.formats.toml_values import read_prior


@pytest.mark.parametrize(
    ("section", "content", "message"),
    [
        ("extra", {}, "may have"),
        ("data", {"file": 3}, "needs file"),
        ("data", {"file": "data.csv", "skip": 3}, "may have"),
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
    table = EXAMPLES["lynx-hare"]().files["data.csv"]
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
