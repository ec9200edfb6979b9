"""``gpnode check``: what is odd about data and problem, before any sampling."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnode.cli.exits import OK, add_command
from gpnode.cli.fitting import add_problem_arguments, problem_of

if TYPE_CHECKING:  # commands load what they need when they run: help is there at once
    from gpnode.data.observations import Observations
    from gpnode.results.posterior import Posterior


def add_commands(commands: Any) -> None:
    """Add ``check``."""
    parser = add_command(
        commands,
        "check",
        "look at data and problem before sampling",
        "gpnode check lynx-hare/problem.toml -o lynx-hare/check",
        _check,
    )
    add_problem_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, help="directory for a picture of the data and the first fit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def _check(options: argparse.Namespace) -> int:
    problem = problem_of(options)  # bad input is refused before what takes long is loaded
    print(problem.data, "\n", flush=True)
    from gpnode.fitting.expecting import expected_seconds
    from gpnode.fitting.single import run_fit
    from gpnode.inference.running.budget import time_in_words
    from gpnode.inference.running.progress import Display
    from gpnode.inference.samplers.laplace import Laplace

    with Display(not options.quiet) as display:
        posterior = run_fit(problem.model, problem.data, Laplace(draws=1000), options.seed, display, None, None)
        seconds = expected_seconds(problem.model, problem.data, problem.method, options.seed, display.say)
    remarks = fit_remarks(posterior) + data_remarks(problem.data)
    print("What stands out:" if remarks else "Nothing stands out.")
    for remark in remarks:
        print(f"  - {remark}")
    print(f"\nA fit takes about {time_in_words(seconds)} on this machine; half or twice as long is usual.")
    if options.output is not None:
        _draw(posterior, options.output)
        print(f"drawn: {options.output}/data.png")
    return OK


def data_remarks(data: Observations) -> list[str]:
    """Gaps, few measurements, values that hardly change, very different scales, repeated values."""
    import numpy as np

    remarks = []
    for s in data.series:
        name = s.variable if len(data.experiments) == 1 else f"{s.variable} in {s.experiment}"
        if s.times.size < 8:
            remarks.append(f"{name} has only {s.times.size} measurements.")
        times = np.unique(s.times)
        steps = np.diff(times)
        for i in np.flatnonzero(steps > 4.0 * np.median(steps)) if steps.size > 2 else ():
            remarks.append(f"{name} has a gap from {times[i]:g} to {times[i + 1]:g}.")
        std, level = float(np.std(s.values)), float(np.abs(s.values).max())
        if std < 1e-3 * level:
            remarks.append(f"{name} hardly changes: its std is {std:.2g} around {level:.3g}.")
        if std > 0 and np.mean(np.diff(s.values) == 0) > 0.3:
            remarks.append(f"{name} often repeats the value before: was it rounded or filled in?")
    levels = {v: float(np.abs(data.values_of(v)).max()) for v in data.variables}
    if len(levels) > 1 and max(levels.values()) > 1e4 * min(levels.values()):
        remarks.append("variables differ in size by more than 10,000: are their units as meant?")
    return remarks


def fit_remarks(posterior: Posterior) -> list[str]:
    """What the curvature at the highest density says the data cannot tell."""
    import numpy as np

    from gpnode.results.diagnostics.audit import widths_against_prior

    remarks = [
        f"{name} would stay about as wide as its prior: these data say next to nothing about it."
        for name, ratio in widths_against_prior(posterior).items()
        if ratio > 0.9
    ]
    draws = dict(posterior.scalars())
    names = [n for n, v in draws.items() if np.std(v) > 0]
    table = np.corrcoef([draws[n].ravel() for n in names]) if len(names) > 1 else np.eye(1)
    for i, k in zip(*np.triu_indices(len(names), 1), strict=True):
        if abs(table[i, k]) > 0.98:
            remarks.append(f"{names[i]} and {names[k]} can hardly be told apart (correlation {table[i, k]:+.2f}).")
    maxima = posterior.record.start.maxima
    if len(maxima) > 1:
        remarks.append(f"the search found {len(maxima)} ways to explain the data; chains will start in each.")
    failed = [check for check in posterior.diagnose().failed if check.half == "model"]
    warnings = [
        f"the equations may come out wrong: {check.reason} ({check.finding}). {check.remedy}" for check in failed
    ]
    return warnings + remarks


def _draw(posterior: Posterior, folder: Path) -> None:
    import matplotlib.pyplot as plt
    import numpy as np

    from gpnode.render import plots
    from gpnode.results.forecasts import forecast

    plt.switch_backend("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    name = posterior.data.experiments[0]
    end = max(s.times[-1] for s in posterior.data.series if s.experiment == name)
    times = np.linspace(posterior.data.start[name], end, 200)
    axes = plots.paths(forecast(posterior, times, experiment=name, max_draws=200), posterior.data)
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    figure.savefig(folder / "data.png", dpi=130)
