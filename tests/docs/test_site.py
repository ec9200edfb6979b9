"""The documentation: what its build does beyond Markdown, and the whole site in a browser."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest

from support import ROOT

pytest.importorskip("mkdocs", reason="the documentation needs pip install '.[docs]'")

CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), None)


def hook(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(markdown):
    """A page after its examples were run."""
    examples, page = hook("examples"), SimpleNamespace(file=SimpleNamespace(src_path="page.md"))
    return examples.on_page_content(examples.on_page_markdown(markdown, page), page)


def test_examples_show_what_they_print_return_and_draw():
    plt.close("all")  # what other tests left open is not part of the page
    page = shown(
        "```python run\nimport gpnode as gn\nprint('a < b')\n```\n\n"
        "```python run\ngn.Observations({'x': ([0, 1], [2, 3])})\n```\n\n"
        "```python run\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n```\n\n"
        "```python\nnot run\n```\n"
    )
    assert "a &lt; b" in page
    assert "2 measurements" in page
    assert page.count("data:image/png;base64") == 1
    assert "not run" in page
    assert "python run" not in page


def test_an_example_that_fails_ends_the_build():
    from mkdocs.exceptions import PluginError

    with pytest.raises(PluginError, match="ZeroDivisionError"):
        shown("```python run\n1 / 0\n```\n")


def test_formulas_become_mathml():
    maths = hook("maths")
    page = maths.on_page_content(
        r'<p><span class="arithmatex">\(x &lt; y\)</span></p><div class="arithmatex">\[\frac{dx}{dt}\]</div>'
    )
    assert page.count("<math") == 2
    assert "<mfrac>" in page
    assert "arithmatex" not in page
    assert "\\" not in page


def test_results_are_tables_of_what_was_measured(tmp_path, monkeypatch):
    results = hook("results")
    monkeypatch.setattr(results, "_KEPT", tmp_path / "kept")
    page = "<!-- studies -->\n<!-- benchmark -->"
    assert results.on_page_markdown(page, None).count("here yet") == 2
    convergence = {"converged": True, "worst_rhat": 1.004, "least_bulk_ess": 812.4, "seconds": 99.0}
    run = {
        "seed": 3,
        "convergence": convergence,
        "true_values_inside_95": {"a": True, "b": False},
        "rmse": [0.123, 4.5],
    }
    held = {
        "mean_pointwise": {"x1": 0.96},
        "least_pointwise": {"x1": 0.79},
        "least_whole_path": {"x1": 1.0},
        "cases": 5,
    }
    (tmp_path / "output").mkdir()
    content = {"study": "predator-prey", "runs": [run], "summary": {"all_converged": True, "coverage_95": held}}
    (tmp_path / "output" / "results.json").write_text(json.dumps(content))
    results.main([str(tmp_path / "output")])
    contest = {"seconds": 30.0, "draws": 2000, "least_ess": 900.0, "worst_rhat": 1.0, "ess_per_second": 30.0}
    (tmp_path / "kept" / "benchmark.json").write_text(
        json.dumps(
            {
                "gradient": {"toy": {"native": {"us": 12.0, "times_faster": 8.0}}},
                "sampling": {"toy": {"rows": {"gpnode": contest}, "times_more": 20.0, "wanted": 10.0}},
                "answering": {"help": {"seconds": 0.21, "ratio": 1.6}},
                "scaling": {"terms": {"10": {"seconds": 0.002, "compile_seconds": 3.0, "peak_mb": 410.2}}},
            }
        )
    )
    found = results.on_page_markdown(page, None)
    assert "| toy | gpnode | 30 | 2000 | 900 | 1 | 30 |" in found
    assert "| help | 0.21 s | 2 |" in found
    assert "| terms | 10 | 2 ms | 3 s | 410 MB |" in found
    assert "| predator-prey, data 3 | converged | 1.004 | 812.4 |" in found
    assert "| predator-prey, data 3 | 1 | 2 | b |" in found
    assert "| rmse | 0.123, 4.5 |" in found
    assert "| true values" not in found  # they have a table of their own
    assert "| predator-prey | x1 | 96% | 79% | 100% |" in found
    assert "| toy | native | 12 | 8 × |" in found


@pytest.mark.slow
def test_site_builds_without_warnings_and_asks_the_network_for_nothing(tmp_path):
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        **{"cwd": ROOT, "env": settings, "capture_output": True, "text": True, "check": False},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    # The page for addresses that do not exist can only be shown by a server.
    pages = sorted(p for p in tmp_path.rglob("*.html") if p.name != "404.html")
    assert len(pages) > 12
    assert any('class="drawn"' in page.read_text(encoding="utf-8") for page in pages)
    if CHROMIUM is not None:
        _visit(pages)


def _visit(pages):
    """Every page in both themes, wide and on a phone: nothing said, nothing fetched, nothing too wide."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        for scheme, width in (("light", 1280), ("dark", 390)):
            tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            said, asked = [], []
            tab.on("console", lambda m, said=said: said.append(m.text))
            tab.on("pageerror", lambda e, said=said: said.append(str(e)))
            tab.on("request", lambda r, asked=asked: asked.append(r.url))
            for page in pages:
                tab.goto(page.as_uri())
                assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), page.name
            assert said == []
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        browser.close()
