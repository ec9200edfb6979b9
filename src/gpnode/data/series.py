"""Series of measurements: one variable in one experiment, checked value by value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gpnode.data.tables import (
    elapsed_times,
    first_row,
    limits_of,
    numbers_of,
    refuse_huge,
    refuse_tiny,
    require_names,
    row_labels,
)
from gpnode.errors import DataError

DEFAULT_EXPERIMENT = "0"


@dataclass(frozen=True)
class Series:
    """Measurements of one variable in one experiment.

    ``times`` (n,) not decreasing, ``values`` (n,) finite; both in the user's units. Where ``limits`` (n,) is -1 the
    value is less than ``values`` says, as below a limit of detection; where it is 1, more; where 0, just that.
    ``numbers`` (n,) by name come with each measurement, such as error bars.
    """

    variable: str
    experiment: str
    times: np.ndarray
    values: np.ndarray
    limits: np.ndarray
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def cells(self) -> np.ndarray:
        """Values (n,) as one would write them: numbers, or texts such as "<0.5"."""
        if not self.limits.any():
            return self.values
        marks = {-1: "<", 0: "", 1: ">"}
        pairs = zip(self.values.tolist(), self.limits.tolist(), strict=True)
        return np.array([f"{marks[side]}{value!r}" if side else value for value, side in pairs], dtype=object)


def as_pair(variable: str, pair: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Times and values of a variable, and numbers by name, refused if they are no equally long sequences."""
    try:
        times, values, *more = pair
        (numbers,) = more or [{}]
        numbers = dict(numbers)
    except (TypeError, ValueError) as error:
        raise DataError(f"{variable!r} must be a pair (times, values); got {type(pair).__name__}.") from error
    if np.ndim(times) != 1 or np.ndim(values) != 1:
        raise DataError(
            f"times and values of {variable!r} must be one-dimensional; got {np.ndim(times)} and {np.ndim(values)} "
            "dimensions. Pass one series per variable."
        )
    if len(times) != len(values):
        raise DataError(
            f"{variable!r} has {len(times)} times but {len(values)} values. Give one value per time (NaN if missing)."
        )
    for name, column in numbers.items():
        if np.ndim(column) != 1 or len(column) != len(times):
            raise DataError(f"{name!r} of {variable!r} must have one number for each of its {len(times)} times.")
    return times, values, numbers


def clean_series(
    variable: str, experiment: str, times: np.ndarray, values: Any, numbers_beside: Mapping[str, Any], sort: bool
) -> Series:
    """A series of what was measured, refused with row and remedy where it cannot be used."""
    labels = row_labels(values)
    cells, limits = limits_of(values)
    numbers = numbers_of(pd.Series(cells, values.index) if isinstance(values, pd.Series) else cells, variable, "value")
    if np.isinf(numbers).any():
        raise DataError(
            f"value of {variable!r} in row {first_row(values, np.isinf(numbers))} is infinite. "
            "Remove the row, or mark it missing with NaN."
        )
    bad_time = ~np.isfinite(times)
    if bad_time.any():
        raise DataError(
            f"time of {variable!r} in row {first_row(values, bad_time)} is missing or infinite. "
            "Give every row a time, or remove the row."
        )
    refuse_huge(numbers, values, variable, "value")
    refuse_huge(times, values, variable, "time")
    measured = np.isfinite(numbers)
    rows, limits = labels[measured], limits[measured]
    times, numbers = times[measured], numbers[measured]
    beside = {n: numbers_of(column, variable, n)[measured] for n, column in numbers_beside.items()}
    if sort:
        order = np.argsort(times, kind="stable")
        rows, times, numbers, limits = rows[order], times[order], numbers[order], limits[order]
        beside = {name: column[order] for name, column in beside.items()}
    for name, column in beside.items():
        if not np.isfinite(column).all():
            raise DataError(
                f"{name!r} of {variable!r} in row {rows[int(np.argmin(np.isfinite(column)))]} is missing or infinite. "
                "Give it for every measurement."
            )
    steps = np.diff(times)
    if (steps < 0).any():
        i = int(np.argmax(steps < 0))
        raise DataError(
            f"times of {variable!r} must increase: {times[i + 1]:g} follows {times[i]:g} (row {rows[i + 1]}). "
            "Sort the rows, or pass sort=True."
        )
    return Series(variable, experiment, times, numbers, limits, beside)


