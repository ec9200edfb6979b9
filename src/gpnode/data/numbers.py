"""Cells as numbers: decimal commas, thousands separators, words for "missing", limits, clock times and dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gpnode.errors import DataError

MISSING = frozenset(
    [
        "",
        "na",
        "n/a",
        "nan",
        "null",
        "none",
        "n.d.",
        "nd",
        "n.d",
        "n.a.",
        "-",
        "--",
        "–",
        "—",
        "?",
        "#n/a",
        "#value!",
        "#div/0!",
        "missing",
        "no data",
        "not measured",
        "not determined",
        "not available",
        "nicht gemessen",
        "k.a.",
        "k. a.",
        ".",
    ]
)
"""What people write, in whatever case, where nothing was measured."""
_SPACES = re.compile(r"(?<=\d)[\u00a0\u202f\u2009' ](?=\d{3}(\D|$))")  # between groups of three digits
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}")
_WITH_POINT = re.compile(rf"[+-]?(?:\d+\.\d*|\.\d+){_EXPONENT}")
_WITH_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")
_COMMA_GROUPS, _POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+"), re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
_COMMA_GROUPS_AND_POINT = re.compile(rf"{_COMMA_GROUPS.pattern}\.\d*{_EXPONENT}")
_POINT_GROUPS_AND_COMMA = re.compile(rf"{_POINT_GROUPS.pattern},\d*{_EXPONENT}")
_BEYOND_LIMITS = frozenset(
    [*("blq", "bloq", "bql", "bdl", "blod", "lod", "loq", "<lod", "<loq", "< lod", "< loq", "below detection"),
     *("below lod", "below loq", "overflow", "ovrflw", "over", "oor", "saturated", "high", "low", "tntc")]
)  # fmt: skip
_WITH_ERROR = re.compile(r"\S*\d\S*\s*(?:±|\+/-|\+-)\s*\S+")
_WITH_UNIT = re.compile(r"[+-]?[\d.,]*\d\s*(?P<unit>%|(?<=\s)[^\W\d].{0,9})")
_LIMIT = re.compile(r"([<>≤≥])\s*=?\s*(\S+)")
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_DATE_FORMS = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d %B %Y")
_MORE_DATE_FORMS = ("%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d")
_TIMES_OF_DAY = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_WEEK = re.compile(r"(\d{4})-?W(\d\d)")


@dataclass(frozen=True)
class NumberStyle:
    """How a table writes numbers: the mark before decimals. The other mark may stand between groups of three digits."""

    decimal: str = "."

    def value(self, cell: str) -> float | str | None:
        """The number in a cell, None if nothing was measured, or the cell itself if it is no number in this style.

        Limits such as "< 0,5" are texts as Python writes them, "<0.5".
        """
        if cell.lower() in MISSING:
            return None
        limit = _LIMIT.fullmatch(cell)
        if limit is not None:
            number = self.value(limit[2])
            return f"{limit[1]}{number!r}" if isinstance(number, float) else cell
        groups, between = (_COMMA_GROUPS, ",") if self.decimal == "." else (_POINT_GROUPS, ".")
        whole, mark, decimals = _joined(cell).partition(self.decimal)
        if groups.fullmatch(whole):
            whole = whole.replace(between, "")
        if between in whole + decimals:
            return cell
        text = f"{whole}.{decimals}" if mark else whole
        return float(text) if is_number(text) else cell


def _joined(cell: str) -> str:
    """A cell with a plain minus, and without the spaces between thousands."""
    return _SPACES.sub("", cell.replace("\u2212", "-"))


def find_style(cells: Iterable[tuple[int, str]], decimal: str | None = None) -> NumberStyle:
    """How numbers are written, from cells with their rows; refused where that could be either of two ways."""
    if decimal is not None:
        if decimal not in (".", ","):
            raise DataError(f"the decimal mark is {decimal!r}; it is a point or a comma (--decimal . or --decimal ,).")
        return NumberStyle(decimal)
    points: tuple[int, str] | None = None
    commas: tuple[int, str] | None = None
    unsure: tuple[int, str] | None = None
    for row, cell in cells:
        cell = _joined(cell)
        one_comma, one_point = cell.count(",") == 1, cell.count(".") == 1
        if one_comma and _COMMA_GROUPS.fullmatch(cell):
            unsure = unsure or (row, cell)
        elif any(form.fullmatch(cell) for form in (_WITH_COMMA, _POINT_GROUPS_AND_COMMA)) or (
            not one_point and _POINT_GROUPS.fullmatch(cell)
        ):
            commas = commas or (row, cell)
        elif any(form.fullmatch(cell) for form in (_COMMA_GROUPS, _COMMA_GROUPS_AND_POINT)) or (
            _WITH_POINT.fullmatch(cell) and not _POINT_GROUPS.fullmatch(cell)
        ):
            points = points or (row, cell)
    if points and commas:
        raise DataError(
            f"numbers are written in two ways: {points[1]!r} in row {points[0]} and {commas[1]!r} in row {commas[0]}. "
            "Correct one, or say which mark is decimal (--decimal)."
        )
    if commas:
        return NumberStyle(",")
    if unsure and not points:
        raise DataError(
            f"{unsure[1]!r} in row {unsure[0]} may be a decimal comma or a thousands separator. Say which mark is "
            "decimal: --decimal , or --decimal ."
        )
    return NumberStyle(".")


def perhaps_thousands(cells: Iterable[str]) -> str | None:
    """A cell such as 2.536, if all that have a point are like it: the point may group thousands as well."""
    pointed = [joined for joined in map(_joined, cells) if "." in joined and _WITH_POINT.fullmatch(joined)]
    return pointed[0] if pointed and all(_POINT_GROUPS.fullmatch(cell) for cell in pointed) else None


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point, if any."""
    return _PLAIN.fullmatch(text) is not None


