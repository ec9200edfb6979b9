"""A system's formulas in ``jax.numpy``, for models that are fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpnode.formats.formula import Call, Tree, evaluate, names_in
from gpnode.formats.formula.tree import nodes_in
from gpnode.formats.sbml.naming import TIME, at_start, slope_of
from gpnode.formats.sbml.system import System


class Equations:
    """Values of a system as functions of time, states ``x`` and numbers ``p``, each by name.

    Numbers that ``p`` does not have are those of the file.

    >>> from gpnode.formats.formula import Name, Number
    >>> from gpnode.formats.sbml.system import System
    >>> decay = System({"k": 2.0}, ("x",), {"x@start": Number(1.0), "x@slope": Name("loss"), "loss": Name("k")})
    >>> Equations(decay).slopes(0.0, {"x": 1.0}, {"k": 3.0})
    {'x': 3.0}
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._guarded = _in_branches(system)
        self._orders: dict[tuple[str, ...], tuple[str, ...]] = {}

    def values(self, names: Iterable[str], t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
        """Anything by name: identifiers as formulas of the file mean them, and names of :mod:`.naming`."""
        asked = tuple(names)
        if asked not in self._orders:
            self._orders[asked] = self.system.order(asked)
        values: dict[str, Any] = {**self.system.numbers, **{n: p[n] for n in p}, **{n: x[n] for n in x}, TIME: t}
        for name in self._orders[asked]:
            values[name] = evaluate(self.system.definitions[name], values, guarded=name in self._guarded)
        return {name: values[name] for name in asked}

    def formula(self, tree: Tree, t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> Any:
        """The value of a formula of anything with a name."""
        names = sorted(names_in(tree) - set(p))
        return evaluate(tree, {**{n: p[n] for n in p}, **self.values(names, t, x, p)})

    def slopes(self, t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
        """Of all states."""
        found = self.values([slope_of(state) for state in self.system.states], t, x, p)
        return {state: found[slope_of(state)] for state in self.system.states}

    def starts(self, p: Mapping[str, Any]) -> dict[str, Any]:
        """States at the start."""
        found = self.values([at_start(state) for state in self.system.states], 0.0, {}, p)
        return {state: found[at_start(state)] for state in self.system.states}


def _in_branches(system: System) -> frozenset[str]:
    """Definitions that only count under a condition, or may do so."""
    found: set[str] = set()
    for tree in system.definitions.values():
        for node in nodes_in(tree):
            if isinstance(node, Call) and node.function == "piecewise":
                values = [*node.arguments[::2]]
                found.update(*(names_in(value) for value in values))
    return frozenset(system.order(sorted(found & set(system.definitions))))
