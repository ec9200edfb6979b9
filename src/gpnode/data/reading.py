"""Tables as people have them: which column is what, under which name, with a word on everything that was guessed."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gpnode.data.cells import Grid, read_grid
from gpnode.data.numbers import (
    MISSING,
    NumberStyle,
    clock_hours,
    dates_of,
    find_style,
    is_limit,
    is_number,
    more_than_numbers,
    perhaps_thousands,
    refuse_words,
)
from gpnode.data.recognising import (
    TableFile,
    join_replicates,
    leave_out_conditions,
    leave_out_spreads,
    recognise_long,
)
from gpnode.errors import DataError

_TIMES = tuple(
    re.compile(names)  # the first that is found, if it is found once
    for names in (
        "time",
        "(?i:times|zeit|uhrzeit|temps|tiempo|date|datum|fecha|datetime|timestamp|elapsed([_ ]?time)?|time)",
        "(?i:time_(?:s|sec|min|h|hrs?|hours?|d|days?))",
        "(?i:days?|hours?|hrs|minutes?|min|seconds?|sec|weeks?|months?|years?|yr)|t|T",
        "(?i:tage?|stunden?|minuten?|sekunden?|wochen?|monate?|jahre?|jours?|heures?|ann[ée]es?)",
        "h|s",  # in capitals they are states
    )
)
_ROW_NUMBERS = ("", "no", "no.", "nr", "nr.", "#", "index", "row", "sample", "unnamed: 0")
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds", "sekunde", "sekunden"), "second"),
    **dict.fromkeys(("min", "minute", "minutes", "minuten"), "minute"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "stunde", "stunden", "heure", "heures"), "hour"),
    **dict.fromkeys(("d", "day", "days", "tag", "tage", "jour", "jours"), "day"),
    **dict.fromkeys(("week", "weeks", "woche", "wochen"), "week"),
    **dict.fromkeys(("yr", "year", "years", "jahr", "jahre", "année", "années", "annee", "annees"), "year"),
}
_PER_HOUR = {"second": 3600.0, "minute": 60.0, "hour": 1.0, "day": 1 / 24}


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
    _refuse_lying(grid)
    names, renamed = _short_names(grid.header)
    notes += [f"column {old!r} is called {new}" for old, new in renamed if old]
    cells = {name: [row[i] for row in grid.rows] for i, name in enumerate(names)}
    units = _drop_units_row(cells, notes)

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
    time = time or _find_time(names)
    style = find_style(((i + 1, cell) for column in cells.values() for i, cell in enumerate(column)), decimal)
    unsure = None if decimal else perhaps_thousands(cell for column in cells.values() for cell in column)
    if style.decimal == ",":
        notes.append("decimal commas")
    elif unsure is not None:
        notes.append(f"{unsure} is taken for a number with three decimals; if its point groups thousands: --decimal ,")
    unit = time_unit or _unit_of(grid.header[names.index(time)]) or _unit_of(units.get(time, ""))
    times, unit, more = _times(time, cells.pop(time), style, unit)
    words = [name for name in (variable, experiment) if name is not None]
    columns, texts, more_notes = _columns(cells, style, words, [value, *(chosen or ())], chosen is None)
    table = pd.DataFrame({time: times, **columns})
    found = TableFile(table, time, variable, value, experiment, unit, (*notes, *more, *more_notes))
    if chosen is not None:
        found = replace(found, table=table[[c for c in table.columns if c in (time, *words, *chosen)]])
        return join_replicates(found, True) if replicates else found
    found = leave_out_spreads(found)
    if variable is None:
        found = recognise_long(found, texts)
    left_out = [name for name in texts if name not in (found.variable, found.experiment)]
    hint = "" if found.experiment else "; if its words tell runs apart, name it: experiment (--experiment)"
    remarks = tuple(f"column {name!r} has no numbers and is left out{hint}" for name in left_out)
    found = replace(found, table=found.table.drop(columns=left_out), notes=(*found.notes, *remarks))
    found = leave_out_conditions(found)
    return found if found.variable is not None else join_replicates(found, replicates)


def _columns(
    cells: dict[str, list[str]], style: NumberStyle, words: list[str], asked_for: Sequence[str | None], all_wanted: bool
) -> tuple[dict[str, pd.Series], list[str], list[str]]:
    """Columns of numbers and of words, the names of those with words that nobody asked for, and what to say of them.

    ``words`` names columns that hold words; of those ``asked_for`` every cell must be a number, or empty.
    """
    columns: dict[str, pd.Series] = {}
    texts, notes = [], []
    for name, column in cells.items():
        values = [style.value(cell) for cell in column]
        filled = [value for value in values if value is not None]
        limits = sum(map(is_limit, filled))
        numbers = limits + sum(isinstance(value, float) for value in filled)
        wanted = name in asked_for
        if name in words:
            columns[name] = _words(column)
        elif not filled and not wanted:
            notes.append(f"column {name!r} is empty and left out")
        elif numbers < 0.5 * len(filled) and not wanted and not more_than_numbers(filled):
            texts.append(name)
            columns[name] = _words(column)
        elif all_wanted and _numbers_rows(name, values):
            notes.append(f"column {name!r} numbers the rows and is left out")
        else:
            refuse_words(name, values, "value", limits=True)
            missing = sum(cell.lower() in MISSING and cell != "" for cell in column)
            notes += [f"{missing} of {name!r} not measured"] if missing else []
            notes += [f"{limits} of {name!r} are limits: known to lie below or above"] if limits else []
            columns[name] = pd.Series(values, dtype=object if limits else float)
    return columns, texts, notes


def _words(cells: list[str]) -> pd.Series:
    return pd.Series([cell or None for cell in cells], dtype=object)


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
    inside = re.search(r"[(\[/]\s*([A-Za-z]+)\s*[)\]]?$|time_([A-Za-z]+)$", header, re.IGNORECASE)
    return _UNITS.get((inside[1] or inside[2] if inside else header).lower())


def _refuse_lying(grid: Grid) -> None:
    """Refuse a table that lies on its side: times along the first row, and a row for each variable."""
    times = grid.header[1:]
    if len(times) < 3 or not all(map(is_number, times)) or any(not row[0] or is_number(row[0]) for row in grid.rows):
        return
    if all(float(a) < float(b) for a, b in itertools.pairwise(times)):
        raise DataError(
            f"the table lies on its side: times stand in its first row, and {grid.rows[0][0]!r} in a row of its own. "
            "Transpose it: one column of times, and one for each variable."
        )


def _drop_units_row(cells: dict[str, list[str]], notes: list[str]) -> dict[str, str]:
    """Leave out a first row of units, which stands above columns of numbers; returns them."""
    first = [column[0] for column in cells.values()]
    below = [[cell for cell in column[1:] if cell.lower() not in MISSING] for column in cells.values()]
    numeric = [i for i, column in enumerate(below) if column and all(re.search(r"\d", cell) for cell in column)]
    words = [i for i in numeric if first[i] and not re.search(r"\d", first[i]) and first[i].lower() not in MISSING]
    if len(words) < 2 or len(words) < len(numeric) - 1 or len(next(iter(cells.values()))) <= 2:
        return {}
    notes.append("the first row has units and is left out")
    return {name: column.pop(0) for name, column in cells.items()}


# -- times -----------------------------------------------------------------------------------


def _find_time(names: list[str]) -> str:
    """The column of times, by its name."""
    for usual in _TIMES:
        likely = [name for name in names if usual.fullmatch(name)]
        if len(likely) == 1:
            return likely[0]
        if len(likely) > 1:
            raise DataError(f"which column has the times? It could be {' or '.join(likely)}: pass time=... (--time).")
    have = ", ".join(names)
    raise DataError(f"there is no column 'time'; the table has: {have}. Say which has the times: time=... (--time).")


def _times(
    name: str, cells: list[str], style: NumberStyle, unit: str | None
) -> tuple[pd.Series, str | None, list[str]]:
    """Times as numbers or dates, their unit, and what to say of them."""
    cells = [cell if cell.lower() not in MISSING else "" for cell in cells]
    hours = clock_hours(cells)
    if hours is not None:
        unit = unit if unit in _PER_HOUR else "hour"
        return pd.Series(hours * _PER_HOUR[unit]), unit, [f"times such as {cells[0]} are read as {unit}s"]
    values = [style.value(cell) for cell in cells]
    filled = [value for value in values if value is not None]
    numbers = sum(isinstance(value, float) for value in filled)
    if filled and numbers >= 0.5 * len(filled) and not _eight_digits(cells):
        refuse_words(name, values, "time", limits=False)
        return pd.Series(values, dtype=float), unit, []
    dates = dates_of(name, cells)
    if dates is None:
        if more_than_numbers(filled):
            refuse_words(name, values, "time", limits=False)
        return _words(cells), unit, []
    days = float((dates.max() - dates.min()) / pd.Timedelta(days=1))
    notes = []
    if unit is None:
        unit = "day" if days >= 3 else "hour" if days >= 0.25 else "minute"
        notes.append(f"times are dates, counted in {unit}s from the first")
    return dates, unit, notes


def _eight_digits(cells: list[str]) -> bool:
    """Whether they are dates such as 20240131."""
    return all(re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", cell) for cell in cells if cell)


def _numbers_rows(name: str, values: list[float | str | None]) -> bool:
    first = values[0]
    rising = isinstance(first, float) and first in (0.0, 1.0) and values == [first + i for i in range(len(values))]
    return rising and (name.lower() in _ROW_NUMBERS or name.startswith("column_"))
