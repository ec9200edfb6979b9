"""Formulas of a problem as functions of time, states and parameters, once everything they need is in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpnode.formats.formula import Tree, evaluate, names_in
from gpnode.formats.sbml.naming import TIME
from gpnode.formats.sbml.system import System


class Formulas:
    """Several formulas of the definitions, states and numbers of a system; ``constants`` are numbers that are known.

    ``leaves`` are the names of numbers they need that are not, ``states`` those of states.
    """

    def __init__(self, system: System, trees: Mapping[str, Tree], constants: Mapping[str, float]) -> None:
        self.trees = dict(trees)
        named = frozenset().union(*(names_in(tree) for tree in trees.values()))
        self._definitions = {n: system.definitions[n] for n in system.order(sorted(named & set(system.definitions)))}
        needed = named.union(*(names_in(tree) for tree in self._definitions.values())) - set(self._definitions)
        states = set(system.states)
        self.needs_time = TIME in needed
        self.states = tuple(sorted(needed & states))
        self._constants = {n: constants[n] for n in sorted(needed - states - {TIME}) if n in constants}
        self.leaves = tuple(sorted(needed - states - {TIME} - set(self._constants)))

    def __call__(self, t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
        """What each of them says."""
        values: dict[str, Any] = {TIME: t, **self._constants}
        values |= {name: x[name] for name in self.states}
        values |= {name: p[name] for name in self.leaves}
        for name, tree in self._definitions.items():
            values[name] = evaluate(tree, values)
        return {name: evaluate(tree, values) for name, tree in self.trees.items()}
