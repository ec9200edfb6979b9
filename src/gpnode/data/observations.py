"""Measurements: one series per observed variable and trajectory, checked once, here.

A *trajectory* is one run of the system (an experiment, a patient, a field season).
Trajectories share the parameters of the dynamics and have their own initial states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gpnode.data.tables import (
    date_origin,
    elapsed_times,
    first_row,
    numbers_of,
    refuse_huge,
    refuse_tiny,
    require_columns,
    require_names,
    row_labels,
)
from gpnode.errors import DataError
from gpnode.render import notebook as nb

DEFAULT_TRAJECTORY = "0"
_MOST_SHOWN = 40  # series in a notebook


@dataclass(frozen=True)
class Series:
    """Measurements of one variable in one trajectory.

    ``times`` (n,) strictly increasing, ``values`` (n,) finite; both in the user's units.
    """

    variable: str
    trajectory: str
    times: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Observations:
    """A set of :class:`Series`, in the user's own units.

    Parameters
    ----------
    measurements
        ``{variable: (times, values)}``. Missing values may be left out or given as NaN.
        For several trajectories use :meth:`from_long`, :meth:`from_wide` or :meth:`from_trajectories`.
    start
        Time of the initial state; by default the earliest measurement of each trajectory.
    time_unit
        Name of the time unit, for labels. Needed when times are dates: one of
        second, minute, hour, day, week, year.
    sort
        Sort rows by time instead of refusing unsorted input.
    """

    series: tuple[Series, ...]
    start: Mapping[str, float] = field(default_factory=dict)
    time_unit: str | None = None

    def __init__(
        self,
        measurements: Mapping[str, tuple[Any, Any]],
        *,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> None:
        self._assemble({DEFAULT_TRAJECTORY: measurements}, start, time_unit, sort)

    # -- constructors ---------------------------------------------------------------------

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Mapping[str, Mapping[str, tuple[Any, Any]]],
        *,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From ``{trajectory: {variable: (times, values)}}``."""
        self = cls.__new__(cls)
        self._assemble(trajectories, start, time_unit, sort)
        return self

    @classmethod
    def from_wide(
        cls,
        table: pd.DataFrame,
        *,
        time: str,
        variables: Sequence[str] | None = None,
        trajectory: str | None = None,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From a table with one column per variable; an empty cell or NaN is "not measured"."""
        require_columns(table, [time, *([trajectory] if trajectory else []), *(variables or [])])
        chosen = list(variables or [c for c in table.columns if c not in (time, trajectory)])
        if not chosen:
            raise DataError(f"the table has no column besides {time!r}. Add one column per measured variable.")
        groups = _split(table, trajectory)
        return cls.from_trajectories(
            {name: {v: (rows[time], rows[v]) for v in chosen} for name, rows in groups},
            start=start,
            time_unit=time_unit,
            sort=sort,
        )

    @classmethod
    def from_long(
        cls,
        table: pd.DataFrame,
        *,
        time: str = "time",
        variable: str = "variable",
        value: str = "value",
        trajectory: str | None = None,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From a table with one row per measurement: time, variable, value, optional trajectory."""
        require_columns(table, [time, variable, value, *([trajectory] if trajectory else [])])
        require_names(table, variable)
        trajectories = {
            name: {str(v): (part[time], part[value]) for v, part in rows.groupby(variable, sort=False)}
            for name, rows in _split(table, trajectory)
        }
        return cls.from_trajectories(trajectories, start=start, time_unit=time_unit, sort=sort)

    @classmethod
    def from_csv(
        cls,
        path: Any,
        *,
        time: str = "time",
        variables: Sequence[str] | None = None,
        variable: str | None = None,
        value: str = "value",
        trajectory: str | None = None,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From a CSV file: wide by default, long when ``variable=`` names the column of variable names."""
        try:
            table = pd.read_csv(path, skipinitialspace=True)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise DataError(
                f"{path} is not a readable CSV table: {error}. Save it as comma-separated UTF-8."
            ) from error
        if variable is not None:
            return cls.from_long(
                table,
                time=time,
                variable=variable,
                value=value,
                trajectory=trajectory,
                start=start,
                time_unit=time_unit,
                sort=sort,
            )
        return cls.from_wide(
            table, time=time, variables=variables, trajectory=trajectory, start=start, time_unit=time_unit, sort=sort
        )

    # -- views ----------------------------------------------------------------------------

    @property
    def variables(self) -> tuple[str, ...]:
        """Observed variables, in order of appearance."""
        return tuple(dict.fromkeys(s.variable for s in self.series))

    @property
    def trajectories(self) -> tuple[str, ...]:
        """Trajectory names, in order of appearance."""
        return tuple(dict.fromkeys(s.trajectory for s in self.series))

    @property
    def size(self) -> int:
        """Number of measurements over all series."""
        return sum(s.times.size for s in self.series)

    def of(self, variable: str) -> tuple[Series, ...]:
        """The series of one variable, one per trajectory that measured it."""
        return tuple(s for s in self.series if s.variable == variable)

    def values_of(self, variable: str) -> np.ndarray:
        """All values of one variable, over trajectories."""
        return np.concatenate([s.values for s in self.of(variable)])

    def with_time_unit(self, time_unit: str | None) -> Observations:
        """The same measurements with another label for the unit of time."""
        new = Observations.__new__(Observations)
        for name, value in (("series", self.series), ("start", self.start), ("time_unit", time_unit)):
            object.__setattr__(new, name, value)
        return new

    def to_long(self) -> pd.DataFrame:
        """One row per measurement: trajectory, variable, time, value."""
        return pd.concat(
            [
                pd.DataFrame({"trajectory": s.trajectory, "variable": s.variable, "time": s.times, "value": s.values})
                for s in self.series
            ],
            ignore_index=True,
        )

    def __str__(self) -> str:
        unit = f" {self.time_unit}" if self.time_unit else ""
        lines = [self._what()]
        for s in self.series:
            where = "" if len(self.trajectories) == 1 else f" [{s.trajectory}]"
            lines.append(
                f"  {s.variable}{where}: {s.times.size} values in [{s.values.min():.4g}, {s.values.max():.4g}], "
                f"time {s.times[0]:.4g} to {s.times[-1]:.4g}{unit}"
            )
        return "\n".join(lines)

    def _what(self) -> str:
        runs = len(self.trajectories)
        return f"Observations: {self.size} measurements, {runs} {'trajectory' if runs == 1 else 'trajectories'}"

    def _repr_html_(self) -> str:
        several = len(self.trajectories) > 1
        unit = f" ({self.time_unit})" if self.time_unit else ""
        head = ["variable", *(["trajectory"] if several else []), "", "values", f"time{unit}", "lowest", "highest"]
        rows = [
            [
                s.variable,
                *([s.trajectory] if several else []),
                nb.dots(s.times, s.values),
                str(s.times.size),
                f"{s.times[0]:.6g} to {s.times[-1]:.6g}",
                f"{s.values.min():.4g}",
                f"{s.values.max():.4g}",
            ]
            for s in self.series[:_MOST_SHOWN]
        ]
        left_out = len(self.series) - len(rows)
        more = [nb.line(f"and {left_out} more series: to_long() has them all")] if left_out else []
        return nb.block(nb.title(self._what()), nb.table(head, rows, left=2 + several), *more)

    # -- assembly and checks --------------------------------------------------------------

    def _assemble(
        self,
        trajectories: Mapping[str, Mapping[str, tuple[Any, Any]]],
        start: Any,
        time_unit: str | None,
        sort: bool,
    ) -> None:
        raw = [
            (str(trajectory), str(variable), *_pair(str(variable), pair))
            for trajectory, measurements in trajectories.items()
            for variable, pair in measurements.items()
        ]
        if not raw:
            raise DataError("there are no observations. Give at least one variable with two or more measurements.")
        origin = date_origin([times for _, _, times, _ in raw], time_unit)
        series = [
            _clean_series(variable, trajectory, elapsed_times(times, variable, origin, time_unit), values, sort)
            for trajectory, variable, times, values in raw
        ]
        kept = tuple(s for s in series if s.times.size)
        _check_variables(kept, [variable for _, variable, _, _ in raw])
        object.__setattr__(self, "series", kept)
        object.__setattr__(self, "start", _start_times(kept, start, origin, time_unit))
        object.__setattr__(self, "time_unit", time_unit)
        for trajectory in self.trajectories:
            end = max(s.times[-1] for s in kept if s.trajectory == trajectory)
            if not end > self.start[trajectory]:
                raise DataError(
                    f"trajectory {trajectory!r} spans no time: it starts at {self.start[trajectory]:g} and its last "
                    f"measurement is at {end:g}. Give measurements after the start, or drop the trajectory."
                )


def _pair(variable: str, pair: Any) -> tuple[Any, Any]:
    try:
        times, values = pair
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
    return times, values


def _clean_series(variable: str, trajectory: str, times: np.ndarray, values: Any, sort: bool) -> Series:
    numbers = numbers_of(values, variable, "value")
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
    rows = row_labels(values)[measured]
    times, numbers = times[measured], numbers[measured]
    if sort:
        order = np.argsort(times, kind="stable")
        rows, times, numbers = rows[order], times[order], numbers[order]
    steps = np.diff(times)
    if (steps < 0).any():
        i = int(np.argmax(steps < 0))
        raise DataError(
            f"times of {variable!r} must increase: {times[i + 1]:g} follows {times[i]:g} (row {rows[i + 1]}). "
            "Sort the rows, or pass sort=True."
        )
    if (steps == 0).any():
        i = int(np.argmax(steps == 0))
        raise DataError(
            f"{variable!r} is measured twice at time {times[i]:g} (rows {rows[i]} and {rows[i + 1]}). "
            "Average repeated measurements, or give replicates their own trajectory."
        )
    return Series(variable, trajectory, times, numbers)


def _check_variables(series: tuple[Series, ...], named: Iterable[str]) -> None:
    for variable in dict.fromkeys(named):
        values = [s.values for s in series if s.variable == variable]
        count = sum(v.size for v in values)
        if count == 0:
            raise DataError(
                f"{variable!r} has no observations. Remove it: a state without data is declared in the model."
            )
        if count == 1:
            raise DataError(
                f"{variable!r} has a single observation; at least two are needed. "
                "Remove it, and give the value as an initial state if it is one."
            )
        everything = np.concatenate(values)
        if np.all(everything == everything[0]):
            kind = "zero" if everything[0] == 0 else f"{everything[0]:g}"
            raise DataError(
                f"{variable!r} is constant ({kind} in all {count} rows) and says nothing about motion. "
                "Remove it, or put it into the equations as a known constant."
            )
        refuse_tiny(everything, variable)


def _start_times(
    series: tuple[Series, ...], start: Any, origin: pd.Timestamp | None, time_unit: str | None
) -> dict[str, float]:
    """Start of each trajectory, in the unit of its times; dates are allowed where times are dates."""
    given = {str(k): v for k, v in start.items()} if isinstance(start, Mapping) else None
    starts = {}
    for trajectory in dict.fromkeys(s.trajectory for s in series):
        first = min(float(s.times[0]) for s in series if s.trajectory == trajectory)
        own = start if given is None else given.get(trajectory)
        if own is None:
            starts[trajectory] = first
            continue
        (time,) = elapsed_times([own], "start", origin, time_unit)
        if not np.isfinite(time) or time > first:
            raise DataError(
                f"start of trajectory {trajectory!r} is {own}, but its first measurement is at {first:g}. "
                "Choose a start at or before the first measurement, or drop the earlier rows."
            )
        starts[trajectory] = float(time)
    for name in given or {}:
        if name not in starts:
            raise DataError(f"start names an unknown trajectory {name!r}; the data have {', '.join(starts)}.")
    return starts


def _split(table: pd.DataFrame, trajectory: str | None) -> list[tuple[str, pd.DataFrame]]:
    if trajectory is None:
        return [(DEFAULT_TRAJECTORY, table.reset_index(drop=True))]
    require_names(table, trajectory)
    return [(str(name), rows) for name, rows in table.reset_index(drop=True).groupby(trajectory, sort=False)]
