"""Tables as people have them: which column is what, under which name, with a word on everything that was guessed."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gpnode.data.cells import read_grid
from gpnode.data.numbers import MISSING, clock_hours, dates_of, find_style, is_number, refuse_limits
from gpnode.errors import DataError

_TIMES = re.compile(
    r"(t|time|times|zeit|temps|date|datetime|timestamp|day|days|hour|hours|h|hrs|minute|minutes|min|"
    r"second|seconds|sec|s|week|weeks|month|months|year|years|yr|elapsed[_ ]?time)",
    re.IGNORECASE,
)
_VARIABLES = ("variable", "species", "observable", "analyte", "quantity", "what", "compound", "signal")
_EXPERIMENTS = (
    "experiment",
    "trajectory",
    "run",
    "flask",
    "patient",
    "subject",
    "id",
    "plate",
    "well",
    "batch",
    "site",
    "replicate",
    "animal",
    "culture",
    "individual",
    "group",
    "condition",
)
_VALUES = ("value", "measurement", "count", "amount", "concentration", "level", "reading", "observed", "y", "dv")
_ROW_NUMBERS = ("", "no", "no.", "nr", "nr.", "#", "index", "row", "sample", "unnamed: 0")
_UNITS = {
    "s": "second",
    "sec": "second",
    "second": "second",
    "seconds": "second",
    "min": "minute",
    "minute": "minute",
    "minutes": "minute",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "hour": "hour",
    "hours": "hour",
    "d": "day",
    "day": "day",
    "days": "day",
    "week": "week",
    "weeks": "week",
    "year": "year",
    "years": "year",
    "yr": "year",
}
_PER_HOUR = {"second": 3600.0, "minute": 60.0, "hour": 1.0, "day": 1 / 24}
_REPLICATE = re.compile(r"(.*?)[ _.\-]*(?:rep|replicate|r|n)?[ _.\-]*(\d{1,2}|[a-cA-C])$")
_COINCIDE = 0.15  # of the range, between columns that measure the same thing


@dataclass(frozen=True)
class TableFile:
    """A table whose columns have short names, numbers in the columns that hold them, and ``notes`` on what was guessed.

    ``time``, ``variable``, ``value`` and ``experiment`` are the columns that are these, None where there is none.
    """

    table: pd.DataFrame
    time: str
    variable: str | None = None
    value: str | None = None
    experiment: str | None = None
    time_unit: str | None = None
    notes: tuple[str, ...] = ()


def read_table(
    path: str | Path,
    *,
    time: str | None = None,
    variables: Sequence[str] | None = None,
    variable: str | None = None,
    value: str | None = None,
    experiment: str | None = None,
    time_unit: str | None = None,
    decimal: str | None = None,
    separator: str | None = None,
    sheet: str | None = None,
    replicates: bool = False,
) -> TableFile:
    """Read a table file, and find out which column is what where the arguments do not say."""
    grid = read_grid(Path(path), separator, sheet)
    notes = list(grid.notes)
    names, renamed = _short_names(grid.header)
    notes += [f"column {old!r} is called {new}" for old, new in renamed if old]
    cells = {name: [row[i] for row in grid.rows] for i, name in enumerate(names)}
    _drop_units_row(cells, notes)

    def column(name: str | None) -> str | None:
        """The short name of a column that was named in either way."""
        return None if name is None else dict(zip(grid.header, names, strict=True)).get(name, name)

    time, variable, value, experiment = map(column, (time, variable, value, experiment))
    chosen = [column(name) for name in variables] if variables else None
    for name in (time, variable, value, experiment, *(chosen or ())):
        if name is not None and name not in cells:
            raise DataError(
                f"there is no column {name!r}; the table has: {', '.join(grid.header)}. Check the spelling."
            )
    time = time or _find_time(names, cells)
    numeric_cells = ((i + 1, cell) for name, column in cells.items() if name != time for i, cell in enumerate(column))
    style = find_style(numeric_cells, decimal)
    if style.decimal == ",":
        notes.append("decimal commas")
    table, unit = (
        pd.DataFrame(index=range(len(cells[time]))),
        time_unit or _unit_of(dict(zip(names, grid.header, strict=True))[time]),
    )
    table[time], unit, more = _times(time, cells[time], style.plain, unit)
    notes += more
    texts: list[str] = []
    for name, column_cells in cells.items():
        if name == time:
            continue
        plain = [style.plain(cell) for cell in column_cells]
        filled = [text for text in plain if text]
        numbers = sum(map(is_number, filled))
        asked_for = name in (chosen or ()) or name == value
        if name in (variable, experiment):
            table[name] = pd.Series([cell or None for cell in column_cells], dtype=object)
        elif not filled and not asked_for:
            notes.append(f"column {name!r} is empty and left out")
        elif numbers < 0.5 * len(filled) and not asked_for:
            refuse_limits(name, column_cells if numbers else [])
            texts.append(name)
            table[name] = pd.Series([cell or None for cell in column_cells], dtype=object)
        elif _numbers_rows(name, plain) and not asked_for and chosen is None:
            notes.append(f"column {name!r} numbers the rows and is left out")
        else:
            refuse_limits(name, column_cells)
            missing = sum(cell.lower() in MISSING and cell != "" for cell in column_cells)
            if missing:
                notes.append(f"{missing} of {name!r} not measured")
            table[name] = pd.Series([_as_number(text) for text in plain], dtype=object)
    found = TableFile(table, time, variable, value, experiment, unit, tuple(notes))
    if variable is None and chosen is None:
        found = _recognise_long(found, texts)
    held = (found.time, found.variable, found.experiment)
    left_out = [name for name in texts if name not in held]
    values = [c for c in found.table.columns if c not in (*held, *left_out)]
    notes = list(found.notes)
    if chosen is not None:
        values = [name for name in chosen if name is not None]
    elif left_out:
        option = "" if found.experiment else "; if its words tell runs apart, name it: experiment (--experiment)"
        notes += [f"column {name!r} has no numbers and is left out{option}" for name in left_out]
    table = found.table[[c for c in found.table.columns if c in (*held, *values)]]
    found = TableFile(table, found.time, found.variable, found.value, found.experiment, found.time_unit, tuple(notes))
    if found.variable is None and chosen is None:
        found = _replicates(found, values, replicates)
    return found


# -- names -----------------------------------------------------------------------------------


def short_name(header: str) -> str:
    """A name that equations can use: without units and marks."""
    without_unit = re.split(r"[(\[{]|, ", header)[0].strip() or header
    name = re.sub(r"\W+", "_", without_unit).strip("_")
    if not name or name[0].isdigit():
        name = f"x{name}"
    return name + "_" if keyword.iskeyword(name) else name


def _short_names(header: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    doubled = [name for i, name in enumerate(header) if name and name in header[:i]]
    if doubled:
        raise DataError(f"column {doubled[0]!r} appears twice. Rename one of the two.")
    names = [short_name(name) if name else f"column_{i + 1}" for i, name in enumerate(header)]
    for i, name in enumerate(names):
        if names.count(name) > 1:  # units tell them apart
            names[i] = re.sub(r"\W+", "_", header[i]).strip("_") or f"column_{i + 1}"
    for i, name in enumerate(names):
        if name in names[:i]:
            names[i] = f"{name}_{i + 1}"
    return names, [(old, new) for old, new in zip(header, names, strict=True) if old != new]


def _unit_of(header: str) -> str | None:
    """The unit of time that a header names: "Time (h)" has hours."""
    inside = re.search(r"[(\[]\s*([A-Za-z]+)\s*[)\]]", header)
    return _UNITS.get((inside[1] if inside else header).lower())


def _drop_units_row(cells: dict[str, list[str]], notes: list[str]) -> None:
    """Leave out a first row of units, which stands above columns of numbers."""
    first = [column[0] for column in cells.values()]
    below = [[cell for cell in column[1:] if cell.lower() not in MISSING] for column in cells.values()]
    numeric = [i for i, column in enumerate(below) if column and all(re.search(r"\d", cell) for cell in column)]
    words = [i for i in numeric if first[i] and not re.search(r"\d", first[i]) and first[i].lower() not in MISSING]
    if len(words) >= 2 and len(words) >= len(numeric) - 1 and len(next(iter(cells.values()))) > 2:
        for column in cells.values():
            del column[0]
        notes.append("the first row has units and is left out")


# -- times -----------------------------------------------------------------------------------


def _find_time(names: list[str], cells: dict[str, list[str]]) -> str:
    """The column of times, by its name."""
    if "time" in names:
        return "time"
    likely = [name for name in names if _TIMES.fullmatch(name)]
    if len(likely) == 1:
        return likely[0]
    if len(likely) > 1:
        raise DataError(f"which column has the times? It could be {' or '.join(likely)}: pass time=... (--time).")
    have = ", ".join(names)
    raise DataError(f"there is no column 'time'; the table has: {have}. Say which has the times: time=... (--time).")


def _times(name: str, cells: list[str], plain: object, unit: str | None) -> tuple[pd.Series, str | None, list[str]]:
    """Times as numbers or dates, their unit, and what to say of them."""
    cells = [cell if cell.lower() not in MISSING else "" for cell in cells]
    hours = clock_hours(cells)
    if hours is not None:
        unit = unit if unit in _PER_HOUR else "hour"
        return pd.Series(hours * _PER_HOUR[unit]), unit, [f"times such as {cells[0]} are read as {unit}s"]
    texts = [plain(cell) for cell in cells]  # type: ignore[operator]
    filled = [text for text in texts if text]
    if filled and sum(map(is_number, filled)) >= 0.5 * len(filled) and not _eight_digits(filled):
        return pd.Series([_as_number(text) for text in texts], dtype=object), unit, []
    dates = dates_of(name, cells)
    if dates is None:
        return pd.Series([cell or None for cell in cells], dtype=object), unit, []
    days = float((dates.max() - dates.min()) / pd.Timedelta(days=1))
    notes = []
    if unit is None:
        unit = "day" if days >= 3 else "hour" if days >= 0.25 else "minute"
        notes.append(f"times are dates, counted in {unit}s from the first")
    return dates, unit, notes


def _eight_digits(texts: list[str]) -> bool:
    """Whether they are dates such as 20240131."""
    return all(re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", text) for text in texts)


def _as_number(text: str) -> float | str | None:
    if not text:
        return None
    return float(text) if is_number(text) else text  # a text is refused later, with its row


def _numbers_rows(name: str, plain: list[str]) -> bool:
    first = plain[0]
    rising = first in ("0", "1") and all(text == str(i + int(first)) for i, text in enumerate(plain))
    return rising and (name.lower() in _ROW_NUMBERS or name.startswith("column_"))


# -- long tables, and replicates -------------------------------------------------------------


def _recognise_long(found: TableFile, texts: list[str]) -> TableFile:
    """One row for each measurement: a column says what was measured, another the value."""
    table = found.table
    groups = [c for c in texts if c != found.experiment and _repeats(table[c])]
    if found.experiment is not None and not any(c.lower() in _VARIABLES for c in groups):
        return found
    numbers = [c for c in table.columns if c not in (found.time, found.experiment, *texts)]
    by_name = [c for c in groups if c.lower() in _VARIABLES]
    values = [c for c in numbers if c.lower() in _VALUES] if len(numbers) > 1 else numbers
    if len(by_name) == 1 and len(values) == 1:
        note = f"a long table: {by_name[0]!r} says what was measured, {values[0]!r} the value"
        return TableFile(
            table, found.time, by_name[0], values[0], found.experiment, found.time_unit, (*found.notes, note)
        )
    if found.experiment is None and not table[found.time].is_unique:
        apart = [c for c in groups if not table.duplicated([c, found.time]).any()]
        runs = [c for c in apart if c.lower() in _EXPERIMENTS]
        if len(runs) == 1:
            note = f"{runs[0]!r} tells experiments apart"
            return TableFile(table, found.time, None, None, runs[0], found.time_unit, (*found.notes, note))
        if apart and len(numbers) == 1:
            raise DataError(
                f"times repeat, once for each {apart[0]!r}: if its words are different things that were measured, this "
                f"is a long table: variable={apart[0]!r} (--variable); if they are runs of the same thing, "
                f"experiment={apart[0]!r} (--experiment)."
            )
    return found


def _repeats(column: pd.Series) -> bool:
    filled = column.dropna()
    return 2 <= filled.nunique() <= len(filled) / 2


def _replicates(found: TableFile, values: list[str], asked_for: bool) -> TableFile:
    """Columns that measure the same thing: refused unless the user says what they are."""
    groups: dict[str, list[str]] = {}
    for name in values:
        match = _REPLICATE.fullmatch(name)
        if match and match[1]:
            groups.setdefault(match[1].rstrip("_"), []).append(name)
    alike = {stem: columns for stem, columns in groups.items() if len(columns) > 1 and _coincide(found.table, columns)}
    if not alike:
        if asked_for:
            raise DataError("no columns look like replicates of one thing: name them alike, such as OD_1, OD_2, OD_3.")
        return found
    if not asked_for:
        stem, columns = next(iter(alike.items()))
        raise DataError(
            f"{', '.join(columns)} look like replicates of one thing. As columns of a table they would be fitted as "
            f"{len(columns)} interacting states, which means something else. Pass replicates=True (--replicates) to "
            f"fit them as {len(columns)} runs of {stem}, each with a start of its own; or, if they are different "
            f"things, name them: variables=[...] (--variables {','.join(columns)})."
        )
    if found.experiment is not None:
        raise DataError("replicates in columns, and experiments in rows: put one kind into rows, with a column for it.")
    count = max(map(len, alike.values()))
    others = [name for name in values if not any(name in columns for columns in alike.values())]
    parts = []
    for i in range(count):
        part = found.table[[found.time, *others]].copy()
        for stem, columns in alike.items():
            if i < len(columns):
                part[stem] = found.table[columns[i]]
        part["replicate"] = str(i + 1)
        parts.append(part)
    note = "; ".join(f"{', '.join(columns)} are {len(columns)} runs of {stem}" for stem, columns in alike.items())
    return TableFile(pd.concat(parts), found.time, None, None, "replicate", found.time_unit, (*found.notes, note))


def _coincide(table: pd.DataFrame, columns: list[str]) -> bool:
    """Whether columns nearly coincide, compared with how far they vary."""
    try:
        values = table[columns].to_numpy(dtype=float)
    except (TypeError, ValueError):
        return False
    both = values[np.isfinite(values).all(axis=1)]
    if len(both) < 3:
        return False
    spread = float(np.ptp(np.median(both, axis=1)))
    apart = float(np.median(np.ptp(both, axis=1)))
    return spread > 0 and apart < _COINCIDE * spread
