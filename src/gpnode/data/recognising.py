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
_VALUES = ("value", "measurement", "count", "amount", "concentration", "level", "reading", "observed", "y", "dv")
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


def recognise_long(found: TableFile, texts: list[str]) -> TableFile:
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
        return replace(found, variable=by_name[0], value=values[0], notes=(*found.notes, note))
    if found.experiment is None and not table[found.time].is_unique:
        numbered = [c for c in numbers if _numbers_runs(table[c])]
        apart = [c for c in (*groups, *numbered) if not table.duplicated([c, found.time]).any()]
        runs = [c for c in apart if c.lower() in _EXPERIMENTS]
        if len(runs) == 1:
            note = f"{runs[0]!r} tells experiments apart"
            names = table[runs[0]].map(lambda name: f"{name:g}" if isinstance(name, float) else name)
            return replace(
                found, table=table.assign(**{runs[0]: names}), experiment=runs[0], notes=(*found.notes, note)
            )
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
    return found


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
    return replace(found, table=pd.concat(parts), experiment="replicate", notes=(*found.notes, note))


def _coincide(table: pd.DataFrame, columns: list[str]) -> bool:
    """Whether columns nearly coincide, compared with how far they vary."""
    values = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)  # limits cannot be compared
    both = values[np.isfinite(values).all(axis=1)]
    if len(both) < 3:
        return False
    spread = float(np.ptp(np.median(both, axis=1)))
    apart = float(np.median(np.ptp(both, axis=1)))
    return spread > 0 and apart < _COINCIDE * spread
