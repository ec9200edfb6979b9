"""What a table as a whole is: long or wide, with runs in rows, or with replicates in columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gpnode.errors import DataError

_VARIABLES = ("variable", "species", "observable", "analyte", "quantity", "what", "compound", "signal")
_EXPERIMENTS = (
    *("experiment", "trajectory", "run", "flask", "culture", "plate", "well", "batch", "replicate", "condition"),
    *("patient", "subject", "animal", "individual", "group", "id", "site"),
)
_VALUES = (
    *("value", "measurement", "count", "amount", "concentration", "conc", "level", "reading", "observed", "result"),
    *("y", "dv"),
)
_REPLICATE = re.compile(r"(.*?)[ _.\-]*(?:rep|replicate|r|n)?[ _.\-]*(\d{1,2}|[a-cA-C])$")
_SPREAD = re.compile(
    r"(.*_)?(sd|SD|std|stdev|stddev|sem|SEM|stderr|std_err|std_error|standard_deviation|standard_error)(_.*)?"
)
_SUMMARY = re.compile(r"(?i)(.*_)?(mean|average|avg|median|mittelwert)(_.*)?")
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


def leave_out_spreads(found: TableFile) -> TableFile:
    """Without columns that tell how sure others are: they are no states, and noise is inferred."""
    taken = (found.time, found.variable, found.value, found.experiment)
    spreads = [c for c in found.table.columns if c not in taken and _SPREAD.fullmatch(c)]
    if not spreads or len(spreads) == len(found.table.columns.drop(found.time)):
        return found
    notes = [
        f"column {c!r} seems to tell how sure others are and is left out, for noise is inferred; if it is a thing that "
        "was measured, name the columns to use: variables=[...] (--variables)"
        for c in spreads
    ]
    return replace(found, table=found.table.drop(columns=spreads), notes=(*found.notes, *notes))


def recognise_long(found: TableFile, texts: list[str]) -> TableFile:
    """One row for each measurement: a column says what was measured, another the value."""
    table = found.table
    groups = [c for c in texts if c != found.experiment and _repeats(table[c])]
    if found.experiment is not None and not any(c.lower() in _VARIABLES for c in groups):
        return found
    numbers = [c for c in table.columns if c not in (found.time, found.experiment, *texts)]
    measured = [c for c in numbers if not (c.lower() in _EXPERIMENTS and _numbers_runs(table[c]))]
    by_name = [c for c in groups if c.lower() in _VARIABLES]
    values = [c for c in measured if c.lower() in _VALUES] if len(measured) > 1 else measured
    if len(by_name) == 1 and len(values) == 1:
        note = f"a long table: {by_name[0]!r} says what was measured, {values[0]!r} the value"
        found = replace(found, variable=by_name[0], value=values[0], notes=(*found.notes, note))
        others = [c for c in (*groups, *numbers) if c not in (by_name[0], values[0])]
        return _with_runs(found, [by_name[0], found.time], others)
    if found.experiment is None and not table[found.time].is_unique:
        numbered = [c for c in numbers if _numbers_runs(table[c])]
        apart = [c for c in (*groups, *numbered) if not table.duplicated([c, found.time]).any()]
        with_runs = _with_runs(found, [found.time], [*groups, *numbered])
        if with_runs.experiment is not None:
            return with_runs
        if apart and apart[0] in numbered:
            raise DataError(
                f"times repeat, once for each number in {apart[0]!r}: if it tells runs apart, say so: "
                f"experiment={apart[0]!r} (--experiment); if it was measured, name the columns to use: variables=[...] "
                "(--variables)."
            )
        if apart and len(numbers) == 1:
            raise DataError(
                f"times repeat, once for each {apart[0]!r}: if its words are different things that were measured, this "
                f"is a long table: variable={apart[0]!r} (--variable); if they are runs of the same thing, "
                f"experiment={apart[0]!r} (--experiment)."
            )
        mixed = [c for c in groups if _differs_at_once(table, found.time, c)]
        if mixed:
            raise DataError(
                f"times repeat, with different words in {mixed[0]!r}: if these are what was measured, this is a long "
                f"table: variable={mixed[0]!r} and value=... (--variable, --value); if they tell runs apart, "
                f"experiment={mixed[0]!r} (--experiment); if neither, name the columns to use: variables=[...] "
                "(--variables)."
            )
    return found


def _with_runs(found: TableFile, together: list[str], columns: list[str]) -> TableFile:
    """With experiments, if the same was measured twice at a time and one of ``columns`` is named for telling runs."""
    table = found.table
    if found.experiment is not None or not table.duplicated(together).any():
        return found
    runs = [c for c in columns if c.lower() in _EXPERIMENTS and not table.duplicated([c, *together]).any()]
    if len(runs) != 1:
        return found
    names = table[runs[0]].map(lambda name: f"{name:g}" if isinstance(name, float) else name)
    note = f"{runs[0]!r} tells experiments apart"
    return replace(found, table=table.assign(**{runs[0]: names}), experiment=runs[0], notes=(*found.notes, note))


def _differs_at_once(table: pd.DataFrame, time: str, column: str) -> bool:
    """Whether a column has different words at most of the times that repeat."""
    by_time = table.groupby(time)[column]
    again = by_time.size() > 1
    return bool((by_time.nunique()[again] > 1).mean() > 0.5)


def _repeats(column: pd.Series) -> bool:
    filled = column.dropna()
    return 2 <= filled.nunique() <= len(filled) / 2


def leave_out_conditions(found: TableFile) -> TableFile:
    """Without columns that say something of a run as a whole, such as a weight or a dose: they were not measured."""
    if found.experiment is None or found.variable is not None:
        return found
    measured = [c for c in found.table.columns if c not in (found.time, found.experiment)]
    counts = found.table.groupby(found.experiment)[measured].nunique()
    given = [c for c in measured if (counts[c] <= 1).all() and found.table[c].nunique() > 1]
    if len(given) == len(measured):
        return found
    notes = [f"column {c!r} is the same throughout each run and is left out: nothing moves in it" for c in given]
    return replace(found, table=found.table.drop(columns=given), notes=(*found.notes, *notes))


def _numbers_runs(column: pd.Series) -> bool:
    """Whether a column of numbers may number runs: few whole ones, each many times."""
    values = pd.to_numeric(column, errors="coerce")
    return bool((values.notna() & (values % 1 == 0)).all()) and _repeats(column)


def join_replicates(found: TableFile, asked_for: bool) -> TableFile:
    """Columns that measure the same thing: refused unless the user says what they are."""
    values = [name for name in found.table.columns if name not in (found.time, found.experiment)]
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
    joined = [name for columns in alike.values() for name in columns]
    others = [name for name in values if name not in joined]
    summaries = [name for name in others if _SUMMARY.fullmatch(name)]
    if others != summaries:
        raise DataError(
            f"{', '.join(others)} would be counted {count} times, once for each replicate. Name the columns to use: "
            f"variables=[...] (--variables {','.join(joined)})."
        )
    parts = []
    for i in range(count):
        part = found.table[[found.time]].copy()
        for stem, columns in alike.items():
            if i < len(columns):
                part[stem] = found.table[columns[i]]
        part["replicate"] = str(i + 1)
        parts.append(part)
    note = "; ".join(f"{', '.join(columns)} are {len(columns)} runs of {stem}" for stem, columns in alike.items())
    notes = [note, *(f"column {name!r} follows from the replicates and is left out" for name in summaries)]
    return replace(found, table=pd.concat(parts), experiment="replicate", notes=(*found.notes, *notes))


def _coincide(table: pd.DataFrame, columns: list[str]) -> bool:
    """Whether columns nearly coincide, compared with how far they vary."""
    values = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)  # limits cannot be compared
    both = values[np.isfinite(values).all(axis=1)]
    if len(both) < 3:
        return False
    spread = float(np.ptp(np.median(both, axis=1)))
    apart = float(np.median(np.ptp(both, axis=1)))
    return spread > 0 and apart < _COINCIDE * spread
