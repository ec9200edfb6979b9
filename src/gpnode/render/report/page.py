"""The page as a whole: verdict, equations, paths, parameters, diagnostics, settings."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gpnode._files import write_text
from gpnode.render.html.environment import render_template
from gpnode.render.html.mathml import equation_mathml
from gpnode.render.report.figures import draw_chains, draw_evidence
from gpnode.render.report.paths import gather_paths
from gpnode.results.posterior import Posterior


def write_report(
    posterior: Posterior, path: str | Path, title: str | None = None, beyond: float = 0.5, notice: str | None = None
) -> None:
    """Write one HTML page about a posterior, which needs no other file and no network.

    Parameters
    ----------
    posterior
        What the page is about.
    path
        File to write, such as ``report.html``.
    title
        Heading of the page; by default it names the variables.
    beyond
        How far forecasts run past the last measurement, as a part of the measured time.
    notice
        What to say above all else.
    """
    write_text(Path(path), build(posterior, title, beyond, notice))


def build(posterior: Posterior, title: str | None = None, beyond: float = 0.5, notice: str | None = None) -> str:
    """The page that :func:`write_report` writes, as text."""
    equations, summary = posterior.equations(), posterior.summary()
    page = render_template(
        "report/page.html",
        title=f"Equations of motion of {', '.join(posterior.data.variables)}" if title is None else title,
        notice=notice,
        verdict=posterior.diagnose(),
        equations=equations,
        formulas=[equation_mathml(e.state, e.expression()) for e in equations.equations],
        paths=gather_paths(posterior, beyond),
        summary={"columns": summary.columns, "rows": zip(summary.index, summary.to_numpy(), strict=True)},
        evidence=draw_evidence(posterior),
        figures=draw_chains(posterior),
        settings=_list_settings(posterior),
        model=json.dumps(posterior.record.model, indent=1),
        style=_read_asset("page.css"),
        script=_read_asset("page.js"),
    )
    return f"{page}\n"


def _list_settings(posterior: Posterior) -> dict[str, Any]:
    """What made these draws, by the name the page has for it."""
    record = posterior.record
    return {
        "method": record.method,
        "settings": json.dumps(record.settings),
        "seed": record.seed,
        "measurements": posterior.data.size,
        "seconds": f"{record.seconds:.0f}",
        "fingerprint of model and data": record.fingerprint[:16],
        "versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
    }


def _read_asset(name: str) -> Markup:
    # Part of this package and of the page: nothing in it comes from the user.
    return Markup(files("gpnode.render.report").joinpath(name).read_text(encoding="utf-8"))
