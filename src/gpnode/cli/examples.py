"""``gpnode example``: ready problems to start from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpnode.cli.example_problems import EXAMPLES
from gpnode.cli.exits import OK, add_command
from gpnode.errors import DataError


def _lines() -> list[str]:
    """What each example is about."""
    return [f"{name}: {(make.__doc__ or '').rstrip('.')}" for name, make in EXAMPLES.items()]


def add_commands(commands: Any) -> None:
    """Add ``example``."""
    parser = add_command(
        commands,
        "example",
        "write a ready problem with its data to start from",
        "gpnode example lynx-hare",
        _write,
    )
    parser.add_argument("name", choices=EXAMPLES, metavar="NAME", help="; ".join(_lines()))
    parser.add_argument("-o", "--output", type=Path, help="directory to write into; by default that name")


def _write(options: argparse.Namespace) -> int:
    from gpnode.formats.problem_toml import write_problem

    example = EXAMPLES[options.name]()
    folder = options.output or Path(options.name)
    if (folder / "problem.toml").exists():
        raise DataError(f"{folder}/problem.toml is there already. Pass another directory: -o DIRECTORY.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in example.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_problem(example.content, folder / "problem.toml")
    print(f"written: {', '.join(f'{folder}/{name}' for name in (*example.files, 'problem.toml'))}")
    print(f"next:    gpnode fit {folder}/problem.toml -o {folder}/fit")
    return OK