def is_limit(value: float | str | None) -> bool:
    """Whether what :meth:`NumberStyle.value` gave is a limit."""
    found = _LIMIT.fullmatch(value) if isinstance(value, str) else None
    return found is not None and is_number(found[2])


def more_than_numbers(values: Sequence[float | str | None]) -> bool:
    """Whether words are numbers with an error beside them, or with their unit, which is the same in every cell."""
    words = [value for value in values if isinstance(value, str)]
    units = [_WITH_UNIT.fullmatch(word) for word in words]
    if all(units) and len({unit["unit"] for unit in units if unit}) == 1:
        return True
    return bool(words) and all(_WITH_ERROR.fullmatch(word) for word in words)


def refuse_words(column: str, values: Sequence[float | str | None], what: str, *, limits: bool) -> None:
    """Refuse a cell of a column of numbers that is none in the style of the table; ``limits`` may be allowed."""
    for i, value in enumerate(values):
        if isinstance(value, str) and not (limits and is_limit(value)):
            raise DataError(f"{what} of {column!r} in row {i + 1} is {value!r:.60}, which is {_why_no_number(value)}")


def _why_no_number(cell: str) -> str:
    unit = _WITH_UNIT.fullmatch(cell)
    if _WITH_ERROR.fullmatch(cell):
        return "a number with its error beside it. Put errors into a column of their own."
    if unit is not None:
        return f"a number with its unit. Write the number alone, and the unit into the header: ({unit['unit']})."
    if cell.lower() in _BEYOND_LIMITS:
        return "beyond what can be measured, but not beyond which value. Write that, such as <0.5 or >4."
    return "not a number. Correct it, or leave the cell empty if it is missing."


# -- times -----------------------------------------------------------------------------------


def clock_hours(cells: Sequence[str]) -> np.ndarray | None:
    """Hours of cells such as 00:30 or 12:05:30; None if they are not of this form."""
    found = [_CLOCK.fullmatch(cell) for cell in cells if cell]
    if not found or not all(found):
        return None
    hours = []
    for cell in cells:
        match = _CLOCK.fullmatch(cell)
        if match is None:
            hours.append(np.nan)
        else:
            hours.append(int(match[1]) + int(match[2]) / 60 + float(match[3] or 0.0) / 3600)
    return np.array(hours)


def dates_of(column: str, cells: Sequence[str]) -> pd.Series | None:
    """Dates of cells in one of the usual forms; None if they are none. Refused if they could be two."""
    texts = pd.Series([cell if cell.lower() not in MISSING else None for cell in cells])
    filled = texts.dropna()
    if filled.empty or (filled.map(is_number).all() and not filled.str.fullmatch(r"(19|20)\d{6}").all()):
        return None
    iso = pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True)
    if iso[filled.index].notna().all() and filled.str.contains("-|T").all():
        return iso
    if filled.map(lambda cell: _WEEK.fullmatch(cell) is not None).all():  # from the Monday on
        return pd.to_datetime(texts.str.replace("-", "") + "1", errors="coerce", format="%GW%V%u", utc=True)
    read: dict[str, pd.Series] = {}
    for form in (*_DATE_FORMS, *_MORE_DATE_FORMS):
        for clock in _TIMES_OF_DAY:
            dates = pd.to_datetime(texts, errors="coerce", format=form + clock, utc=True)
            if dates[filled.index].notna().all():
                read[form] = dates
    if not read:
        return None
    first, *others = read.values()
    for dates in others:
        if not dates.equals(first):
            one, other = (d[filled.index[0]].date().isoformat() for d in (first, dates))
            raise DataError(
                f"dates in column {column!r} could be read in two ways: {filled.iloc[0]!r} is {one} or {other}. Write "
                "them as YYYY-MM-DD."
            )
    return first
