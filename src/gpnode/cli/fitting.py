"""``gpnode fit`` and ``gpnode resume``: from a problem to results, however often the run is stopped."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from gpnode._files import make_folder, write_text
from gpnode.cli.exits import add_command
from gpnode.cli.runs import CHECKPOINT, exit_code_of, pair, verdict_as_json
from gpnode.errors import CheckpointError, ModelError
from gpnode.fitting.single import default_method, fit
from gpnode.formats.base import ProblemFile
from gpnode.formats.problem_toml import read_problem
from gpnode.formats.registry import format_of, read_kept_problem
from gpnode.inference.running.budget import read_budget
from gpnode.inference.running.checkpoint import check_same, new_run, read_run
from gpnode.problem.binding import fingerprint


def add_commands(commands: Any) -> None:
    """Add ``fit`` and ``resume``."""
    start = add_command(
        commands,
        "fit",
        "infer equations and forecasts from measurements",
        "gpnode fit lynx-hare/problem.toml -o lynx-hare/fit",
        _fit,
    )
    add_problem_arguments(start)
    start.add_argument("-o", "--output", type=Path, required=True, help="directory for results")
    start.add_argument("--seed", type=int, help="seed of the chains; by default that of the problem, or 0")
    start.add_argument("--anew", action="store_true", help="drop what an earlier run left in the directory")
    _add_output_arguments(start)

    resume = add_command(
        commands,
        "resume",
        "go on with a fit that was stopped, or add draws to a finished one",
        "gpnode resume lynx-hare/fit",
        _resume,
    )
    resume.add_argument("run", type=Path, help="directory of a fit")
    resume.add_argument("--draws", type=int, help="draws per chain to have in the end; by default as asked for before")
    _add_output_arguments(resume)


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", type=_budget, metavar="TIME", help="time it may take, such as 90s, 5m or 2h")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def _budget(text: str) -> float | None:
    try:
        return read_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
    format = format_of(options.problem)
    if format is not None:
        table_options = (options.time, options.time_unit, options.equation, options.degree)
        if any(value is not None for value in table_options) or options.prior or options.log or options.no_gp:
            raise ModelError("a problem file says everything itself; give options only with a CSV file.")
        return format.read(options.problem)
    content: dict[str, Any] = {"data": {"file": options.problem.name}, "model": {}}
    content["data"] |= {k: v for k, v in (("time", options.time), ("time_unit", options.time_unit)) if v}
    if options.equation:
        content["model"]["equations"] = options.equation
        content["parameters"] = dict(pair(text, "--prior") for text in options.prior)
    elif options.prior:
        raise ModelError("--prior is for --equation.")
    if options.degree is not None:
        content["model"]["degree"] = options.degree
    if options.log:
        content["transform"] = {"kind": "log"}
    if options.no_gp:
        content["kernel"] = {"kind": "none"}
    return read_problem(options.problem, content)


def _fit(options: argparse.Namespace) -> int:
    problem = problem_of(options)
    seed = problem.seed if options.seed is None else options.seed
    method = problem.method or default_method(problem.data)
    folder: Path = options.output
    checkpoint = folder / CHECKPOINT
    if options.anew:
        shutil.rmtree(checkpoint, ignore_errors=True)
        (folder / "posterior.nc").unlink(missing_ok=True)
    # Before anything is written: results of another run must not come under a problem that is not theirs.
    try:
        check_same(checkpoint, new_run(fingerprint(problem.model, problem.data), seed, method))
    except CheckpointError as error:
        raise CheckpointError(f"{error} With --anew, gpnode does so.") from None
    make_folder(folder)
    problem.format.write(problem, folder)
    return _run(folder, problem, method, seed, options)


def _resume(options: argparse.Namespace) -> int:
    folder: Path = options.run
    problem = read_kept_problem(folder)
    run = read_run(folder / CHECKPOINT)
    if run is None:
        raise CheckpointError(f"there is no run to go on with in {folder}. Begin one: gpnode fit PROBLEM -o {folder}")
    method = run.method
    if options.draws is not None:
        try:
            method = dataclasses.replace(method, draws=options.draws)  # type: ignore[type-var]
        except ValueError as error:
            raise ModelError(f"--{error}") from None
    return _run(folder, problem, method, run.seed, options)


def _run(folder: Path, problem: ProblemFile, method: Any, seed: int, options: argparse.Namespace) -> int:
    """Fit with a checkpoint, write results, print the verdict."""
    import matplotlib.pyplot as plt

    from gpnode.render.report.page import write_report

    plt.switch_backend("Agg")
    try:
        posterior = fit(
            problem.model,
            problem.data,
            method=method,
            seed=seed,
            progress=not options.quiet,
            checkpoint=folder / CHECKPOINT,
            budget=options.budget,
        )
        posterior.save(folder / "posterior.nc")
        write_text(folder / "equations.txt", f"{posterior.equations()}\n")
        write_report(posterior, folder / "report.html")
    except KeyboardInterrupt:
        print(f"gpnode: stopped; everything up to here is kept. Go on with: gpnode resume {folder}", file=sys.stderr)
        raise
    verdict = posterior.diagnose()
    if options.json:
        print(json.dumps(verdict_as_json(verdict)))
    else:
        print(posterior.equations(), "\n")
        print(verdict)
        print(f"\nopen {folder / 'report.html'} in a browser")
    return exit_code_of(verdict)
