"""The report in a browser."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from gpnode.render.report.page import build
from support.markup import EVIL, Structure


@pytest.fixture(scope="module")
def page(hostile):
    return build(hostile, title=EVIL)


def test_what_users_write_is_escaped(page):
    assert Structure(page).tags.count("script") == 2  # the data and the page's own
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_report_stands_alone(page):
    found = Structure(page)
    assert found.links == []
    assert "math" in found.tags
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", page)


def test_draws_without_a_path_are_counted_on_the_page(hostile, monkeypatch):
    from gpnode.render.report import paths

    whole = paths.forecast
    monkeypatch.setattr(paths, "forecast", lambda *a, **k: dataclasses.replace(whole(*a, **k), failures=7))
    assert "could not be solved: 7." in build(hostile)


CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome")) if p.exists()), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 390), ("dark", 390)])
def test_report_works_in_a_browser(page, tmp_path, scheme, width):
    playwright = pytest.importorskip("playwright.sync_api")
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        said, asked = [], []
        tab.on("console", lambda m: said.append(m.text))
        tab.on("pageerror", lambda e: said.append(str(e)))
        tab.on("dialog", lambda d: said.append("dialog"))
        tab.on("request", lambda r: asked.append(r.url))
        tab.goto(file.as_uri())
        _drive(tab)
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        browser.close()
    assert said == []
    assert all(url.startswith(("file:", "data:")) for url in asked)


def _drive(tab):
    """Use every control of the chart."""
    mean, band, dots = (tab.locator(f"#chart {what}") for what in ("path.mean", "path.band", "circle"))
    readout = tab.locator("#readout")
    first = mean.get_attribute("d")
    tab.select_option("#variable", "y")
    assert mean.get_attribute("d") != first
    before = band.get_attribute("d")
    tab.select_option("#level", "0.5")
    assert band.get_attribute("d") != before

    assert dots.count() == 10
    assert tab.locator("#chart .ahead").count() == 1
    tab.locator("#last").fill("400")  # the horizon before the end of the record: no forecast in sight
    assert dots.count() == 6
    assert tab.locator("#chart .ahead").count() == 0
    assert tab.locator("#last-time").inner_text() == "2.4"
    tab.locator("#first").fill("300")
    assert tab.locator("#first-time").inner_text() == "1.8"
    assert dots.count() == 1
    tab.locator("#first").fill("900")  # cannot pass the horizon
    assert float(tab.locator("#first-time").inner_text()) < 2.4
    tab.click("#reset")
    assert dots.count() == 10

    tab.locator("#chart").scroll_into_view_if_needed()
    box = tab.locator("#chart svg").bounding_box()
    tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    assert "50 % interval" in readout.inner_text()
    said = readout.inner_text()
    tab.locator("#chart").focus()
    tab.keyboard.press("ArrowRight")
    assert readout.inner_text() != said
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.5 * box["height"])
    tab.mouse.up()
    assert dots.count() < 10
