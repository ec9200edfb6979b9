"""``gpnode fit`` and ``gpnode resume``: from a problem to results, however often the run is stopped."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnode._files import make_folder, write_text
from gpnode.cli.answers import EQUATIONS, Answers
from gpnode.cli.exits import add_command
from gpnode.cli.runs import pair
from gpnode.errors import CheckpointError, DataError, ModelError
from gpnode.inference.running.budget import read_budget

if TYPE_CHECKING:  # commands load what they need when they run: help is there at once
    from gpnode.formats.base import ProblemFile
    from gpnode.results.posterior import Posterior

DRAFT = "A first look, by the normal approximation at the maximum, while chains run: they will replace this page."


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
    """How a problem is given: a TOML file, or a table with options."""
    parser.add_argument(
        "problem",
        type=Path,
        help="problem.toml, a PEtab problem (.yaml), or a table (CSV, .xlsx)",
    )
    add_table_arguments(parser)
    model = parser.add_argument_group("the model of a table")
    model.add_argument("--equation", action="append", help='such as "dS/dt = -beta*S*I"; once for each state')
    model.add_argument(
        "--prior", action="append", default=[], metavar="NAME=PRIOR", help='such as "beta=LogNormal(0, 1)"'
    )
    model.add_argument(
        "--observable", action="append", default=[], metavar="NAME=FORMULA", help='what is no state: "total=g*(a+b)"'
    )
    model.add_argument(
        "--initial",
        action="append",
        default=[],
        metavar="STATE=VALUE",
        help="where a state starts, or its prior",
    )
    model.add_argument("--degree", type=int, help="degree of the dictionary, where no equations are given")
    model.add_argument("--log", action="store_true", help="noise is multiplicative")
    model.add_argument("--noise", metavar="STD", help="standard deviation of the noise, a number or a prior")
    model.add_argument("--no-gp", action="store_true", help="no Gaussian process on top of the equations")
    done = parser.add_argument_group("what is done in the experiments of a table")
    for name, what in _DONE_OPTIONS.items():
        done.add_argument(f"--{name}", help=what)
    sampler = parser.add_argument_group("the sampler")
    sampler.add_argument("--method", help="how to sample: lifted (by default), nuts or laplace")
    sampler.add_argument("--draws", type=int, help="draws per chain; by default as many as it takes")


_DONE_OPTIONS = {
    "conditions": "table with a row for each experiment and a column for each condition",
    "inputs": "table of inputs over time, with a column for each",
    "interpolation": "how inputs run between rows: steps (by default), lines or smooth",
    "doses": "table of doses: time, amount, and if need be experiment, state, duration, every, count",
}


def _done_section(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say of experiments, as ``[experiments]`` in a problem file has it."""
    told = {name: getattr(options, name) for name in _DONE_OPTIONS if getattr(options, name)}
    return {name: v if name == "interpolation" else str(Path(v).resolve()) for name, v in told.items()}


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """How a table is read, where it cannot be found out."""
    table = parser.add_argument_group("the table, where it is not plain")
    for name, what in _TABLE_OPTIONS.items():
        aliases = ["--trajectory"] if name == "experiment" else []
        table.add_argument(f"--{name.replace('_', '-')}", *aliases, dest=name, help=what)
    table.add_argument("--variables", help="columns to use, with commas between them; by default all with numbers")
    table.add_argument("--replicates", action="store_true", help="columns such as OD_1, OD_2 are runs of one thing")


TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".xlsx", ".xls")
"""Of files that are tables for sure; others may be of a format that says everything itself."""
_TABLE_OPTIONS = {
    "time": "column of times, if its name does not tell",
    "time_unit": "such as day",
    "experiment": "column that tells runs apart",
    "variable": "of a long table, the column that says what was measured",
    "value": "of a long table, the column of values",
    "decimal": "the decimal mark, a point or a comma",
    "separator": "the mark between columns, or its name, such as tab",
    "sheet": "of an Excel file",
}


