"""Measurements: one series per observed variable and experiment, checked once, here.

An *experiment* is one run of the system (a flask, a patient, a field season).
Experiments share the parameters of the dynamics and have their own initial states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gpnode._aliases import accepts
from gpnode.data.experiments import Experiment
from gpnode.data.series import (
    DEFAULT_EXPERIMENT,
    Series,
    as_pair,
    check_spans,
    check_variables,
    clean_series,
    split_by_experiment,
    start_times,
)
from gpnode.data.tables import date_origin, elapsed_times, require_columns, require_names
from gpnode.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """A set of :class:`Series`, in the user's own units.

    Parameters
    ----------
    measurements
        ``{variable: (times, values)}``. Missing values may be left out or given as NaN; a value below or above a limit
        is a text such as ``"<0.5"``. Numbers that come with each measurement, for :class:`FormulaNoise` and
        observables, follow by name: ``(times, values, {"sd": [...]})``.
        For several experiments use :meth:`from_long`, :meth:`from_wide` or :meth:`from_experiments`.
    start
        Time of the initial state; by default the earliest measurement of each experiment.
    time_unit
        Name of the time unit, for labels. Needed when times are dates: one of
        second, minute, hour, day, week, year.
    sort
        Sort rows by time instead of refusing unsorted input.

    Examples
    --------
    >>> times = np.array([0.0, 1.0, 2.5])
    >>> gn.Observations({"x": (times, [1.0, 0.6, 0.3])}, time_unit="day").variables
    ('x',)
    """

    series: tuple[Series, ...]
    start: Mapping[str, float] = field(default_factory=dict)
    time_unit: str | None = None
    notes: tuple[str, ...] = ()
    """What was made of the file the measurements came from."""
    done: Mapping[str, Experiment] = field(default_factory=dict)
    """What is done in experiments, of those in which anything is."""

    def __init__(
        self,
        measurements: Mapping[str, tuple[Any, ...]],
        *,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> None:
        self._assemble({DEFAULT_EXPERIMENT: measurements}, start, time_unit, sort)

    # -- constructors ---------------------------------------------------------------------

    @classmethod
    def from_experiments(
        cls,
        experiments: Mapping[str, Mapping[str, tuple[Any, ...]]],
        *,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
        scant: bool = False,
    ) -> Observations:
        """From ``{experiment: {variable: (times, values)}}``; ``scant`` accepts what says nothing of motion."""
        self = cls.__new__(cls)
        self._assemble(experiments, start, time_unit, sort, scant)
        return self

    from_trajectories = from_experiments
    """The old name of :meth:`from_experiments`."""

    @classmethod
    @accepts(trajectory="experiment")
    def from_wide(
        cls,
        table: pd.DataFrame,
        *,
        time: str,
        variables: Sequence[str] | None = None,
        experiment: str | None = None,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From a table with one column per variable; an empty cell or NaN is "not measured"."""
        require_columns(table, [time, *([experiment] if experiment else []), *(variables or [])])
        chosen = list(variables or [c for c in table.columns if c not in (time, experiment)])
        if not chosen:
            raise DataError(f"the table has no column besides {time!r}. Add one column per measured variable.")
        groups = split_by_experiment(table, experiment)
        return cls.from_experiments(
            {name: {v: (rows[time], rows[v]) for v in chosen} for name, rows in groups},
            start=start,
            time_unit=time_unit,
            sort=sort,
        )

    @classmethod
    @accepts(trajectory="experiment")
    def from_long(
        cls,
        table: pd.DataFrame,
        *,
        time: str = "time",
        variable: str = "variable",
        value: str = "value",
        experiment: str | None = None,
        numbers: Sequence[str] = (),
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
    ) -> Observations:
        """From a table with one row per measurement: time, variable, value, optional experiment.

        ``numbers`` are columns of numbers that come with each measurement, such as error bars.
        """
        require_columns(table, [time, variable, value, *([experiment] if experiment else []), *numbers])
        require_names(table, variable)
        experiments = {
            name: {
                str(v): (part[time], part[value], {n: part[n] for n in numbers})
                for v, part in rows.groupby(variable, sort=False)
            }
            for name, rows in split_by_experiment(table, experiment)
        }
        return cls.from_experiments(experiments, start=start, time_unit=time_unit, sort=sort)

    @classmethod
    @accepts(trajectory="experiment")
    def from_file(
        cls,
        path: Any,
        *,
        time: str | None = None,
        variables: Sequence[str] | None = None,
        variable: str | None = None,
        value: str | None = None,
        experiment: str | None = None,
        start: Any = None,
        time_unit: str | None = None,
        sort: bool = False,
        decimal: str | None = None,
        separator: str | None = None,
        sheet: str | None = None,
        replicates: bool = False,
    ) -> Observations:
        """From a table in a text file (CSV and its kin) or in an Excel file (.xlsx).

        A table is wide, with one column per variable, or long, with one row per measurement; then ``variable`` names
        the column that says what was measured, and ``value`` that of the values. What is not said is found out:
        separators, decimal commas, the column of times, long tables, columns without numbers; :attr:`notes` say what
        was made of it.

        Parameters
        ----------
        time, variables, variable, value, experiment
            Columns, by their names in the file or by the short ones that equations use.
        start, time_unit, sort
            As for :class:`Observations`. Dates need no unit here.
        decimal, separator, sheet
            The decimal mark, the mark between columns, and the sheet, where they cannot be found out.
        replicates
            Columns such as OD_1, OD_2, OD_3 are runs of one thing, each with a start of its own.
        """
        from gpnode.data.reading import read_table

        found = read_table(
            path,
            time=time,
            variables=variables,
            variable=variable,
            value=value,
            experiment=experiment,
            time_unit=time_unit,
            decimal=decimal,
            separator=separator,
            sheet=sheet,
            replicates=replicates,
        )
        options: dict[str, Any] = {
            "time": found.time,
            "experiment": found.experiment,
            "start": start,
            "time_unit": found.time_unit,
            "sort": sort,
        }
        if found.variable is not None:
            data = cls.from_long(found.table, variable=found.variable, value=found.value or "value", **options)
        else:
            data = cls.from_wide(found.table, **options)
        object.__setattr__(data, "notes", found.notes)
        return data

    from_csv = from_file
    """The old name of :meth:`from_file`."""

    # -- views ----------------------------------------------------------------------------

    @property
    def variables(self) -> tuple[str, ...]:
        """Observed variables, in order of appearance."""
        return tuple(dict.fromkeys(s.variable for s in self.series))

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of the experiments, in order of appearance."""
        return tuple(dict.fromkeys(s.experiment for s in self.series))

    @property
    def trajectories(self) -> tuple[str, ...]:
        """The old name of :attr:`experiments`."""
        return self.experiments

    @property
    def size(self) -> int:
        """Number of measurements over all series."""
        return sum(s.times.size for s in self.series)

    def of(self, variable: str) -> tuple[Series, ...]:
        """The series of one variable, one per experiment that measured it."""
        return tuple(s for s in self.series if s.variable == variable)

    def values_of(self, variable: str) -> np.ndarray:
        """All values of one variable, over experiments."""
        return np.concatenate([s.values for s in self.of(variable)])

    @property
    def has_limits(self) -> bool:
        """Whether some values are known to lie below or above a limit alone."""
        return any(s.limits.any() for s in self.series)

    def with_time_unit(self, time_unit: str | None) -> Observations:
        """The same measurements with another label for the unit of time."""
        return self._replaced(time_unit=time_unit)

    def with_experiments(self, done: Experiment | Mapping[str, Experiment]) -> Observations:
        """The same measurements, with what is done in each experiment, or in all of them alike.

        >>> data = gn.Observations({"x": (np.arange(4.0), [1.0, 0.6, 1.3, 0.9])})
        >>> data = data.with_experiments(gn.Experiment(doses=[gn.Dose("x", 1.0, time=1.5)]))
        """
        if isinstance(done, Experiment):
            done = dict.fromkeys(self.experiments, done)
        done = {str(name): one for name, one in done.items()}
        for name, one in done.items():
            if not isinstance(one, Experiment):
                raise DataError(f"what is done in {name!r} must be an Experiment(...); got {type(one).__name__}.")
            if name not in self.experiments:
                raise DataError(f"there is no experiment {name!r}; the data have {', '.join(self.experiments)}.")
        return self._replaced(done=done)

    def _replaced(self, **changes: Any) -> Observations:
        new = Observations.__new__(Observations)
        for name in ("series", "start", "time_unit", "notes", "done"):
            object.__setattr__(new, name, changes.get(name, getattr(self, name)))
        return new

    def to_long(self) -> pd.DataFrame:
        """One row per measurement: experiment, variable, time, value; limits are texts such as "<0.5"."""
        return pd.concat(
            [
                pd.DataFrame({"experiment": s.experiment, "variable": s.variable, "time": s.times, "value": s.cells})
                for s in self.series
            ],
            ignore_index=True,
        )

    def __str__(self) -> str:
        unit = f" {self.time_unit}" if self.time_unit else ""
        lines = [self.headline]
        for s in self.series:
            where = "" if len(self.experiments) == 1 else f" [{s.experiment}]"
            size = f"{s.times.size} values" + (f" ({np.count_nonzero(s.limits)} limits)" if s.limits.any() else "")
            lines.append(
                f"  {s.variable}{where}: {size} in [{s.values.min():.4g}, {s.values.max():.4g}], "
                f"time {s.times[0]:.4g} to {s.times[-1]:.4g}{unit}"
            )
        lines += [f"  experiment {name}: {done}" for name, done in self.done.items()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    __repr__ = __str__

    @property
    def headline(self) -> str:
        """How much there is, in one line."""
        count = len(self.experiments)
        return f"Observations: {self.size} measurements, {count} {'experiment' if count == 1 else 'experiments'}"

    def _repr_html_(self) -> str:
        from gpnode.render import notebook

        return notebook.observations(self)

    # -- assembly and checks --------------------------------------------------------------

    def _assemble(
        self,
        experiments: Mapping[str, Mapping[str, tuple[Any, ...]]],
        start: Any,
        time_unit: str | None,
        sort: bool,
        scant: bool = False,
    ) -> None:
        raw = [
            (str(experiment), str(variable), *as_pair(str(variable), pair))
            for experiment, measurements in experiments.items()
            for variable, pair in measurements.items()
        ]
        if not raw:
            raise DataError("there are no observations. Give at least one variable with two or more measurements.")
        origin = date_origin([times for _, _, times, _, _ in raw], time_unit)
        series = [
            clean_series(variable, experiment, elapsed_times(times, variable, origin, time_unit), values, beside, sort)
            for experiment, variable, times, values, beside in raw
        ]
        kept = tuple(s for s in series if s.times.size)
        check_variables(kept, [variable for _, variable, _, _, _ in raw], scant)
        object.__setattr__(self, "series", kept)
        object.__setattr__(self, "start", start_times(kept, start, origin, time_unit))
        object.__setattr__(self, "time_unit", time_unit)
        object.__setattr__(self, "notes", ())
        object.__setattr__(self, "done", {})
        if not scant:
            check_spans(kept, self.start)
