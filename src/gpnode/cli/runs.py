"""Commands on problems and their results: fit, forecast, diagnose, compare, export, report."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from ..diagnostics import Verdict
from ..errors import ModelError
from ..posterior import Posterior
from ..problem_file import ProblemFile, read_problem, write_problem
from .exits import NOT_CONVERGED, OK, add_command


def add_commands(commands: Any) -> None:
    """Add the commands of this module."""
    fit = add_command(
        commands,
        "fit",
        "infer equations and forecasts from measurements",
        "gpnode fit lynx-hare/problem.toml -o lynx-hare/fit",
        _fit,
    )
    add_problem_arguments(fit)
    fit.add_argument("-o", "--output", type=Path, required=True, help="directory for results")
    fit.add_argument("--seed", type=int, help="seed of the chains; by default that of the problem, or 0")
    fit.add_argument("-q", "--quiet", action="store_true", help="no progress")
    fit.add_argument("--json", action="store_true", help="print the verdict as JSON")

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
    forecast.add_argument("--trajectory", help="which run of the data; by default the first")
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

    export = add_command(commands, "export", "print equations or draws", "gpnode export lynx-hare/fit --latex", _export)
    export.add_argument("run", type=Path, help="directory of a fit")
    kind = export.add_mutually_exclusive_group(required=True)
    for name, what in (("latex", "LaTeX"), ("python", "a Python module"), ("sympy", "sympy"), ("csv", "draws as CSV")):
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=what)

    report = add_command(commands, "report", "write the report again", "gpnode report lynx-hare/fit", _report)
    report.add_argument("run", type=Path, help="directory of a fit")
    report.add_argument("-o", "--output", type=Path, help="file to write; by default report.html beside the fit")


def add_problem_arguments(parser: argparse.ArgumentParser) -> None:
    """How a problem is given: a TOML file, or a CSV file with options."""
    parser.add_argument("problem", type=Path, help="problem.toml, or a CSV file with the options below")
    parser.add_argument("--time", help="column of times (default: time)")
    parser.add_argument("--time-unit", help="such as day")
    parser.add_argument("--equation", action="append", help='such as "dS/dt = -beta*S*I"; once for each state')
    parser.add_argument(
        "--prior", action="append", default=[], metavar="NAME=PRIOR", help='such as "beta=LogNormal(0, 1)"'
    )
    parser.add_argument("--degree", type=int, help="degree of the dictionary, where no equations are given")
    parser.add_argument("--log", action="store_true", help="noise is multiplicative")
    parser.add_argument("--no-gp", action="store_true", help="no Gaussian process on top of the equations")


def problem_of(options: argparse.Namespace) -> ProblemFile:
    """The problem the arguments describe."""
    if options.problem.suffix.lower() == ".toml":
        given = (options.time, options.time_unit, options.equation, options.degree)
        if any(value is not None for value in given) or options.prior or options.log or options.no_gp:
            raise ModelError("a problem file says everything itself; give options only with a CSV file.")
        return read_problem(options.problem)
    content: dict[str, Any] = {"data": {"file": options.problem.name}, "model": {}}
    content["data"] |= {k: v for k, v in (("time", options.time), ("time_unit", options.time_unit)) if v}
    if options.equation:
        content["model"]["equations"] = options.equation
        content["parameters"] = dict(_pair(text, "--prior") for text in options.prior)
    elif options.prior:
        raise ModelError("--prior is for --equation.")
    if options.degree is not None:
        content["model"]["degree"] = options.degree
    if options.log:
        content["transform"] = {"kind": "log"}
    if options.no_gp:
        content["kernel"] = {"kind": "none"}
    return read_problem(options.problem, content)


def _pair(text: str, option: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ModelError(f"{option} must look like NAME=VALUE; got {text!r:.80}.")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


def load_run(folder: Path) -> tuple[Posterior, ProblemFile]:
    """The posterior in a directory of results, with its model."""
    problem = read_problem(folder / "problem.toml")
    return Posterior.load(folder / "posterior.nc", problem.model), problem


def _fit(options: argparse.Namespace) -> int:
    import matplotlib.pyplot as plt

    from ..inference import fit
    from ..report import write_report

    plt.switch_backend("Agg")
    problem = problem_of(options)
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    _keep_problem(problem, folder)
    seed = problem.seed if options.seed is None else options.seed
    posterior = fit(problem.model, problem.data, method=problem.method, seed=seed, progress=not options.quiet)
    posterior.save(folder / "posterior.nc")
    (folder / "equations.txt").write_text(f"{posterior.equations()}\n", encoding="utf-8")
    write_report(posterior, folder / "report.html")
    verdict = posterior.diagnose()
    if options.json:
        print(json.dumps(_verdict_as_json(verdict)))
    else:
        print(posterior.equations(), "\n")
        print(verdict)
        print(f"\nopen {folder / 'report.html'} in a browser")
    return OK if verdict.converged else NOT_CONVERGED


def _keep_problem(problem: ProblemFile, folder: Path) -> None:
    """Copy what was run beside its results, so that the directory stands by itself."""
    target = folder / problem.data_file.name
    if target.resolve() != problem.data_file.resolve():
        shutil.copyfile(problem.data_file, target)
    content = dict(problem.content)
    content["data"] = {**content["data"], "file": target.name}
    write_problem(content, folder / "problem.toml")


def _forecast(options: argparse.Namespace) -> int:
    import numpy as np
    import pandas as pd

    from ..forecast import forecast

    posterior, _ = load_run(options.run)
    name = options.trajectory or posterior.data.trajectories[0]
    if name not in posterior.data.start:
        raise ModelError(f"there is no trajectory {name!r}; there are {', '.join(posterior.data.trajectories)}.")
    if not 0 < options.interval < 1:
        raise ModelError(f"--interval must lie between 0 and 1; got {options.interval}.")
    if not 2 <= options.points <= 100_000:
        raise ModelError(f"--points must lie between 2 and 100000; got {options.points}.")
    start = posterior.data.start[name]
    if not options.until > start:
        raise ModelError(f"--until must be after the start, {start:g}.")
    initial = dict(_pair(text, "--initial") for text in options.initial) or None
    if initial and not all(isinstance(v, float) for v in initial.values()):
        raise ModelError("--initial takes numbers, such as hare=20.")
    found = forecast(
        posterior,
        np.linspace(start, options.until, options.points),
        initial=initial,
        trajectory=name,
        noise=options.noise,
        seed=options.seed,
    )
    table = pd.DataFrame(found.table(options.interval)).to_csv(index=False, float_format="%.6g")
    if options.output is None:
        print(table, end="")
    else:
        options.output.write_text(table, encoding="utf-8")
        print(f"written: {options.output}")
    if found.failures:
        print(f"{found.failures} draws could not be solved and were left out")
    return OK


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "converged": verdict.converged,
        "checks": [
            {"name": c.name, "passed": c.passed, "finding": c.finding, "remedy": c.remedy} for c in verdict.checks
        ],
    }


def _diagnose(options: argparse.Namespace) -> int:
    posterior, _ = load_run(options.run)
    verdict = posterior.diagnose()
    print(json.dumps(_verdict_as_json(verdict)) if options.json else verdict)
    return OK if verdict.converged else NOT_CONVERGED


def _compare(options: argparse.Namespace) -> int:
    from ..loo import compare

    if len(options.runs) < 2:
        raise ModelError("give at least two fits to compare.")
    found = compare({str(run): load_run(run)[0] for run in options.runs})
    print(found[["rank", "elpd_loo", "elpd_diff", "dse", "weight", "warning"]].to_string(float_format="%.3g"))
    return OK


def _export(options: argparse.Namespace) -> int:
    posterior, _ = load_run(options.run)
    equations = posterior.equations()
    if options.kind == "csv":
        flat = {name: values.ravel() for name, values in posterior.scalars()}
        import pandas as pd

        print(pd.DataFrame(flat).to_csv(index=False, float_format="%.8g"), end="")
    elif options.kind == "sympy":
        for state, right in equations.expressions().items():
            print(f"{state}: {right!r}")
    else:
        print(equations.latex() if options.kind == "latex" else equations.python(), end="")
        print()
    return OK


def _report(options: argparse.Namespace) -> int:
    import matplotlib.pyplot as plt

    from ..report import write_report

    plt.switch_backend("Agg")
    posterior, _ = load_run(options.run)
    target = options.output or options.run / "report.html"
    write_report(posterior, target)
    print(f"open {target} in a browser")
    return OK
