"""What conditions change: numbers of the model, and values of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Number, Tree, names_in, replace_names
from gpnode.formats.petab.statement import BEFORE, Period, Statement
from gpnode.formats.sbml.naming import amount_of, at_start
from gpnode.formats.sbml.system import System


@dataclass(frozen=True)
class Conditioned:
    """A system with numbers that experiments say.

    ``inputs`` has, for each experiment, formulas of every such number before it begins (None if nothing is before) and
    in each of its periods; ``starts`` formulas of states at its very beginning; ``jumps`` times at which states change,
    and formulas of what they become. ``places`` has what stands in the place of a number that conditions change.
    """

    system: System
    places: Mapping[str, Tree]
    inputs: Mapping[str, Mapping[str, tuple[Tree | None, tuple[Tree, ...]]]]
    starts: Mapping[str, Mapping[str, Tree]]
    jumps: Mapping[str, tuple[tuple[float, Mapping[str, Tree]], ...]]
    times: Mapping[str, tuple[float, ...]]


def condition_system(system: System, statement: Statement) -> Conditioned:
    """The system, with numbers in place of what conditions change."""
    targets = list(dict.fromkeys(t for periods in statement.experiments.values() for p in periods for t in p.changes))
    names = {target: statement.renamed.get(target, target) for target in targets}
    numbers = {t: n for t in targets if (n := number_of(system, names[t])) is not None}
    for target in targets:
        if target not in numbers and _state(system, names[target]) is None:
            raise FileFormatError(
                f"conditions change {target!r:.60}, which is no constant and no state of the model: rules determine "
                "it, or it is not there."
            )
    given = {target: f"{number}@condition" for target, number in numbers.items()}
    places: dict[str, Tree] = {numbers[t]: Name(given[t]) for t in numbers}
    defaults = {t: _default(system, numbers[t]) for t in numbers}
    definitions = {n: replace_names(tree, places) for n, tree in system.definitions.items() if n not in places}
    happenings = tuple(
        replace(
            one,
            trigger=replace_names(one.trigger, places),
            changes={state: replace_names(tree, places) for state, tree in one.changes.items()},
        )
        for one in system.happenings
    )
    numbers_now = {**system.numbers, **dict.fromkeys(given.values(), 0.0)}
    changed = replace(system, numbers=numbers_now, definitions=definitions, happenings=happenings)
    inputs: dict[str, dict[str, tuple[Tree | None, tuple[Tree, ...]]]] = {}
    starts: dict[str, dict[str, Tree]] = {}
    jumps: dict[str, tuple[tuple[float, dict[str, Tree]], ...]] = {}
    times: dict[str, tuple[float, ...]] = {}
    for experiment, periods in statement.experiments.items():
        before = next((p for p in periods if p.time == BEFORE), None)
        later = [p for p in periods if p.time != BEFORE] or [Period(0.0, {})]
        times[experiment] = tuple(p.time for p in later)
        inputs[experiment] = {}
        for target, number in given.items():
            default = defaults[target]
            at = None if before is None else before.changes.get(target, default)
            current, by_period = at or default, []
            for period in later:
                current = period.changes.get(target, default if statement.version == 1 else current)
                by_period.append(current)
            inputs[experiment][number] = (at, tuple(by_period))
        inputs[experiment] = _settled(inputs[experiment], {given[t]: (numbers[t], defaults[t]) for t in numbers})
        first, *rest = [before, *later] if before is not None else later
        states = {t: tree for t, tree in first.changes.items() if t not in numbers}
        at_beginning = _changes(system, states, first, names)
        starts[experiment] = {s: _at_start(changed, replace_names(tree, places)) for s, tree in at_beginning.items()}
        happen = []
        for period in rest:
            states = {t: tree for t, tree in period.changes.items() if t not in numbers}
            if states:
                after = _changes(system, states, period, names)
                happen.append((period.time, {s: replace_names(tree, places) for s, tree in after.items()}))
        jumps[experiment] = tuple(happen)
    return Conditioned(changed, places, inputs, starts, jumps, times)


def _settled(
    inputs: Mapping[str, tuple[Tree | None, tuple[Tree, ...]]], defaults: Mapping[str, tuple[str, Tree]]
) -> dict[str, tuple[Tree | None, tuple[Tree, ...]]]:
    """Inputs of one experiment, where those that have their default follow the others that conditions change."""

    def follow(tree: Tree | None, phase: int | None, number: str, default: Tree) -> Tree | None:
        if tree is None or tree != default or isinstance(default, Number | Name):
            return tree
        for _ in inputs:
            values = {
                name: inputs[other][0] if phase is None else inputs[other][1][phase]
                for other, (name, _) in defaults.items()
            }
            tree = replace_names(tree, {n: v for n, v in values.items() if v is not None and n != number})
        return tree

    settled = {}
    for given, (before, periods) in inputs.items():
        number, default = defaults[given]
        later = tuple(follow(tree, i, number, default) or tree for i, tree in enumerate(periods))
        settled[given] = (follow(before, None, number, default), later)
    return settled


def number_of(system: System, name: str) -> str | None:
    """The number that a target stands for: itself, or its value at the start if it never changes."""
    if name in system.numbers:
        return name
    if name not in system.states and system.definitions.get(name) == Name(at_start(name)):
        return at_start(name)
    return None


def _default(system: System, number: str) -> Tree:
    """What it is where no condition says it."""
    return system.definitions[number] if number in system.definitions else Name(number)


def _state(system: System, name: str) -> str | None:
    """The state that a target stands for: itself, or its amount."""
    if name in system.states:
        return name
    return amount_of(name) if amount_of(name) in system.states else None


def _changes(system: System, states: Mapping[str, Tree], period: Period, names: Mapping[str, str]) -> dict[str, Tree]:
    """Formulas of states, of formulas of what conditions name."""
    changes: dict[str, Tree] = {}
    for target, tree in states.items():
        state = _state(system, names[target])
        assert state is not None
        if state != names[target]:
            assert system.species is not None
            compartment = system.species[names[target]].compartment
            tree = Call("times", (tree, period.changes.get(compartment, Name(compartment))))
        changes[state] = tree
    return changes


def _at_start(system: System, tree: Tree) -> Tree:
    """The formula with values at the start in place of those that change."""
    starting: dict[str, Tree] = {
        n: Name(at_start(n)) for n in names_in(tree) if at_start(n) in system.definitions and n not in system.numbers
    }
    return replace_names(tree, starting)
