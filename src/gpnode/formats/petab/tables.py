"""Files of a PEtab problem: what its YAML file names, and tables of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gpnode.errors import FileFormatError, GpnodeError
from gpnode.formats.formula import Number, Tree
from gpnode.formats.petab.maths import parse_expression

MOST_BYTES = 200_000_000
"""Of one table."""
_MOST_YAML = 1_000_000
_DEEPEST = 20


def read_yaml(path: Path) -> dict[str, Any]:
    """What the file of a problem says."""
    try:
        import yaml
    except ImportError:
        raise FileFormatError(
            "reading PEtab needs more libraries. Install them: pip install 'gpnode[petab]'."
        ) from None
    text = _text(path, _MOST_YAML)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                raise FileFormatError(f"{path.name} has aliases or is deeply nested, which no PEtab problem needs.")
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = " ".join(str(error).split())[:200]
        raise FileFormatError(f"{path.name} is not YAML: {first}") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path.name} is no PEtab problem: it must say format_version, parameter files and more.")
    return content


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}.") from None
    if len(content) > most:
        raise FileFormatError(f"{path.name} has more than {most // 1_000_000} MB, the most that is read.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path.name} is not UTF-8.") from None


def file_beside(folder: Path, name: Any, what: str) -> Path:
    """A file that a problem names, which must lie in its folder or below."""
    if not isinstance(name, str) or not name or "://" in name:
        raise FileFormatError(f"the {what} must be the name of a file beside the problem; got {name!r:.100}.")
    try:
        path = (folder / name).resolve()
        there = path.is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        raise FileFormatError(f"the {what} {name!r:.100} cannot be the name of a file.") from None
    if not path.is_relative_to(folder.resolve()):
        raise FileFormatError(f"the {what} {name!r:.100} is not in the folder of the problem or below; it is not read.")
    if not there:
        raise FileFormatError(f"there is no file {name!r:.100}, which the problem names as its {what}.")
    return path


class Table:
    """Rows of text, one after the other; cells that are empty or not there are ""."""

    def __init__(self, paths: Iterable[Path], what: str, needed: Iterable[str]) -> None:
        self.what = what
        frames = [_frame(path, what) for path in paths]
        self.columns = tuple(dict.fromkeys(column for frame in frames for column in frame.columns))
        self.rows: list[dict[str, str]] = []
        for frame in frames:
            for column in needed:
                if column not in frame.columns:
                    raise FileFormatError(
                        f"the table of {what} has no column {column!r}; it has {', '.join(map(str, frame.columns))}."
                    )
            self.rows += frame.to_dict("records")

    def __iter__(self) -> Iterator[Cells]:
        return (Cells(row, f"row {i + 1} of the table of {self.what}") for i, row in enumerate(self.rows))

    def __len__(self) -> int:
        return len(self.rows)


def _frame(path: Path, what: str) -> pd.DataFrame:
    from io import StringIO

    text = _text(path, MOST_BYTES)
    try:
        frame = pd.read_csv(StringIO(text), sep="\t", dtype=str, keep_default_na=False, na_filter=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise FileFormatError(f"the table of {what} in {path.name} cannot be read: {error!s:.200}") from None
    frame = frame.fillna("")
    frame.columns = [str(column).strip() for column in frame.columns]
    if frame.columns.duplicated().any():
        raise FileFormatError(f"the table of {what} in {path.name} has two columns of the same name.")
    return frame


class Cells:
    """One row of a table; ``where`` it is, for messages."""

    def __init__(self, cells: Mapping[str, str], where: str) -> None:
        self._cells, self.where = cells, where

    def text(self, column: str, default: str = "") -> str:
        """A cell without spaces around it; empty cells, and those that say NaN, are the default."""
        cell = str(self._cells.get(column, "")).strip()
        return default if cell in ("", "nan", "NaN", "NAN") else cell

    def required(self, column: str) -> str:
        """A cell that must say something."""
        cell = self.text(column)
        if not cell:
            raise FileFormatError(f"{self.where} says nothing in {column!r}.")
        return cell

    def number(self, column: str, default: float | None = None) -> float:
        """A number; the default where there is none."""
        cell = self.text(column)
        if not cell and default is not None:
            return default
        try:
            value = float(cell.replace("_", "x"))
        except ValueError:
            raise FileFormatError(f"{self.where} has {cell!r:.60} in {column!r}, where a number should be.") from None
        if math.isnan(value):
            raise FileFormatError(f"{self.where} has no number in {column!r}.")
        return value

    def tree(self, column: str) -> Tree:
        """A formula."""
        return self._parsed(self.required(column), column)

    def trees(self, column: str) -> tuple[Tree, ...]:
        """Formulas between semicolons."""
        cell = self.text(column)
        return tuple(self._parsed(part, column) for part in cell.split(";")) if cell else ()

    def names(self, column: str) -> tuple[str, ...]:
        """Names between semicolons."""
        return tuple(part.strip() for part in self.text(column).split(";") if part.strip())

    def _parsed(self, text: str, column: str) -> Tree:
        try:
            return Number(float(text.replace("_", "x")))
        except ValueError:
            pass
        try:
            return parse_expression(text)
        except GpnodeError as error:
            raise FileFormatError(f"{self.where}, {column!r}: {error}") from None