def table_section(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say of the table, as ``[data]`` in a problem file has it."""
    section: dict[str, Any] = {name: getattr(options, name) for name in _TABLE_OPTIONS if getattr(options, name)}
    if options.variables:
        section["variables"] = [name.strip() for name in options.variables.split(",") if name.strip()]
    return section | ({"replicates": True} if options.replicates else {})


def problem_of(options: argparse.Namespace) -> ProblemFile:
    """The problem the arguments describe."""
    if not options.problem.is_file():
        raise DataError(f"there is no file {options.problem}.")
    content = problem_content(options)
    if content is None:
        from gpnode.formats.registry import format_of

        format = format_of(options.problem)
        assert format is not None
        return format.read(options.problem)
    from gpnode.data.observations import Observations

    data = Observations.from_file(options.problem, **table_section(options))  # refused before all else is loaded
    from gpnode.formats.problem_toml import read_problem

    return read_problem(options.problem, content, data)


def _is_table(path: Path) -> bool:
    if path.suffix.lower() in TABLE_SUFFIXES:
        return True
    from gpnode.formats.registry import format_of

    return format_of(path) is None


def problem_content(options: argparse.Namespace) -> dict[str, Any] | None:
    """A table and options as a problem file would have them; None if a problem file is given."""
    table = table_section(options)
    told = {k: v for k, v in (("method", options.method), ("draws", options.draws)) if v is not None}
    of_model = (options.equation, options.degree, options.noise)
    done = _done_section(options)
    if not _is_table(options.problem):
        lists = (options.prior, options.observable, options.initial, options.log, options.no_gp)
        if table or told or done or any(v is not None for v in of_model) or any(lists):
            raise ModelError("a problem file says everything itself; give options only with a table.")
        return None
    content: dict[str, Any] = {"data": {"file": options.problem.name, **table}, "model": {}}
    if done:
        content["experiments"] = done
    if options.equation:
        content["model"]["equations"] = options.equation
    elif options.prior and not options.observable:
        raise ModelError("--prior is for --equation and --observable.")
    for section, texts, option in (
        ("parameters", options.prior, "--prior"),
        ("observables", options.observable, "--observable"),
        ("initial", options.initial, "--initial"),
    ):
        if texts:
            content[section] = dict(pair(text, option) for text in texts)
    if options.degree is not None:
        content["model"]["degree"] = options.degree
    if options.log:
        content["transform"] = {"kind": "log"}
    if options.noise is not None:
        content["noise"] = {"std": pair(f"std={options.noise}", "--noise")[1], "relative": False}
    if options.no_gp:
        content["kernel"] = {"kind": "none"}
    return content | ({"sampler": told} if told else {})


def _fit(options: argparse.Namespace) -> int:
    problem = problem_of(options)
    from gpnode.fitting.single import default_method
    from gpnode.formats.runs import CHECKPOINT, POSTERIOR
    from gpnode.inference.running.checkpoint import check_same, new_run
    from gpnode.problem.binding import fingerprint

    for note in problem.data.notes:
        print(f"note: {note}", file=sys.stderr)
    seed = problem.seed if options.seed is None else options.seed
    method = problem.method or default_method(problem.model, problem.data)
    folder: Path = options.output
    checkpoint = folder / CHECKPOINT
    if options.anew:
        shutil.rmtree(checkpoint, ignore_errors=True)
        (folder / POSTERIOR).unlink(missing_ok=True)
    # Before anything is written: results of another run must not come under a problem that is not theirs.
    try:
        check_same(checkpoint, new_run(fingerprint(problem.model, problem.data), seed, method))
    except CheckpointError as error:
        raise CheckpointError(f"{error} With --anew, gpnode does so.") from None
    make_folder(folder)
    problem.format.write(problem, folder)
    return _run(folder, problem, method, seed, options)


def _resume(options: argparse.Namespace) -> int:
    from gpnode.formats.registry import read_kept_problem
    from gpnode.formats.runs import CHECKPOINT
    from gpnode.inference.running.checkpoint import read_run

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


def _write_draft(folder: Path, quiet: bool, posterior: Posterior) -> None:
    """A first report, from the approximation at the maximum, for as long as chains run."""
    import matplotlib.pyplot as plt

    from gpnode.render.report.page import write_report

    plt.switch_backend("Agg")
    write_text(folder / "equations.txt", f"{DRAFT}\n\n{posterior.equations()}\n")
    write_report(posterior, folder / "report.html", notice=DRAFT)
    if not quiet:
        print(f"a first look is in {folder / 'report.html'}; chains are running", file=sys.stderr)


def _run(folder: Path, problem: ProblemFile, method: Any, seed: int, options: argparse.Namespace) -> int:
    """Fit with a checkpoint, write results, print the verdict."""
    from gpnode.fitting.single import fit
    from gpnode.formats.runs import CHECKPOINT, POSTERIOR
    from gpnode.inference.running.checkpoint import read_chain

    is_new = not (folder / POSTERIOR).exists() and read_chain(folder / CHECKPOINT, 0) is None
    try:
        posterior = fit(
            problem.model,
            problem.data,
            method=method,
            seed=seed,
            progress=not options.quiet,
            checkpoint=folder / CHECKPOINT,
            budget=options.budget,
            draft=functools.partial(_write_draft, folder, options.quiet) if is_new else None,
        )
        posterior.save(folder / POSTERIOR)
        write_text(folder / "equations.txt", f"{posterior.equations()}\n")
        answers = Answers(folder, posterior)
        for kind in EQUATIONS:
            answers.equations(kind)
        write_text(folder / "report.html", answers.report())
        verdict = answers.verdict()
    except KeyboardInterrupt:
        print(f"gpnode: stopped; everything up to here is kept. Go on with: gpnode resume {folder}", file=sys.stderr)
        raise
    if options.json:
        print(json.dumps(verdict["content"]))
    else:
        print(posterior.equations(), "\n")
        print(verdict["text"])
        print(f"\nopen {folder / 'report.html'} in a browser")
    return int(verdict["exit_code"])
