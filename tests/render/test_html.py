"""The renderer itself: what it escapes, what it refuses, and who depends on it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files

import jinja2
import numpy as np
import pytest
import sympy

import gpnode as gn
from gpnode.render.html.environment import render_template
from gpnode.render.html.mathml import equation_mathml
from gpnode.render.report.paths import ReportPaths

EVIL = "</script><b a='\"'>&"
TEMPLATES = files("gpnode.render.html").joinpath("templates")


def _sources():
    folders = [TEMPLATES]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir():
                folders.append(entry)
            else:
                yield entry.name, entry.read_text(encoding="utf-8")


def test_no_template_turns_escaping_off():
    sources = dict(_sources())
    assert len(sources) > 10
    for name, source in sources.items():
        assert not re.search(r"\|\s*safe\b|autoescape", source), name


def test_texts_are_escaped_in_content_and_attributes():
    paths = ReportPaths(states=(EVIL,), experiments=("a", "b"), failures={"b": 3}, content={"experiments": {}})
    page = render_template("report/paths.html", paths=paths)
    assert "<b a" not in page
    assert '<option value="&lt;/script&gt;&lt;b a=&#39;&#34;&#39;&gt;&amp;">' in page
    assert "could not be solved: 3 of experiment b." in page


def test_json_cannot_end_its_element():
    content = {"experiments": {EVIL: {}}, "unit": EVIL}
    page = render_template("report/paths.html", paths=ReportPaths(content=content))
    (text,) = re.findall(r'<script type="application/json" id="paths">(.*?)</script>', page)
    assert json.loads(text) == content


def test_json_refuses_numbers_it_does_not_have():
    with pytest.raises(ValueError, match="JSON"):
        render_template("report/paths.html", paths=ReportPaths(content={"unit": float("nan")}))


def test_a_missing_name_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="paths"):
        render_template("report/paths.html")


@pytest.mark.parametrize("name", ["x", "alpha_1", EVIL, "<mi>x</mi>", "\x00", "]]>"])
def test_equations_of_any_names_stay_inside_their_element(name):
    written = equation_mathml(name, 1.23456 * sympy.Symbol(name) - sympy.Symbol("y"))
    tags = set(re.findall(r"</?([\w]+)", written))
    assert tags <= {"math", "mrow", "mfrac", "mi", "mn", "mo", "msub", "mtext"}
    assert "1.235" in written


def test_notebooks_get_plain_text():
    shown = gn.Observations({"x": (np.arange(3.0), np.arange(3.0))})._repr_html_()
    assert type(shown) is str
    assert f"{shown}<p>" == shown + "<p>"


def test_data_and_results_load_no_renderer():
    code = "import sys, gpnode; gpnode.Observations, gpnode.Posterior, gpnode.forecast, gpnode.equations; "
    code += "print([m for m in sys.modules if m.startswith(('gpnode.render', 'jinja2'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
