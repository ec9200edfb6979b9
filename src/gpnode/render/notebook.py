"""What results show of themselves in a notebook. How it looks is in the templates of :mod:`gpnode.render.html`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpnode.render.html.charts import draw_band, draw_dots, even_positions
from gpnode.render.html.environment import format_interval, format_number, render_template
from gpnode.render.html.mathml import equation_mathml

if TYPE_CHECKING:  # measurements are shown without loading the code of results
    from gpnode.data.observations import Observations
    from gpnode.results.diagnostics.verdict import Verdict
    from gpnode.results.equations.written import Equations
    from gpnode.results.forecasts import Forecast
    from gpnode.results.posterior import Posterior

_MOST_SERIES = 40
_MOST_NUMBERS = 60
_MOST_TIMES = 5


def observations(data: Observations) -> str:
    """A line of text and a chart for each series."""
    several = len(data.experiments) > 1
    unit = f" ({data.time_unit})" if data.time_unit else ""
    rows = [
        [
            s.variable,
            *([s.experiment] if several else []),
            draw_dots(s.times, s.values),
            s.times.size,
            f"{s.times[0]:.6g} to {s.times[-1]:.6g}",
            format_number(s.values.min()),
            format_number(s.values.max()),
        ]
        for s in data.series[:_MOST_SERIES]
    ]
    return _render(
        "observations",
        headline=data.headline,
        head=["variable", *(["experiment"] if several else []), "", "values", f"time{unit}", "lowest", "highest"],
        rows=rows,
        left=3 if several else 2,
        left_out=len(data.series) - len(rows),
    )


def posterior(posterior: Posterior) -> str:
    """The verdict, then the summary of all numbers."""
    summary = posterior.summary()
    rows = [
        [name, *map(format_number, row)]
        for name, row in zip(summary.index[:_MOST_NUMBERS], summary.to_numpy(), strict=False)
    ]
    return _render(
        "posterior",
        verdict=posterior.diagnose(),
        headline=posterior.headline,
        head=["", *summary.columns],
        rows=rows,
        left_out=len(summary) - len(rows),
    )


def verdict(verdict: Verdict) -> str:
    """The verdict in a sentence, what helps, and all checks."""
    return _render("verdict", verdict=verdict)


def forecast(forecast: Forecast) -> str:
    """A chart for each state, with numbers at a few times."""
    times, states = forecast.times, forecast.states["state"].to_numpy()
    bounds = forecast.interval()
    low, mean, high = (a.transpose("time", "state").to_numpy() for a in (bounds[0], forecast.mean(), bounds[1]))
    shown = even_positions(times.size, _MOST_TIMES)
    rows = [
        [
            state,
            draw_band(times, low[:, d], mean[:, d], high[:, d]),
            *(f"{format_number(mean[i, d])} {format_interval(low[i, d], high[i, d])}" for i in shown),
        ]
        for d, state in enumerate(states)
    ]
    return _render(
        "forecast",
        headline=f"Forecast: {forecast.states.sizes['draw']} paths at {times.size} times",
        head=["state", "", *(f"time {times[i]:.6g}" for i in shown)],
        rows=rows,
        failures=forecast.failures,
    )


def equations(equations: Equations) -> str:
    """The typeset equations, then tables of parameters and of terms."""
    tables: list[tuple[list[str], list[list[str]]]] = []
    if equations.parameters:
        rows = [[p.name, format_number(p.value), format_interval(p.low, p.high)] for p in equations.parameters]
        tables.append((["parameter", "value", "95 % interval"], rows))
    for e in equations.equations:
        if e.terms:
            rows = [
                [
                    t.term,
                    format_number(t.mean),
                    format_interval(t.low, t.high),
                    "fixed" if t.probability is None else f"{t.probability:.2f}",
                ]
                for t in e.terms
            ]
            tables.append(([f"terms of d{e.state}/dt", "mean", "95 % interval", "active"], rows))
    formulas = [equation_mathml(e.state, e.expression()) for e in equations.equations]
    return _render(
        "equations",
        formulas=formulas,
        tables=tables,
        caption=equations.caption,
        alternatives=equations.alternatives,
    )


def _render(name: str, **values: object) -> str:
    # Plain text: Markup would escape other HTML that a caller joins to it.
    return str(render_template(f"notebook/{name}.html", **values))
