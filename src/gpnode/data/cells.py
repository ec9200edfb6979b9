"""A table file as a grid of texts: encodings, separators, spreadsheets, what stands above and beside the table."""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpnode.data.numbers import is_number
from gpnode.errors import DataError

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
"""What may stand between columns, in the order it is looked for: commas may also be decimal."""
_LARGEST_FILE = 200_000_000  # bytes
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SPREADSHEET, _OLD_SPREADSHEET = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_MOST_ROWS_ABOVE = 10  # titles and remarks above the header
_AGREEING = 0.9  # part of the rows that have as many cells as the header
_LOOKED_AT = 500  # rows, to find the separator
_LARGEST_SHEET = 400_000_000  # bytes when unpacked


@dataclass(frozen=True)
class Grid:
    """Names of columns, and rows of as many cells; ``notes`` say what was made of the file."""

    header: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()


def read_grid(path: Path, separator: str | None = None, sheet: str | None = None) -> Grid:
    """Read a CSV-like text file, or a sheet of an Excel file."""
    separator = _separator(separator)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise DataError(
                f"{path.name} is larger than {_LARGEST_FILE // 1_000_000} MB, more than a table of measurements is. "
                "Pass the rows that are measurements."
            )
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"there is no file {path}.") from None
    if content.startswith(_OLD_SPREADSHEET):
        raise DataError(f"{path.name} is in the old Excel format (.xls). Save it as .xlsx or as CSV.")
    if content.startswith(_SPREADSHEET):
        lines, notes = _sheet(path, content, sheet)
    else:
        text, notes = _decode(path, content)
        lines, more = _split(path, text, separator)
        notes += more
    return _table(path, lines, notes)


def _separator(name: str | None) -> str | None:
    """The mark that was named: as itself, by a word (tab, comma), or as \\t, which shells leave as it is."""
    if name is None or name in SEPARATORS:
        return name
    words = {"\\t": "\t", **{word: mark for mark, words in SEPARATORS.items() for word in (words, words[:-1])}}
    if len(name) == 1 and not name.isalnum() and name not in "\"'\r\n.+-":
        return name
    if name.lower() not in words:
        raise DataError(f"{name!r} cannot stand between columns. Pass one mark, or a word: {', '.join(words)}.")
    return words[name.lower()]


# -- text ------------------------------------------------------------------------------------


def _decode(path: Path, content: bytes) -> tuple[str, list[str]]:
    for bom, encoding in _BOMS.items():
        if content.startswith(bom):
            return _decoded(path, content, encoding), ["read as UTF-16"] if encoding == "utf-16" else []
    nulls = content[:4000].count(0)
    if nulls > len(content[:4000]) / 4:
        little = content[1:4000:2].count(0) > content[0:4000:2].count(0)
        return _decoded(path, content, "utf-16-le" if little else "utf-16-be"), ["read as UTF-16"]
    if nulls:
        raise DataError(f"{path.name} is not a table of text: it has bytes of zero. Save it as CSV or .xlsx.")
    try:
        return content.decode("utf-8"), []
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace"), ["read as Windows-1252, for it is not UTF-8"]


def _decoded(path: Path, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} begins like {encoding} but is not ({error.reason}). Save it as UTF-8.") from None


