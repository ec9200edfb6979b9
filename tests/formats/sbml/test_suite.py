"""The semantic test suite of SBML, where its cases are at hand."""

from __future__ import annotations

import importlib.util
import sys

import pytest

pytest.importorskip("libsbml", reason="needs python-libsbml")

from support import ROOT, SHARED

CASES = SHARED / "sbml"


def load_benchmark():
    spec = importlib.util.spec_from_file_location("sbml_suite", ROOT / "benchmarks" / "sbml_suite.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not CASES.exists(), reason="needs the cases of the semantic test suite of SBML")
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_nine_of_ten_cases_are_right_and_none_is_wrong(every):
    suite = load_benchmark()
    outcomes = [suite.run_case(folder) for folder in suite.time_courses(CASES)[::every]]
    assert not [outcome for outcome in outcomes if outcome.kind == "WRONG"]
    assert sum(outcome.kind == "right" for outcome in outcomes) >= 0.9 * len(outcomes)
