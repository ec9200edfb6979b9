"""Commands on the results of a fit: forecast, diagnose, compare, export, report."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnode._files import write_text
from gpnode.cli.answers import EQUATIONS, Answers
from gpnode.cli.exits import OK, add_command
from gpnode.errors import ModelError

if TYPE_CHECKING:  # commands load what they need when they run: help is there at once
    from gpnode.data.experiments import Experiment
    from gpnode.results.posterior import Posterior


_EXPORTS = {
    "latex": "LaTeX",
    "python": "a Python module that simulates them",
    "sympy": "sympy",
    "csv": "draws as CSV",
    "notebook": "a notebook that opens the fit and shows its figures",
}


def add_commands(commands: Any) -> None:
    """Add the commands of this module."""
    forecast = add_command(
        commands,
        "forecast",
        "write paths with their uncertainty as CSV",
        "gpnode forecast lynx-hare/fit --until 1930 -o forecast.csv",
        _forecast,
    )
    forecast.add_argument("run", type=Path, help="directory of a fit")
    forecast.add_argument("--until", type=float, required=True, help="last time, in the unit of the data")
    forecast.add_argument("--points", type=int, default=200, help="number of times")
    forecast.add_argument(
        "--initial", action="append", default=[], metavar="STATE=VALUE", help="start afresh from here"
    )
    forecast.add_argument("--experiment", "--trajectory", help="which experiment of the data; by default the first")
    forecast.add_argument("--doses", type=Path, help="table of other doses than those that were given")
    forecast.add_argument(
        "--condition", action="append", default=[], metavar="NAME=VALUE", help="another value of what is given"
    )
    forecast.add_argument("--new-individual", action="store_true", help="draw what differs from its population")
    forecast.add_argument("--noise", action="store_true", help="add measurement noise")
    forecast.add_argument("--interval", type=float, default=0.95, help="probability of the interval")
    forecast.add_argument("--seed", type=int, default=0, help="seed of the draws")
    forecast.add_argument("-o", "--output", type=Path, help="file to write; by default print")

    diagnose = add_command(
        commands, "diagnose", "say whether to trust a fit", "gpnode diagnose lynx-hare/fit", _diagnose
    )
    diagnose.add_argument("run", type=Path, help="directory of a fit")
    diagnose.add_argument("--json", action="store_true", help="as JSON")

    compare = add_command(
        commands,
        "compare",
        "compare fits of the same data by leaving measurements out",
        "gpnode compare lynx-hare/fit lynx-hare/other",
        _compare,
    )
    compare.add_argument("runs", type=Path, nargs="+", help="directories of fits")

    export = add_command(
        commands, "export", "print equations, draws or a notebook", "gpnode export lynx-hare/fit --latex", _export
    )
    export.add_argument("run", type=Path, help="directory of a fit")
    kind = export.add_mutually_exclusive_group(required=True)
    for name, what in _EXPORTS.items():
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=what)

    report = add_command(commands, "report", "write the report again", "gpnode report lynx-hare/fit", _report)
    report.add_argument("run", type=Path, help="directory of a fit")
    report.add_argument("-o", "--output", type=Path, help="file to write; by default report.html beside the fit")


def pair(text: str, option: str) -> tuple[str, Any]:
    """Name and value of an option such as ``hare=20``; numbers as numbers."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ModelError(f"{option} must look like NAME=VALUE; got {text!r:.80}.")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


def _forecast(options: argparse.Namespace) -> int:
    import numpy as np
    import pandas as pd

    from gpnode.formats.runs import load_run
    from gpnode.results.forecasts import forecast

    posterior = load_run(options.run)
    name = options.experiment or posterior.data.experiments[0]
    if name not in posterior.data.start:
        raise ModelError(f"there is no experiment {name!r}; there are {', '.join(posterior.data.experiments)}.")
    if not 0 < options.interval < 1:
        raise ModelError(f"--interval must lie between 0 and 1; got {options.interval}.")
    if not 2 <= options.points <= 100_000:
        raise ModelError(f"--points must lie between 2 and 100000; got {options.points}.")
    start = posterior.data.start[name]
    if not options.until > start:
        raise ModelError(f"--until must be after the start, {start:g}.")
    initial = dict(pair(text, "--initial") for text in options.initial) or None
    if initial and not all(isinstance(v, float) for v in initial.values()):
        raise ModelError("--initial takes numbers, such as hare=20.")
    ahead = forecast(
        posterior,
        np.linspace(start, options.until, options.points),
        initial=initial,
        experiment=name,
        done=_done(options, name, posterior),
        new_individual=options.new_individual,
        noise=options.noise,
        seed=options.seed,
    )
    table = pd.DataFrame(ahead.table(options.interval)).to_csv(index=False, float_format="%.6g")
    if options.output is None:
        print(table, end="")
    else:
        write_text(options.output, table)
        print(f"written: {options.output}")
    if ahead.outside:
        print(
            f"the start of {', '.join(ahead.outside)} lies outside all that was measured: nothing was seen of what the "
            "equations do there",
            file=sys.stderr,
        )
    if ahead.failures:
        print(f"{ahead.failures} draws could not be solved and were left out")
    return OK


def _done(options: argparse.Namespace, experiment: str, posterior: Posterior) -> Experiment | None:
    """What is done in place of what was; None if nothing else is."""
    if options.doses is None and not options.condition:
        return None
    from gpnode.data.experiments import Experiment
    from gpnode.data.protocols import read_experiments

    before = posterior.data.done.get(experiment, Experiment())
    conditions = dict(pair(text, "--condition") for text in options.condition)
    doses = before.doses
    if options.doses is not None:
        assert posterior.problem is not None
        doses = read_experiments([experiment], doses=options.doses, states=posterior.problem.states)[experiment].doses
    return Experiment(inputs=conditions, doses=doses, events=before.events)


def _diagnose(options: argparse.Namespace) -> int:
    verdict = Answers(options.run).verdict()
    print(json.dumps(verdict["content"]) if options.json else verdict["text"])
    return int(verdict["exit_code"])


def _compare(options: argparse.Namespace) -> int:
    from gpnode.formats.runs import load_run
    from gpnode.results.comparison import compare, in_words

    if len(options.runs) < 2:
        raise ModelError("give at least two fits to compare.")
    ranking = compare({str(run): load_run(run) for run in options.runs})
    print(ranking[["rank", "elpd_loo", "elpd_diff", "dse", "weight", "warning"]].to_string(float_format="%.3g"))
    print(f"\n{in_words(ranking)}")
    return OK


def _export(options: argparse.Namespace) -> int:
    answers = Answers(options.run)
    if options.kind in EQUATIONS:
        print(answers.equations(options.kind), end="")
    elif options.kind == "notebook":
        from gpnode.render.notebook_file import write_notebook

        print(write_notebook(answers.posterior, options.run), end="")
    else:
        import pandas as pd

        flat = {name: values.ravel() for name, values in answers.posterior.scalars()}
        print(pd.DataFrame(flat).to_csv(index=False, float_format="%.8g"), end="")
    return OK


def _report(options: argparse.Namespace) -> int:
    target = options.output or options.run / "report.html"
    write_text(target, Answers(options.run).report())
    print(f"open {target} in a browser")
    return OK