def numbers_beside(series: tuple[Series, ...]) -> tuple[str, ...]:
    """Names of the numbers that come with each measurement of one variable."""
    named = [tuple(s.numbers) for s in series]
    if any(set(names) != set(named[0]) for names in named):
        raise DataError(
            f"{series[0].variable!r} comes with other numbers in some experiments than in others. Give them all."
        )
    return named[0]


def check_spans(series: tuple[Series, ...], start: Mapping[str, float]) -> None:
    """Refuse experiments that end when they start."""
    for experiment, begin in start.items():
        end = max(s.times[-1] for s in series if s.experiment == experiment)
        if not end > begin:
            raise DataError(
                f"experiment {experiment!r} spans no time: it starts at {begin:g} and its last measurement is at "
                f"{end:g}. Give measurements after the start, or drop the experiment."
            )


def check_variables(series: tuple[Series, ...], named: Iterable[str], scant: bool) -> None:
    """Refuse variables that were never measured and, unless ``scant``, those that say nothing of motion."""
    for variable in dict.fromkeys(named):
        values = [s.values for s in series if s.variable == variable]
        count = sum(v.size for v in values)
        if count == 0:
            raise DataError(
                f"{variable!r} has no observations. Remove it: a state without data is declared in the model."
            )
        if scant:
            continue
        if count == 1:
            raise DataError(
                f"{variable!r} has a single observation; at least two are needed. "
                "Remove it, and give the value as an initial state if it is one."
            )
        if all(np.unique(s.times).size == 1 for s in series if s.variable == variable):
            raise DataError(
                f"{variable!r} is measured at one time only in each run, and says nothing about motion. Measure it at "
                "two times at least, or remove it."
            )
        if all((s.limits != 0).all() for s in series if s.variable == variable):
            raise DataError(f"of {variable!r} there are limits alone, and no value. Remove it.")
        everything = np.concatenate(values)
        if np.all(everything == everything[0]):
            kind = "zero" if everything[0] == 0 else f"{everything[0]:g}"
            raise DataError(
                f"{variable!r} is constant ({kind} in all {count} rows) and says nothing about motion. "
                "Remove it, or put it into the equations as a known constant."
            )
        refuse_tiny(everything, variable)


def start_times(
    series: tuple[Series, ...], start: Any, origin: pd.Timestamp | None, time_unit: str | None
) -> dict[str, float]:
    """Start of each experiment, in the unit of its times; dates are allowed where times are dates."""
    by_experiment = {str(k): v for k, v in start.items()} if isinstance(start, Mapping) else None
    starts = {}
    for experiment in dict.fromkeys(s.experiment for s in series):
        first = min(float(s.times[0]) for s in series if s.experiment == experiment)
        chosen = start if by_experiment is None else by_experiment.get(experiment)
        if chosen is None:
            starts[experiment] = first
            continue
        (time,) = elapsed_times([chosen], "start", origin, time_unit)
        if not np.isfinite(time) or time > first:
            raise DataError(
                f"start of experiment {experiment!r} is {chosen}, but its first measurement is at {first:g}. "
                "Choose a start at or before the first measurement, or drop the earlier rows."
            )
        starts[experiment] = float(time)
    for name in by_experiment or {}:
        if name not in starts:
            raise DataError(f"start names an unknown experiment {name!r}; the data have {', '.join(starts)}.")
    return starts


def split_by_experiment(table: pd.DataFrame, experiment: str | None) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each experiment, by its name."""
    if experiment is None:
        return [(DEFAULT_EXPERIMENT, table.reset_index(drop=True))]
    require_names(table, experiment)
    return [(str(name), rows) for name, rows in table.reset_index(drop=True).groupby(experiment, sort=False)]
