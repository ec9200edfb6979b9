"""One self-contained HTML page about a posterior: verdict, equations, parameters, paths, diagnostics.

No network, no outside script or font. Whatever the user named, wrote or measured is escaped.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from gpnode._files import write_text
from gpnode.errors import GpnodeError
from gpnode.render import plots
from gpnode.render.mathml import equation_mathml
from gpnode.results.equations.written import Equation, Equations
from gpnode.results.forecasts import forecast
from gpnode.results.posterior import Posterior

_INTERVALS = (0.5, 0.8, 0.9, 0.95)
_POINTS = 241


def write_report(posterior: Posterior, path: str | Path, title: str | None = None, beyond: float = 0.5) -> None:
    """Write the page. Forecasts run ``beyond`` times the record past its end."""
    write_text(Path(path), build(posterior, title, beyond))


def build(posterior: Posterior, title: str | None = None, beyond: float = 0.5) -> str:
    """The page as text."""
    title = f"Equations of motion of {', '.join(posterior.data.variables)}" if title is None else title
    verdict = posterior.diagnose()
    tone = "good" if verdict.converged else "bad"
    assets = files("gpnode.render.report")
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="verdict {tone}" role="status">{escape(verdict.headline)}</p>',
        "".join(f'<p class="remedy">→ {escape(remedy)}</p>' for remedy in verdict.remedies),
        "</header>",
        _section("Equations", _equations(posterior.equations())),
        _section("Paths and forecasts", _paths(posterior, beyond)),
        _section("Parameters", _parameters(posterior)),
        _section("Diagnostics", _diagnostics(posterior, verdict.checks)),
        _section("How this was made", _settings(posterior)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{assets.joinpath('page.css').read_text()}</style></head>"
        f"<body><main>{''.join(body)}</main><script>{assets.joinpath('page.js').read_text()}</script></body></html>\n"
    )


def _section(title: str, content: str) -> str:
    name = title.lower().replace(" ", "-")
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{content}</section>'


# -- equations -----------------------------------------------------------------------------------


def _equations(found: Equations) -> str:
    parts = [f'<div class="equation">{equation_mathml(e.state, e.expression())}</div>' for e in found.equations]
    if found.parameters:
        rows = "".join(
            f"<tr><th scope='row'>{escape(n)}</th><td>{m:.4g}</td><td>[{a:.4g}, {b:.4g}]</td></tr>"
            for n, m, a, b in found.parameters
        )
        head = "<tr><th>parameter</th><th>mean</th><th>95 % interval</th></tr>"
        parts.append(f'<div class="wide"><table><thead>{head}</thead>{rows}</table></div>')
    parts += [_terms(e) for e in found.equations if e.terms]
    return "".join(parts)


def _terms(equation: Equation) -> str:
    rows = []
    for t in equation.terms:
        chance = 1.0 if t.probability is None else t.probability
        text = "fixed" if t.probability is None else f"{chance:.2f}"
        bar = f'<span class="bar"><span style="width:{100 * chance:.0f}%"></span></span>{text}'
        rows.append(
            f"<tr><th scope='row'>{escape(t.term)}</th><td>{t.mean:.4g}</td>"
            f"<td>[{t.low:.4g}, {t.high:.4g}]</td><td>{bar}</td></tr>"
        )
    head = "<tr><th>term</th><th>mean</th><th>95 % interval</th><th>active</th></tr>"
    forms = "; ".join(f"{escape(' + '.join(f.terms) or 'none')} ({f.probability:.0%})" for f in equation.forms[:3])
    return (
        f"<h3>Terms of d{escape(equation.state)}/dt</h3>"
        f'<div class="wide"><table><thead>{head}</thead>{"".join(rows)}</table></div>'
        f"<p>Most probable sets of active terms: {forms}.</p>"
    )


# -- paths ---------------------------------------------------------------------------------------


def _paths(posterior: Posterior, beyond: float) -> str:
    try:
        content = {name: _run(posterior, name, beyond) for name in posterior.data.experiments}
    except GpnodeError as error:
        return f"<p>No paths can be shown: {escape(str(error))}</p>"
    states = [str(s) for s in posterior.problem.states] if posterior.problem else []
    unit = posterior.data.time_unit or ""
    levels = "".join(f'<option value="{p}"{" selected" * (p == 0.95)}>{p:.0%}</option>' for p in _INTERVALS)
    runs = "".join(f'<option value="{escape(n)}">{escape(n)}</option>' for n in content)
    variables = "".join(f'<option value="{escape(s)}">{escape(s)}</option>' for s in states)
    hidden = " hidden" if len(content) == 1 else ""
    plain = "" if any("ode" in shapes for run in content.values() for shapes in run["states"].values()) else " hidden"
    return (
        '<form class="controls" onsubmit="return false">'
        f'<label>variable <select id="variable">{variables}</select></label>'
        f'<label{hidden}>run <select id="run">{runs}</select></label>'
        f'<label>interval <select id="level">{levels}</select></label>'
        f'<label{plain}><input type="checkbox" id="ode"> equations alone</label>'
        '<label class="slider">start <input type="range" id="first" min="0" max="1000" value="0">'
        '<output id="first-time" for="first"></output></label>'
        '<label class="slider">horizon <input type="range" id="last" min="0" max="1000" value="1000">'
        '<output id="last-time" for="last"></output></label>'
        '<button type="button" id="reset">whole range</button></form>'
        '<div id="chart" role="img" aria-label="Measurements, mean path and interval over time" tabindex="0"></div>'
        '<p id="readout" aria-live="polite">Point at the chart, or use the arrow keys on it, to read values; '
        "drag across it to zoom.</p>"
        f"{_left_out(content)}"
        f'<script type="application/json" id="paths">{_json({"runs": content, "unit": unit})}</script>'
    )


def _left_out(runs: Mapping[str, Any]) -> str:
    """Says how many draws have no path, where there are any."""
    counts = {name: run["failures"] for name, run in runs.items() if run["failures"]}
    where = ", ".join(f"{n}" if len(runs) == 1 else f"{n} of run {name}" for name, n in counts.items())
    return f"<p>Draws left out because their path could not be solved: {escape(where)}.</p>" if counts else ""


def _run(posterior: Posterior, name: str, beyond: float) -> dict[str, Any]:
    data = posterior.data
    own = [s for s in data.series if s.experiment == name]
    start, end = data.start[name], max(s.times[-1] for s in own)
    times = np.linspace(start, end + beyond * (end - start), _POINTS)
    paths = forecast(posterior, times, experiment=name, max_draws=500)
    measured = {s.variable: {"t": s.times, "y": s.values} for s in own}
    found: dict[str, Any] = {"t": times, "end": end, "failures": paths.failures, "states": {}}
    shown = {"full": _shape(paths.states)}
    if not np.allclose(paths.ode, paths.states, rtol=1e-9):
        shown["ode"] = _shape(paths.ode)
    for state in map(str, paths.states["state"].to_numpy()):
        shapes = {kind: shape[state] for kind, shape in shown.items()}
        found["states"][state] = shapes | {"data": measured.get(state)}
    return found


def _shape(draws: xr.DataArray) -> dict[str, dict[str, Any]]:
    """Mean (times,) and intervals of paths (draw, time, state), by state."""
    mean = draws.mean("draw")
    ends = {p: draws.quantile([0.5 - 0.5 * p, 0.5 + 0.5 * p], "draw") for p in _INTERVALS}
    return {
        str(state): {
            "mean": mean.sel(state=state).to_numpy(),
            "bands": {str(p): e.sel(state=state).to_numpy() for p, e in ends.items()},
        }
        for state in draws["state"].to_numpy()
    }


def _json(content: Any) -> str:
    """JSON that can stand inside a script element: no character of it ends the element."""
    text = json.dumps(_plain(content), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


# -- the rest ----------------------------------------------------------------------------------------


def _parameters(posterior: Posterior) -> str:
    table = posterior.summary()
    head = "".join(f"<th>{escape(str(c))}</th>" for c in ("", *table.columns))
    rows = "".join(
        f"<tr><th scope='row'>{escape(str(name))}</th>{''.join(f'<td>{v:.4g}</td>' for v in row)}</tr>"
        for name, row in zip(table.index, table.to_numpy(), strict=True)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>{rows}</table></div>'


def _diagnostics(posterior: Posterior, checks: Any) -> str:
    marks = {True: ("good", "ok"), False: ("bad", "fail"), None: ("", "note")}
    rows = "".join(
        f'<tr><td class="{marks[c.passed][0]}">{marks[c.passed][1]}</td><th scope="row">{escape(c.name)}</th>'
        f'<td class="text">{escape(c.finding)}</td></tr>'
        for c in checks
    )
    figures = [("Measurements minus paths", plots.residuals(posterior))] if posterior.problem else []
    if posterior.is_sample:
        figures.append(("Chains and ranks", plots.traces(posterior)))
    shown = "".join(_figure(what, axes) for what, axes in figures)
    return f'<div class="wide"><table>{rows}</table></div>{shown}'


def _figure(what: str, axes: Any) -> str:
    figure = axes[0].get_figure(root=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    image = base64.b64encode(buffer.getvalue()).decode()
    return (
        f"<figure><figcaption>{escape(what)}</figcaption>"
        f'<img alt="{escape(what)}" src="data:image/png;base64,{image}"></figure>'
    )


def _settings(posterior: Posterior) -> str:
    record = posterior.record
    rows = {
        "method": record.method,
        "settings": json.dumps(record.settings),
        "seed": record.seed,
        "measurements": posterior.data.size,
        "seconds": f"{record.seconds:.0f}",
        "fingerprint of model and data": record.fingerprint[:16],
        "versions": ", ".join(f"{k} {v}" for k, v in record.versions.items()),
    }
    lines = "".join(
        f"<tr><th scope='row'>{escape(k)}</th><td class='text'>{escape(str(v))}</td></tr>" for k, v in rows.items()
    )
    described = escape(json.dumps(record.model, indent=1))
    return (
        f'<div class="wide"><table>{lines}</table></div>'
        "<p>The same problem file, seed and versions give the same draws: <code>gpnode fit problem.toml</code>.</p>"
        f"<details><summary>the model in full</summary><pre>{described}</pre></details>"
    )
