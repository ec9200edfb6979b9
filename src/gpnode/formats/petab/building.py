"""From what a problem states to a model and its data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpnode.data.experiments import Event, Experiment, Steps
from gpnode.data.observations import Observations
from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Number, Tree, replace_names
from gpnode.formats.petab.endings import split_endings
from gpnode.formats.petab.events import TimedEvents, with_events
from gpnode.formats.petab.formulas import Formulas
from gpnode.formats.petab.placeholders import fill_placeholders
from gpnode.formats.petab.priors import prior_of
from gpnode.formats.petab.sizes import typical_sizes
from gpnode.formats.petab.statement import BEFORE, Row, Seen, Statement
from gpnode.formats.petab.switching import Switching
from gpnode.formats.petab.targets import Conditioned, condition_system
from gpnode.formats.sbml.naming import TIME, at_start, slope_of
from gpnode.formats.sbml.system import System
from gpnode.model.dynamics import KnownForm
from gpnode.model.model import Model
from gpnode.model.observation.formula_noise import FormulaNoise
from gpnode.model.observation.observables import Observable
from gpnode.model.observation.transforms import Identity, Log
from gpnode.model.priors.given import Given
from gpnode.solvers import NativeStiff

_PREDICTED = "@predicted"
_STILL = "@still"
_SOLVER = NativeStiff(rtol=1e-8, atol=1e-12)  # states may differ in size by far more than those that are measured
_LN10 = math.log(10.0)


@dataclass(frozen=True)
class Built:
    """A model and data, and which rows (n,) of the table of measurements are in each series."""

    model: Model
    data: Observations
    rows: Mapping[tuple[str, str], np.ndarray]


def build(system: System, statement: Statement) -> Built:
    """The model and the data that a problem states."""
    return _Builder(system, statement).built()


class _Builder:
    """Collects what formulas of the tables need, and makes the parts of a model of them."""

    def __init__(self, system: System, statement: Statement) -> None:
        statement, self.resting = split_endings(system, statement)
        self.statement = statement
        self.used: set[str] = set()
        self.filled: dict[str, dict[str, Tree]] = {}  # what stands for placeholders of each observable
        self.columns: dict[str, set[str]] = {}  # numbers that come with measurements of each observable
        used = {row.experiment for row in statement.rows}
        self.experiments = [name for name in statement.experiments if name in used]
        self.conditioned: Conditioned = condition_system(system, statement)
        self.system = _with_parameters(self.conditioned.system, statement)
        self.given = set().union(*(set(inputs) for inputs in self.conditioned.inputs.values()))
        table = statement.parameters
        for parameter in table.values():
            if not parameter.is_estimated and parameter.nominal is None:
                raise FileFormatError(f"the parameter {parameter.name!r:.60} is not estimated, and has no value.")
        fixed = {n: float(one.nominal) for n, one in table.items() if one.nominal is not None and not one.is_estimated}
        free = {n for n, one in table.items() if one.is_estimated}
        numbers = {n: v for n, v in self.system.numbers.items() if n not in free and n not in self.given}
        self.constants = numbers | fixed
        self.priors = {n: prior_of(table[n]) for n in table if n in free}
        self.switching = Switching(self.system, self.constants, self.given)
        self.system = self.switching.system
        self.events = TimedEvents(self.system, self.constants, self.given)
        self.given |= set(self.switching.names)

    def formulas(self, trees: Mapping[str, Tree], where: str, also: Collection[str] = ()) -> Formulas:
        """Formulas whose names are all known, those of ``also`` besides."""
        found = Formulas(self.system, trees, self.constants)
        for name in found.leaves:
            if name not in self.priors and name not in self.given and name not in also:
                raise FileFormatError(f"{where} uses {name!r:.60}, which is neither in the model nor a parameter.")
        return found

    def kind(self, name: str) -> Any:
        """What a number is to the model: given by experiments, or unknown."""
        return Given() if name in self.given else self.priors[name]

    def resolved(self, tree: Tree) -> Tree:
        """A formula of the tables in the terms of the system."""
        renamed: dict[str, Tree] = {n: Name(entity) for n, entity in self.statement.renamed.items()}
        tree = replace_names(tree, {**renamed, "time": Name(TIME)})
        return replace_names(tree, self.conditioned.places)

    def built(self) -> Built:
        states = self.system.states or (_STILL,)
        slopes = {s: Name(slope_of(s)) if self.system.states else Number(0.0) for s in states}
        motion = self.formulas(slopes, "the model")
        dynamics = KnownForm(states, motion, {name: self.kind(name) for name in motion.leaves})
        self.used = set(motion.leaves)
        data, rows = self.measured()
        observables, noises, transforms = self.seen()
        initial = {state: {name: self.start(state, name) for name in self.experiments} for state in states}
        inputs = {name: self.experiment(name) for name in self.experiments}
        own = {name for noise in noises.values() for name in noise.own}
        others = {name for name in (*self.used, *self.priors) if name not in motion.leaves and name not in own}
        parameters = {name: self.kind(name) for name in (*self.priors, *sorted(self.given)) if name in others}
        kept = {*motion.leaves, *parameters}
        done = {
            name: Experiment(
                inputs={n: v for n, v in one.inputs.items() if n in kept},
                before={n: v for n, v in one.before.items() if n in kept},
                events=one.events,
                at_rest=one.at_rest,
                measured_after=True,
            )
            for name, one in inputs.items()
        }
        model = Model(
            dynamics,
            initial=initial,
            kernel=None,
            noise=noises,
            transform=transforms,
            observables=observables,
            parameters=parameters,
            solver=_SOLVER,
            scales=typical_sizes(self.conditioned, self.system, self.statement, self.constants, self.experiments),
        )
        return Built(model, data.with_experiments(done), rows)

    # -- what is measured ------------------------------------------------------------------

    def measured(self) -> tuple[Observations, dict[tuple[str, str], np.ndarray]]:
        """The data, and rows of each series."""
        series: dict[str, dict[str, tuple[Any, ...]]] = {}
        places: dict[tuple[str, str], np.ndarray] = {}
        by_observable: dict[str, list[Row]] = {}
        for row in self.statement.rows:
            if row.observable not in self.statement.observables:
                raise FileFormatError(
                    f"row {row.row + 1} of the table of measurements has the observable {row.observable!r:.60}, "
                    "which no table has."
                )
            by_observable.setdefault(row.observable, []).append(row)
        for name, rows in by_observable.items():
            seen = self.statement.observables[name]
            trees, columns = fill_placeholders(seen.placeholders, rows, noise=False)
            noise_trees, noise_columns = fill_placeholders(seen.noise_placeholders, rows, noise=True)
            self.filled[name] = trees | noise_trees
            numbers = columns | noise_columns
            self.columns[name] = set(numbers)
            for experiment in dict.fromkeys(row.experiment for row in rows):
                chosen = [i for i, row in enumerate(rows) if row.experiment == experiment]
                chosen.sort(key=lambda i: rows[i].time)
                where = np.array(chosen)
                times = np.array([rows[i].time for i in chosen])
                values = np.array([rows[i].value for i in chosen])
                beside = {n: column[where] for n, column in numbers.items()}
                series.setdefault(experiment, {})[name] = (times, values, beside)
                places[experiment, name] = np.array([rows[i].row for i in chosen])
        start = {name: self.conditioned.times[name][0] for name in self.experiments}
        ordered = {name: series[name] for name in self.experiments}
        return Observations.from_experiments(ordered, start=start, scant=True), places

    def seen(self) -> tuple[dict[str, Observable], dict[str, FormulaNoise], dict[str, Any]]:
        """Observables, their noise, and the scale on which it is."""
        observables, noises, transforms = {}, {}, {}
        for name in self.filled:
            seen = self.statement.observables[name]
            predicted = self.resolved(replace_names(seen.formula, self.filled[name]))
            formulas = self.formulas({name: predicted}, f"the observable {name!r:.60}", self.columns[name])
            observables[name] = Observable(_only(formulas, name))
            self.used |= set(formulas.leaves) - self.columns[name]
            transforms[name] = Identity() if seen.transform == "lin" else Log()
        for name in self.filled:
            noises[name] = self.noise(self.statement.observables[name])
        return observables, noises, transforms

    def noise(self, seen: Seen) -> FormulaNoise:
        """The noise of one observable: PEtab's number is a standard deviation, or the scale of a Laplace density."""
        others = {
            name: replace_names(one.formula, self.filled[name])
            for name, one in self.statement.observables.items()
            if name in self.filled and not one.placeholders
        }
        tree = replace_names(seen.noise, {**others, **self.filled[seen.name], seen.name: Name(_PREDICTED)})
        tree = self.resolved(tree)
        factor = (_LN10 if seen.transform == "log10" else 1.0) * (math.sqrt(2.0) if seen.shape == "laplace" else 1.0)
        tree = Call("times", (Number(factor), tree)) if factor != 1.0 else tree
        columns = self.columns[seen.name]
        formulas = self.formulas({seen.name: tree}, f"the noise of {seen.name!r:.60}", {*columns, _PREDICTED})
        own = {n: self.priors[n] for n in formulas.leaves if n in self.priors and n not in self.used_by_paths}
        self.used |= {n for n in formulas.leaves if n in self.given}
        return FormulaNoise(_noisy(formulas, seen.name), own, shape=seen.shape)

    @cached_property
    def used_by_paths(self) -> set[str]:
        """Unknown numbers that more than noise depends on: in equations, observables, conditions and starts."""
        trees = [tree for e in self.experiments for tree in self.condition_trees(e)]
        trees += [Name(at_start(state)) for state in self.system.states]
        found = Formulas(self.system, {str(i): tree for i, tree in enumerate(trees)}, self.constants)
        return self.used | set(found.leaves)

    def condition_trees(self, experiment: str) -> list[Tree]:
        """All formulas of conditions and starts of an experiment."""
        trees: list[Tree] = []
        for before, periods in self.conditioned.inputs[experiment].values():
            trees += [*([] if before is None else [before]), *periods]
        trees += self.conditioned.starts[experiment].values()
        return trees + [tree for _, changes in self.conditioned.jumps[experiment] for tree in changes.values()]

    # -- what is done ----------------------------------------------------------------------

    def start(self, state: str, experiment: str) -> Any:
        """The value of a state at the very beginning: a number, or a function of parameters."""
        if state == _STILL:
            return 0.0
        starts = self.conditioned.starts[experiment]
        system = self.system.with_starts(starts)
        found = Formulas(system, {state: Name(at_start(state))}, self.constants)
        self.check(found, f"the initial value of {state!r:.60}")
        if not found.leaves:
            value = float(found(0.0, {}, {})[state])
            if not math.isfinite(value):
                raise FileFormatError(f"the state {state!r:.60} has no initial value.")
            return value
        self.used |= set(found.leaves)
        return _of_parameters(found, state)

    def check(self, found: Formulas, where: str) -> None:
        """Refuse formulas of parameters with states or unknown names."""
        if found.states or found.needs_time:
            what = found.states[0] if found.states else "time"
            raise FileFormatError(f"{where} depends on {what!r:.60}, which changes over time.")
        for name in found.leaves:
            if name not in self.priors and name not in self.given:
                raise FileFormatError(f"{where} uses {name!r:.60}, which is neither in the model nor a parameter.")

    def input(self, tree: Tree, where: str) -> Any:
        """A number, or a function of parameters."""
        found = Formulas(self.system, {"value": tree}, self.constants)
        self.check(found, where)
        if not found.leaves:
            return float(found(0.0, {}, {})["value"])
        self.used |= set(found.leaves)
        return _of_parameters(found, "value")

    def experiment(self, name: str) -> Experiment:
        """What is done in an experiment."""
        inputs: dict[str, Any] = {}
        before: dict[str, Any] = {}
        times = self.conditioned.times[name]
        for number, (first, periods) in self.conditioned.inputs[name].items():
            where = f"the condition of {number.partition('@')[0]!r:.60}"
            values = [self.input(tree, where) for tree in dict.fromkeys(periods)]
            if len(values) == 1:
                inputs[number] = values[0]
            else:
                values = [self.input(tree, where) for tree in periods]
                if any(callable(value) for value in values):
                    raise FileFormatError(f"{where} depends on parameters, and changes in the course of {name!r:.60}.")
                inputs[number] = Steps(list(times), values)
            if first is not None:
                before[number] = self.input(first, where)
        known = {number: value for number, value in inputs.items() if isinstance(value, float)}
        rests = any(period.time == BEFORE for period in self.statement.experiments[name])
        if not (self.switching.needs | self.events.needs) <= set(known):
            raise FileFormatError("equations switch at a time that conditions tell, which is more than a number.")
        at_last = name in self.resting
        inputs |= (self.switching.at_last if at_last else self.switching.inputs)(known, times[0])
        jumps = with_events(self.conditioned.jumps[name], self.events.jumps(known, times[0]))
        events = [Event(time, self.jump(changes)) for time, changes in jumps]
        return Experiment(inputs=inputs, before=before, events=events, at_rest=rests, measured_after=True)

    def jump(self, changes: Mapping[str, Tree]) -> dict[str, Callable[..., Any] | float]:
        """What becomes of states."""
        made: dict[str, Callable[..., Any] | float] = {}
        for state, tree in changes.items():
            found = self.formulas({state: tree}, f"the condition of {state!r:.60}")
            self.used |= set(found.leaves)
            made[state] = _only(found, state)
        return made


