"""The file formats there are, and which of them reads a path."""

from __future__ import annotations

from pathlib import Path

from gpnode._registry import Registry
from gpnode.errors import DataError
from gpnode.formats.base import Format, ProblemFile
from gpnode.formats.petab.file_format import PetabYaml
from gpnode.formats.problem_toml import ProblemToml

FORMATS: Registry[Format] = Registry("file format", ProblemToml, PetabYaml)


def format_of(path: Path) -> Format | None:
    """The format that reads files with the suffix of ``path``; None if there is none."""
    kinds = (kind for kind in FORMATS.values() if path.suffix.lower() in kind.suffixes)
    kind = next(kinds, None)
    return None if kind is None else kind()


def read_kept_problem(folder: Path) -> ProblemFile:
    """The problem that was written beside the results in ``folder``."""
    names = [f"problem{kind.suffixes[0]}" for kind in FORMATS.values()]
    for name, kind in zip(names, FORMATS.values(), strict=True):
        if (folder / name).is_file():
            return kind().read(folder / name)
    raise DataError(f"there is no file {' or '.join(str(folder / name) for name in names)}.")