def _split(path: Path, text: str, separator: str | None) -> tuple[list[list[str]], list[str]]:
    """Rows of cells, and what was found between them."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(f"{path.name} is empty. Save a header and at least two rows.")
    notes = []
    if lines[0].lower().startswith("sep=") and len(lines[0].strip()) == 5:  # as Excel writes it
        separator = separator or lines[0].strip()[4]
        lines = lines[1:]
    if separator is None:
        separator = _find_separator(path, lines)
        if separator != ",":
            notes.append(f"columns are separated by {SEPARATORS[separator]}")
    return _cells(lines, separator), notes


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    if separator == " ":
        return [line.split() for line in lines]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise DataError(f"the table cannot be read: {error}. Look for a quotation mark that is not closed.") from None
    return [[cell.strip() for cell in row] for row in rows]


def _find_separator(path: Path, lines: list[str]) -> str:
    """What stands between columns: that which gives nearly all rows as many cells as the header has."""
    some = lines[:_LOOKED_AT]
    for separator in SEPARATORS:
        widths = [_width(row) for row in _cells(some, separator)]
        usual = Counter(widths).most_common(1)[0][0]
        if usual < 2:
            continue
        header = next((i for i, width in enumerate(widths[:_MOST_ROWS_ABOVE]) if width == usual), None)
        later = widths[header:] if header is not None else widths
        if header is not None and sum(w <= usual for w in later) >= _AGREEING * len(later):
            narrower = separator == "," and header > 0 and widths[0] > 1  # names above rows with twice as many cells
            if not narrower:
                return separator
    _refuse_commas(path, some)
    commonest = max((",", ";", "\t"), key=lambda s: sum(line.count(s) for line in some))
    if not any(commonest in line for line in some):
        raise DataError(
            f"{path.name} has one column only, or columns with an unusual mark between them. A table needs times and "
            "at least one variable; pass the mark as separator (--separator)."
        )
    return commonest


def _refuse_commas(path: Path, lines: list[str]) -> None:
    """Decimal commas in a table with commas between columns: nobody can tell one from the other."""
    header, *below = _cells(lines, ",")
    widest = max(map(_width, below), default=0)
    if len(header) >= 2 and widest > len(header) and re.search(r"\d,\d", lines[1]):
        raise DataError(
            f"{path.name} looks like decimal commas in a table with commas between columns: its header has "
            f"{len(header)} names, and rows have up to {widest} cells. Save it with semicolons between columns."
        )


def _width(row: list[str]) -> int:
    """Cells up to the last that is not empty."""
    return max((i + 1 for i, cell in enumerate(row) if cell), default=0)


# -- spreadsheets ----------------------------------------------------------------------------


def _sheet(path: Path, content: bytes, sheet: str | None) -> tuple[list[list[str]], list[str]]:
    """Rows of a sheet: the one that is named, or the only one with something in it."""
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > _LARGEST_SHEET:
                raise DataError(f"{path.name} is too large when unpacked. Save the table alone as CSV.")
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except DataError:
        raise
    except Exception as error:  # whatever a damaged file makes of the parser
        raise DataError(f"{path.name} cannot be read as an Excel file ({error}). Save it anew, or as CSV.") from None
    filled = {}
    for page in book.worksheets:
        rows = [[_as_text(value) for value in row] for row in page.iter_rows(values_only=True)]
        if any(any(row) for row in rows):
            filled[page.title] = rows
    if sheet is not None and sheet not in filled:
        raise DataError(
            f"{path.name} has no sheet {sheet!r} with anything in it; it has {', '.join(filled) or 'none'}."
        )
    if not filled:
        raise DataError(f"{path.name} is empty. Save a header and at least two rows.")
    if sheet is None and len(filled) > 1:
        raise DataError(f"{path.name} has several sheets: {', '.join(filled)}. Name one: sheet=... (--sheet).")
    name = sheet or next(iter(filled))
    return [row for row in filled[name] if any(row)], [f"read sheet {name!r}"]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ") if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return repr(value) if isinstance(value, float) else str(value).strip()


# -- from rows to a table --------------------------------------------------------------------


def _table(path: Path, lines: list[list[str]], notes: list[str]) -> Grid:
    """The header and the rows below it; titles above, and empty columns and rows, are left out."""
    lines = [line[: _width(line)] for line in lines if _width(line)]
    if not lines:
        raise DataError(f"{path.name} is empty. Save a header and at least two rows.")
    usual = Counter(map(len, lines)).most_common(1)[0][0]
    widest = max(map(len, lines))
    top = next((i for i, line in enumerate(lines[:_MOST_ROWS_ABOVE]) if len(line) >= min(usual, widest)), 0)
    if top and len(lines[top - 1]) >= 2:  # a header that is shorter than the rows: columns without a name
        top = next(i for i, line in enumerate(lines) if len(line) >= 2)
    if top:
        notes = [*notes, f"{top} line{'s' if top > 1 else ''} above the header left out"]
    header, rows = lines[top], lines[top + 1 :]
    if all(is_number(cell.replace(",", ".")) for cell in header if cell):
        raise DataError(
            f"the first row of {path.name} has numbers alone: there are no names of columns. Add a row of names, such "
            "as time,x,y."
        )
    if not rows:
        raise DataError("the table has no rows, so there are no observations.")
    header = header + [""] * (max(map(len, rows), default=0) - len(header))
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    for column, name in enumerate(header):
        filled = [i for i, row in enumerate(rows) if row[column]]
        if not name and filled and not _counts(rows, column):
            raise DataError(
                f"column {column + 1} has no name, but row {filled[0] + 1} has {rows[filled[0]][column]!r:.40} in it. "
                "Name the column, or clear it. (Decimal commas between commas look like this, too.)"
            )
    kept = [c for c in range(len(header)) if header[c] or any(row[c] for row in rows)]
    return Grid([header[c] for c in kept], [[row[c] for c in kept] for row in rows], tuple(notes))


def _counts(rows: list[list[str]], column: int) -> bool:
    """Whether a column without a name numbers the rows, as programs write it."""
    first = rows[0][column]
    return first in ("0", "1") and all(row[column] == str(i + int(first)) for i, row in enumerate(rows))