def _with_parameters(system: System, statement: Statement) -> System:
    """The system, in which all parameters of the problem are numbers."""
    for name in statement.parameters:
        if name in system.states or (name in system.definitions and system.definitions[name] != Name(at_start(name))):
            raise FileFormatError(f"the parameter {name!r:.60} changes over time in the model, or follows a rule.")
    definitions = {n: tree for n, tree in system.definitions.items() if n not in statement.parameters}
    numbers = {**system.numbers, **dict.fromkeys(statement.parameters, 0.0)}
    return replace(system, numbers=numbers, definitions=definitions)


def _only(formulas: Formulas, name: str) -> Callable[..., Any]:
    return lambda t, x, p: formulas(t, x, p)[name]


def _noisy(formulas: Formulas, name: str) -> Callable[..., Any]:
    return lambda t, x, p, y: formulas(t, x, _With(p, {_PREDICTED: y}))[name]


def _of_parameters(formulas: Formulas, name: str) -> Callable[..., Any]:
    return lambda p: formulas(0.0, {}, p)[name]


class _With(Mapping[str, Any]):
    """Values by name, with some more."""

    def __init__(self, values: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        self._values, self._more = values, more

    def __getitem__(self, name: str) -> Any:
        return self._more[name] if name in self._more else self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._values, **self._more})

    def __len__(self) -> int:
        return len({**self._values, **self._more})
