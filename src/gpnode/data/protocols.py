"""Tables of what is done: conditions, inputs over time, and doses as pharmacologists keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpnode.data.cells import read_grid
from gpnode.data.experiments import Dose, Experiment, Input, Lines, Smooth, Steps
from gpnode.data.numbers import MISSING, find_style
from gpnode.errors import DataError

INTERPOLATIONS: dict[str, type[Input]] = {"steps": Steps, "lines": Lines, "smooth": Smooth}
"""How an input runs between the rows of its table."""
_EXPERIMENT = ("experiment", "id", "subject", "run", "trajectory")
_COLUMNS = {
    "experiment": _EXPERIMENT,
    "time": ("time", "t"),
    "amount": ("amount", "amt", "dose"),
    "state": ("state", "cmt", "compartment"),
    "rate": ("rate",),
    "duration": ("duration", "dur", "tinf"),
    "every": ("every", "ii", "interval"),
    "additional": ("additional", "addl"),
    "count": ("count",),
    "kind": ("evid",),
    "delay": ("delay",),
}
_TEXTS = ("experiment", "state", "delay")
_NO_DOSE, _DOSE = (0, 2), 1  # kinds of rows (EVID): what is measured, other things that are not doses, and doses
_RESETS = (3, 4)
_STEADY = ("ss",)

Cell = float | str | None


class _Table:
    """A table file by columns, of numbers where cells are numbers."""

    def __init__(self, path: Path) -> None:
        grid = read_grid(path)
        style = find_style((i + 1, cell) for i, row in enumerate(grid.rows) for cell in row)
        self.name, self.header = path.name, grid.header
        names = [column.strip().lower() for column in grid.header]
        for column, name in zip(grid.header, names, strict=True):
            if names.count(name) > 1:
                raise DataError(f"{path.name} has several columns named {column!r:.80}. Rename or leave out one.")
        self.texts = {name: [row[k].strip() for row in grid.rows] for k, name in enumerate(grid.header)}
        self.cells: dict[str, list[Cell]] = {
            name: [None if cell == "." else style.value(cell) for cell in column] for name, column in self.texts.items()
        }
        self.rows = range(len(grid.rows))

    def find(self, names: Sequence[str]) -> str | None:
        """The column that has one of these names, in any spelling of capitals."""
        found = [column for column in self.header if column.strip().lower() in names]
        if len(found) > 1:
            raise DataError(f"{self.name} says one thing twice, in {' and '.join(found)}. Leave out one of them.")
        return found[0] if found else None

    def text(self, column: str | None, row: int) -> str:
        """The words in a cell; "" if nothing is there."""
        cell = "" if column is None else self.texts[column][row]
        return "" if cell.lower() in MISSING else cell

    def number(self, column: str, row: int) -> float | None:
        """The number in a cell, None if it is empty; other cells are refused."""
        value = self.cells[column][row]
        if value is None or (isinstance(value, float) and np.isfinite(value)):
            return value
        raise DataError(
            f"{column!r} in row {row + 1} of {self.name} is {value!r:.80}, which is not a number that can be used."
        )

    def required(self, column: str, row: int) -> float:
        """The number in a cell that must not be empty."""
        value = self.number(column, row)
        if value is None:
            raise DataError(f"{column!r} in row {row + 1} of {self.name} is empty. Give a number.")
        return value

    def by_experiment(self, experiments: Sequence[str], column: str | None) -> dict[str, list[int]]:
        """Rows that belong to each experiment; without such a column all rows belong to all."""
        if column is None:
            return {name: list(self.rows) for name in experiments}
        named = self.texts[column]
        for row, name in enumerate(named):
            if name not in experiments:
                raise DataError(
                    f"{column!r} in row {row + 1} of {self.name} is {name!r:.80}; the data have experiments "
                    f"{', '.join(experiments)}."
                )
        return {name: [row for row in self.rows if named[row] == name] for name in experiments}


def read_experiments(
    experiments: Sequence[str],
    *,
    conditions: Any = None,
    inputs: Any = None,
    doses: Any = None,
    states: Sequence[str] = (),
    interpolation: str = "steps",
) -> dict[str, Experiment]:
    """What is done in ``experiments``, from tables in files.

    Parameters
    ----------
    conditions
        A table with a column that names experiments and a column of numbers for each condition.
    inputs
        A table with a column of times and a column for each input; ``interpolation`` tells how they run between rows:
        steps, lines or smooth. With a column that names experiments, each has its own.
    doses
        A table with columns time and amount, and if need be experiment, state, duration or rate, every, count and the
        parameter that is its delay; or the same as ID, TIME, AMT, CMT, RATE, II and ADDL. Rows without an amount are
        no doses; only a table that has some may have other columns, such as what was measured.
    states
        Which states there are; ``CMT`` counts them from 1. A table without a column of states doses the first one.

    Examples
    --------
    >>> done = gn.read_experiments(data.experiments, doses="doses.csv", states=["gut", "blood"])  # doctest: +SKIP
    """
    names = [str(name) for name in experiments]
    by_name: dict[str, dict[str, Any]] = {name: {"inputs": {}, "doses": []} for name in names}
    if conditions is not None:
        for name, numbers in _conditions(_Table(Path(conditions)), names).items():
            by_name[name]["inputs"] |= numbers
    if inputs is not None:
        if interpolation not in INTERPOLATIONS:
            raise DataError(f"interpolation must be one of {', '.join(INTERPOLATIONS)}; got {interpolation!r:.80}.")
        for name, changing in _inputs(_Table(Path(inputs)), names, INTERPOLATIONS[interpolation]).items():
            for twice in changing.keys() & by_name[name]["inputs"].keys():
                raise DataError(f"{twice!r} is both a condition and an input over time.")
            by_name[name]["inputs"] |= changing
    if doses is not None:
        for name, given in _doses(_Table(Path(doses)), names, list(states)).items():
            by_name[name]["doses"] = given
    return {name: Experiment(**parts) for name, parts in by_name.items()}


def _conditions(table: _Table, experiments: list[str]) -> dict[str, dict[str, float]]:
    column = table.find(_EXPERIMENT)
    found: dict[str, dict[str, float]] = {}
    for name, rows in table.by_experiment(experiments, column).items():
        if len(rows) != 1:
            how_many = "no row" if not rows else f"{len(rows)} rows"
            raise DataError(f"{table.name} has {how_many} for experiment {name!r}; conditions take one row for each.")
        found[name] = {c: table.required(c, rows[0]) for c in table.header if c != column}
    return found


def _inputs(table: _Table, experiments: list[str], kind: type[Input]) -> dict[str, dict[str, Input]]:
    column, time = table.find(_EXPERIMENT), table.find(_COLUMNS["time"])
    if time is None:
        raise DataError(f"{table.name} has no column of times; it has {', '.join(table.header)}. Call one 'time'.")
    found: dict[str, dict[str, Input]] = {}
    for name, rows in table.by_experiment(experiments, column).items():
        if not rows:
            raise DataError(f"{table.name} has no row for experiment {name!r}. Give its inputs.")
        found[name] = {}
        for c in table.header:
            if c not in (column, time):
                filled = [row for row in rows if table.number(c, row) is not None]
                if not filled:
                    raise DataError(f"{c!r} of {table.name} has no value for experiment {name!r}.")
                times = np.array([table.required(time, row) for row in filled])
                found[name][c] = kind(times, [table.required(c, row) for row in filled])
    return found


def _doses(table: _Table, experiments: list[str], states: list[str]) -> dict[str, list[Dose]]:
    columns = {what: table.find(names) for what, names in _COLUMNS.items()}
    time, amount = columns["time"], columns["amount"]
    if time is None or amount is None:
        raise DataError(
            f"{table.name} needs columns time and amount (or TIME and AMT); it has {', '.join(table.header)}."
        )
    if columns["count"] is not None and columns["additional"] is not None:
        raise DataError(f"{table.name} has both {columns['count']} and {columns['additional']}. Give one of them.")
    dosed = [row for row in table.rows if table.number(amount, row)]
    _refuse_others(table, [column for column in table.header if column not in columns.values()], dosed)
    found: dict[str, list[Dose]] = {}
    for name, rows in table.by_experiment(experiments, columns["experiment"]).items():
        found[name] = []
        for row in rows:
            numbers = {
                what: None if column is None or what in _TEXTS else table.number(column, row)
                for what, column in columns.items()
            }
            if not _is_dose(table, row, numbers):
                continue
            dose = _dose(table, row, numbers, _state(table, columns["state"], row, states))
            delay = table.text(columns["delay"], row)
            found[name].append(replace(dose, delay=delay) if delay else dose)
    return found


def _refuse_others(table: _Table, others: list[str], dosed: list[int]) -> None:
    """Refuse columns that would be ignored, unless the table holds what was measured as well."""
    steady = next((column for column in others if column.strip().lower() in _STEADY), None)
    for row in table.rows if steady else ():
        if table.number(str(steady), row):
            raise DataError(
                f"row {row + 1} of {table.name} begins in the steady state of its dose ({steady}), which is not known. "
                "Give the doses before as doses."
            )
    unknown = [column for column in others if column != steady]
    if unknown and len(dosed) == len(table.rows):
        known = ", ".join(_COLUMNS)
        raise DataError(
            f"{table.name} has a column {unknown[0]!r:.80}, which says nothing of doses; known are {known}."
        )


def _is_dose(table: _Table, row: int, numbers: Mapping[str, float | None]) -> bool:
    """Whether a row is one; refused where its amount and its kind contradict each other."""
    kind, amount, where = numbers["kind"], numbers["amount"], f"row {row + 1} of {table.name}"
    if kind is not None and kind in _RESETS:
        raise DataError(f"{where} resets the system (EVID {kind:g}), which is not known.")
    if kind is not None and kind != _DOSE and kind not in _NO_DOSE:
        raise DataError(f"{where} is of kind {kind:g} (EVID); known are 0, 1 and 2.")
    if kind == _DOSE and not amount:
        raise DataError(f"{where} is a dose (EVID 1) without an amount. Give one.")
    if amount and kind is not None and kind in _NO_DOSE:
        raise DataError(f"{where} has an amount, but EVID {kind:g} says that it is no dose. Correct one of them.")
    return bool(amount)


def _state(table: _Table, column: str | None, row: int, states: list[str]) -> str:
    """The state a row doses: by its name, or by its number from 1 up."""
    if column is None:
        if not states:
            raise DataError(f"{table.name} does not say which state is dosed. Add a column 'state'.")
        return states[0]
    value = table.cells[column][row]
    if value is None:
        raise DataError(f"{column!r} in row {row + 1} of {table.name} is empty. Say which state is dosed.")
    if isinstance(value, str):
        return value
    if value.is_integer() and 1 <= value <= len(states):
        return states[int(value) - 1]
    raise DataError(
        f"row {row + 1} of {table.name} doses compartment {value:g}; there are {len(states)} states: "
        f"{', '.join(states)}."
    )


def _dose(table: _Table, row: int, numbers: Mapping[str, float | None], state: str) -> Dose:
    amount, rate, duration = numbers["amount"], numbers["rate"], numbers["duration"]
    where = f"row {row + 1} of {table.name}"
    if numbers["time"] is None:
        raise DataError(f"{where} has an amount and no time.")
    assert amount is not None
    if rate and duration:
        raise DataError(f"{where} has both a rate and a duration. Give one of them.")
    if rate and not rate * amount > 0:
        raise DataError(f"{where} has the rate {rate:g}, which is no rate at which {amount:g} can be given.")
    count = numbers["count"] if numbers["additional"] is None else numbers["additional"] + 1.0
    count = 1.0 if count is None else count
    if not count.is_integer():
        raise DataError(f"{where} is given {count:g} times, which is no whole number.")
    try:
        return Dose(
            state,
            amount,
            time=numbers["time"],
            duration=amount / rate if rate else duration or 0.0,
            every=numbers["every"] or None,
            count=int(count),
        )
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
