"""Columns of a table as numbers, with errors that name the variable, the row and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gpnode.errors import DataError

DATE_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "year": 31557600.0}


LARGEST = 1e100
"""Beyond this, and below one over it, numbers overflow once they are squared."""


_LIMIT = re.compile(r"\s*(?P<side>[<>≤≥])\s*=?\s*(?P<number>\S+)\s*")
_SIDES = {"<": -1, "≤": -1, ">": 1, "≥": 1}


def limits_of(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cells (n,), with limits such as "<0.5" as their numbers, and sides (n,): -1 for "<", 1 for ">", 0 for values."""
    cells = np.array(values, dtype=object)
    sides = np.zeros(cells.shape, dtype=int)
    for i, cell in enumerate(cells):
        found = _LIMIT.fullmatch(cell) if isinstance(cell, str) else None
        if found is not None:
            cells[i], sides[i] = found["number"], _SIDES[found["side"]]
    return cells, sides


def numbers_of(values: Any, variable: str, what: str) -> np.ndarray:
    """A column as numbers (n,), NaN where a cell is empty."""
    column = pd.Series(np.asarray(values, dtype=object))
    numbers = _numeric(column)
    text = numbers.isna() & ~column.isna()
    if text.any():
        raise DataError(
            f"{what} of {variable!r} in row {first_row(values, text.to_numpy())} is {column[text.idxmax()]!r}, "
            "which is not a number. "
            "Correct it, or leave the cell empty if it is missing."
        )
    return numbers.to_numpy(dtype=float, na_value=np.nan)


def _numeric(column: pd.Series) -> pd.Series:
    """Numbers, NaN where there is none."""
    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:  # whole numbers beyond what a float holds; as text they become infinite
        return pd.to_numeric(column.astype(str), errors="coerce")


def _dates(times: Any) -> pd.Series | None:
    """Times as dates, or None if they are numbers (or cannot be read as dates)."""
    column = pd.Series(times).reset_index(drop=True)
    if pd.api.types.is_datetime64_any_dtype(column):
        return pd.to_datetime(column, utc=True)
    if pd.api.types.is_numeric_dtype(column):
        return None
    if _numeric(column).notna().any():
        return None
    # One clock for all: dates with an offset are converted, dates without one are taken as they are.
    dates = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
    return dates if dates.notna().sum() > len(dates) / 2 else None


def date_origin(all_times: list[Any], time_unit: str | None) -> pd.Timestamp | None:
    """The first of all times if they are dates; None if they are numbers."""
    dates = [d for d in map(_dates, all_times) if d is not None]
    if not dates:
        return None
    if len(dates) < len(all_times):
        raise DataError("some variables have dates as times and others numbers. Use one kind for all.")
    if time_unit not in DATE_UNITS:
        raise DataError(
            f"times are dates, so time_unit must be one of {', '.join(DATE_UNITS)}; got {time_unit!r}. "
            "Pass for example time_unit='day'."
        )
    return min(d.min() for d in dates)


def elapsed_times(times: Any, variable: str, origin: pd.Timestamp | None, time_unit: str | None) -> np.ndarray:
    """Times as numbers: as they are, or in ``time_unit`` since ``origin`` if they are dates."""
    if origin is None or time_unit is None:
        return numbers_of(times, variable, "time")
    dates = _dates(times)
    if dates is None:
        raise DataError(f"times of {variable!r} are not dates, although others are. Use one kind for all.")
    if dates.isna().any():
        raise DataError(
            f"time of {variable!r} in row {first_row(times, dates.isna().to_numpy())} is not a date. "
            "Write dates as YYYY-MM-DD, optionally with a clock time."
        )
    return (dates - origin).dt.total_seconds().to_numpy(dtype=float) / DATE_UNITS[time_unit]


def require_columns(table: pd.DataFrame, needed: Sequence[str]) -> None:
    """Refuse a table that lacks a column it needs, or has one twice."""
    doubled = table.columns[table.columns.duplicated()]
    if len(doubled):
        raise DataError(f"column {doubled[0]!r} appears twice. Rename one of the two.")
    for column in needed:
        if column not in table.columns:
            have = ", ".join(map(str, table.columns)) or "none"
            raise DataError(f"there is no column {column!r}; the table has: {have}. Check the spelling.")
    if table.empty:
        raise DataError("the table has no rows, so there are no observations.")


def require_names(table: pd.DataFrame, column: str) -> None:
    """Refuse a column of names with empty cells."""
    missing = table[column].isna().to_numpy()
    if missing.any():
        raise DataError(
            f"column {column!r} is empty in row {first_row(table[column], missing)}. Name the {column} of every row."
        )


def refuse_huge(numbers: np.ndarray, column: Any, variable: str, what: str) -> None:
    """Refuse numbers that overflow once they are squared."""
    huge = np.abs(numbers) > LARGEST
    if huge.any():
        raise DataError(
            f"{what} of {variable!r} in row {first_row(column, huge)} is beyond {LARGEST:g}, which is too large to "
            "compute with. Correct it, or use a larger unit."
        )


def refuse_tiny(numbers: np.ndarray, variable: str) -> None:
    """Refuse values whose differences vanish once they are squared."""
    if np.ptp(numbers) * LARGEST < 1.0:
        raise DataError(
            f"values of {variable!r} vary by less than {1 / LARGEST:g}, too little to compute with. Use a smaller unit."
        )


def row_labels(column: Any) -> np.ndarray:
    """Row numbers as a user counts them: from 1 at the first row of data.

    Columns cut out of a table keep the table's index, so that errors name the row of the table.
    """
    if isinstance(column, pd.Series) and pd.api.types.is_integer_dtype(column.index):
        return column.index.to_numpy() + 1
    return np.arange(1, len(column) + 1)


def first_row(column: Any, mask: np.ndarray) -> int:
    """Number of the first marked row."""
    return int(row_labels(column)[int(np.argmax(mask))])
