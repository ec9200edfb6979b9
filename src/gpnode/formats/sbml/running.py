"""A system in motion: its formulas as functions of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gpnode.errors import SbmlError
from gpnode.formats.formula import Call, Name, Number, Tree, names_in, scalar_function
from gpnode.formats.formula.scalars import divide
from gpnode.formats.formula.tree import nodes_in
from gpnode.formats.sbml.naming import TIME, at_start, slope_of
from gpnode.formats.sbml.system import System

_COMPARISONS = {"lt", "leq", "gt", "geq", "eq", "neq"}
Values = dict[str, Any]
Function = Callable[[Mapping[str, Any]], Any]


class Running:
    """Values of a system by name, the last ones asked for.

    ``moving`` are states with a slope, which are solved for; other states keep their value until an event changes it.
    """

    def __init__(self, system: System, numbers: Mapping[str, float]) -> None:
        for name in numbers:
            if name not in system.numbers:
                raise SbmlError(f"{name!r:.60} is not a number of the file that can be replaced.")
        self._system = system
        definitions = system.definitions
        self.moving = tuple(s for s in system.states if definitions[slope_of(s)] != Number(0.0))
        self.identifiers = system.identifiers
        self._values: Values = {**system.numbers, **{n: float(v) for n, v in numbers.items()}}
        self._values[TIME] = 0.0
        varying = {TIME, *system.states}
        for name in system.order(definitions):
            if names_in(definitions[name]) & varying:
                varying.add(name)
            else:
                self._values[name] = scalar_function(definitions[name])(self._values)
        self._varying = varying
        for state in system.states:
            self._values[state] = self._values[at_start(state)]
        self._slopes = [slope_of(state) for state in self.moving]
        self._for_slopes = self._functions(self._slopes)
        self._for_everything = self._functions(self.identifiers)
        happenings = system.happenings
        self._triggers = [scalar_function(h.trigger) for h in happenings]
        self._for_triggers = self._functions(self._names(h.trigger for h in happenings))
        self._delays = [None if h.delay is None else scalar_function(h.delay) for h in happenings]
        self._priorities = [None if h.priority is None else scalar_function(h.priority) for h in happenings]
        self._changes = [{state: scalar_function(tree) for state, tree in h.changes.items()} for h in happenings]
        self._for_changes = self._functions(
            {
                *self._names(tree for h in happenings for tree in h.trees()),
                *(c for h in happenings for c in h.sizes.values()),
            }
        )
        self._conditions = self._comparisons()
        self._for_conditions = self._functions({*self._names(tree for tree, _ in self._conditions)})
        self._places = {state: i for i, state in enumerate(self.moving)}

    def starts(self) -> np.ndarray:
        """Moving states at the start."""
        return np.array([self._values[state] for state in self.moving], dtype=float)

    def slopes(self, t: float, y: np.ndarray) -> list[float]:
        """Of the moving states."""
        values = self._at(t, y, self._for_slopes)
        return [values[name] for name in self._slopes]

    def everything(self, t: float, y: np.ndarray) -> list[float]:
        """Every identifier."""
        values = self._at(t, y, self._for_everything)
        return [float(values[name]) for name in self.identifiers]

    def conditions(self, t: float, y: np.ndarray) -> tuple[bool, ...]:
        """Whether each comparison on which something depends holds."""
        if not self._conditions:
            return ()
        values = self._at(t, y, self._for_conditions)
        return tuple([bool(holds(values)) for _, holds in self._conditions])

    def triggers(self, t: float, y: np.ndarray) -> list[bool]:
        """Whether the trigger of each event is true."""
        values = self._at(t, y, self._for_triggers)
        return [bool(trigger(values)) for trigger in self._triggers]

    def delay(self, index: int, t: float, y: np.ndarray) -> float:
        """How much later an event happens that is triggered now."""
        function = self._delays[index]
        return 0.0 if function is None else float(function(self._at(t, y, self._for_changes)))

    def priority(self, index: int, t: float, y: np.ndarray) -> float:
        """Which of several events comes first: that with the highest."""
        function = self._priorities[index]
        value = math.nan if function is None else float(function(self._at(t, y, self._for_changes)))
        return -math.inf if math.isnan(value) else value

    def changes(self, index: int, t: float, y: np.ndarray) -> list[float]:
        """New values of what an event changes, as they would be now."""
        values = self._at(t, y, self._for_changes)
        return [float(function(values)) for function in self._changes[index].values()]

    def changed(self, index: int, new: Iterable[float], t: float, y: np.ndarray) -> np.ndarray:
        """Moving states after an event; those that do not move are kept here."""
        y = np.array(y, dtype=float)
        happening, before = self._system.happenings[index], dict(self._at(t, y, self._for_changes))
        by_state = dict(zip(self._changes[index], new, strict=True))
        for state, value in by_state.items():
            if state in happening.sizes:
                value = value * before[happening.sizes[state]]
            if state in happening.diluted:
                value = before[state] if happening.changes[state] == Name(state) else value
                compartment = happening.diluted[state]
                value = value * divide(before[compartment], by_state[compartment])
            if state in self._places:
                y[self._places[state]] = value
            else:
                self._values[state] = value
        return y

    def _at(self, t: float, y: np.ndarray, functions: list[tuple[str, Function]]) -> Values:
        values = self._values
        values[TIME] = t
        values.update(zip(self.moving, y.tolist() if isinstance(y, np.ndarray) else y, strict=True))
        for name, function in functions:
            values[name] = function(values)
        return values

    def _functions(self, names: Iterable[str]) -> list[tuple[str, Function]]:
        """What must be computed anew, in order, for ``names`` to be right."""
        definitions = self._system.definitions
        return [(n, scalar_function(definitions[n])) for n in self._system.order(names) if n in self._varying]

    def _names(self, trees: Iterable[Tree]) -> set[str]:
        return {name for tree in trees for name in names_in(tree)}

    def _comparisons(self) -> list[tuple[Tree, Function]]:
        """Comparisons in slopes, which may jump there, and those and all else in triggers."""
        ordered = self._system.order([*self._slopes, *self._names(h.trigger for h in self._system.happenings)])
        trees = [self._system.definitions[name] for name in ordered]
        triggers = [h.trigger for h in self._system.happenings]
        found: dict[Tree, None] = {}
        for tree in (*trees, *triggers):
            for node in nodes_in(tree):
                if isinstance(node, Call) and node.function in _COMPARISONS:
                    found.update(dict.fromkeys(_watched(node)))
        found.update(dict.fromkeys(triggers))
        return [(tree, scalar_function(tree)) for tree in found if names_in(tree) & self._varying]


def _watched(node: Call) -> list[Tree]:
    """What changes whenever a comparison does, if only for a moment."""
    if node.function not in ("eq", "neq"):
        return [node]
    return [Call(f, node.arguments[i : i + 2]) for i in range(len(node.arguments) - 1) for f in ("lt", "gt")]
