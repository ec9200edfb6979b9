"""``gpnode init``: from a table to a problem file with comments, by a few questions or by options."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnode._files import write_text
from gpnode.cli.exits import OK, add_command
from gpnode.cli.fitting import add_table_arguments, table_section
from gpnode.errors import ModelError

if TYPE_CHECKING:
    from gpnode.data.observations import Observations

_DEGREE = 3


def add_commands(commands: Any) -> None:
    """Add ``init``."""
    parser = add_command(
        commands,
        "init",
        "write a problem file for a table, to be read, changed and fitted",
        "gpnode init measurements.csv",
        _init,
    )
    parser.add_argument("table", type=Path, help="measurements: CSV or .xlsx")
    parser.add_argument("-o", "--output", type=Path, help="file to write; by default problem.toml beside the table")
    parser.add_argument("--equation", action="append", help='such as "dS/dt = -beta*S*I"; once for each state')
    parser.add_argument("--degree", type=int, help=f"degree of the dictionary; by default {_DEGREE}")
    parser.add_argument("--log", action="store_true", help="noise is multiplicative")
    parser.add_argument("--yes", action="store_true", help="ask nothing, take what options and the table say")
    add_table_arguments(parser)


def _init(options: argparse.Namespace) -> int:
    from gpnode.data.observations import Observations

    section = table_section(options)
    data = Observations.from_file(options.table, **section)
    print(data, "\n")
    asking = sys.stdin.isatty() and not options.yes
    equations = options.equation or (_ask_equations() if asking else [])
    degree = options.degree
    if not equations and degree is None:
        degree = int(_ask("Degree of the polynomials", str(_DEGREE))) if asking else _DEGREE
    log = options.log or (asking and _ask("Is the noise in proportion to the values, on a log scale? y/n", "n") == "y")
    target = options.output or options.table.parent / "problem.toml"
    if target.exists():
        raise ModelError(f"{target} is there already: move it, or name another with -o.")
    write_text(target, problem_text(options.table, section, data, equations, degree, log))
    print(f"written: {target}")
    print(f"next:    gpnode check {target}")
    print(f"         gpnode fit {target} -o {target.parent / 'fit'}")
    return OK


def _ask(question: str, default: str) -> str:
    return input(f"{question} [{default}]: ").strip() or default


def _ask_equations() -> list[str]:
    """Lines up to an empty one."""
    print("Equations, if you know their form, one a line, such as dS/dt = -beta*S*I; an empty line ends them.")
    print("With none, they are looked for among polynomials.")
    lines = []
    while line := input("> ").strip():
        lines.append(line)
    return lines


def problem_text(
    table: Path, section: dict[str, Any], data: Observations, equations: list[str], degree: int | None, log: bool
) -> str:
    """A problem file with comments that say what else could stand there."""
    lines = [
        f"# {data.headline}",
        *(f"#   {note}" for note in data.notes),
        "",
        "[data]",
        f"file = {_toml(table.name)}",
        *(f"{name} = {_toml(value)}" for name, value in section.items()),
    ]
    if "time_unit" not in section:
        lines.append(f"time_unit = {_toml(data.time_unit)}" if data.time_unit else '# time_unit = "day"  # for labels')
    lines += ["", "[model]"]
    if equations:
        from gpnode.formats.formula import CONSTANTS, parse_equations

        parsed = parse_equations(equations)
        names = sorted({n for f in parsed.values() for n in f.names} - {*parsed, *CONSTANTS, "t"})
        lines += ["equations = [", *(f"    {_toml(e)}," for e in equations), "]", "", "[parameters]"]
        lines += ["# What is known before: a prior such as LogNormal(0, 1), or a number."]
        lines += [f"{name} = {_toml('LogNormal(0, 1)')}" for name in names]
    else:
        states = ", ".join(_toml(v) for v in data.variables)
        lines += [
            "# Equations are looked for among polynomials of all states.",
            f"states = [{states}]",
            f"degree = {degree}",
            '# equations = ["dx/dt = -k*x"]  # in place of both, if you know their form; priors go into [parameters]',
        ]
    first = data.variables[0]
    lines += ["", "# [initial]  # by default about the first measurements", f'# {first} = "LogNormal(0, 1)"']
    if log:
        lines += ["", "[transform]", 'kind = "log"  # noise is multiplicative']
    else:
        lines += ["", "# [transform]", '# kind = "log"  # if noise is multiplicative and values are positive']
    lines += ["", "# [noise]  # by default additive and proportional, both inferred", '# std = "LogNormal(-3, 1)"']
    return "\n".join([*lines, "", "[sampler]", "seed = 0", ""])


def _toml(value: Any) -> str:
    import json

    return json.dumps(value)  # texts, lists of texts and truth values are written alike in both
