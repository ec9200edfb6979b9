"""Comparisons of time with a number, as inputs that switch: a step of a solver must not reach over them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from gpnode.data.experiments import Steps
from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Number, Tree
from gpnode.formats.formula.tree import nodes_in
from gpnode.formats.petab.formulas import Formulas
from gpnode.formats.sbml.naming import slope_of
from gpnode.formats.sbml.system import System

_COMPARISONS = ("lt", "leq", "gt", "geq", "eq", "neq")
_PROBES = (0.0, 1.0, 2.0)


class Switching:
    """A ``system`` in which inputs (``names``) stand for comparisons that time decides; ``needs`` are names of numbers
    that tell when.

    Only comparisons with numbers that are known, or ``given`` by experiments, and that are lines in time.
    """

    def __init__(self, system: System, constants: Mapping[str, float], given: Collection[str]) -> None:
        needed = system.order(slope_of(state) for state in system.states)
        found = dict.fromkeys(call for name in needed for call in _comparisons(system.definitions[name]))
        self._sides: dict[str, Formulas] = {}
        places: dict[Tree, Tree] = {}
        for call in found:
            name = f"switch{len(places) + 1}@time"
            trees = {"difference": Call("minus", call.arguments), "holds": Call("piecewise", (_ONE, call, _ZERO))}
            sides = Formulas(system, trees, constants)
            if sides.needs_time and not sides.states and set(sides.leaves) <= set(given):
                self._sides[name] = sides
                places[call] = Call("gt", (Name(name), Number(0.5)))
        self.names = tuple(self._sides)
        self.needs = frozenset(leaf for sides in self._sides.values() for leaf in sides.leaves)
        definitions = {n: _replaced(t, places, {}) if n in needed else t for n, t in system.definitions.items()}
        numbers = {**system.numbers, **dict.fromkeys(self.names, 0.0)}
        self.system = replace(system, definitions=definitions, numbers=numbers) if places else system

    def inputs(self, given: Mapping[str, float], start: float) -> dict[str, float | Steps]:
        """What inputs are in an experiment that begins at ``start``, with numbers that it gives by name."""
        found: dict[str, float | Steps] = {}
        for name, sides in self._sides.items():
            at = [float(sides(time, {}, given)["difference"]) for time in _PROBES]
            slope = at[1] - at[0]
            if not abs(at[2] - at[1] - slope) <= 1e-9 * max(map(abs, at)):
                raise FileFormatError("equations compare time with a formula of time, which is no line.")
            turn = -at[0] / slope if slope else math.inf
            later = turn > start and math.isfinite(turn)
            times = [start, turn] if later else [start]
            middles = [0.5 * (start + turn), turn + 1.0] if later else [start + 1.0]
            values = [float(sides(time, {}, given)["holds"]) for time in middles]
            found[name] = Steps(times, values) if later else values[0]
        return found

    def at_last(self, given: Mapping[str, float], start: float) -> dict[str, float]:
        """What inputs are after a long time."""
        found = self.inputs(given, start)
        return {name: float(one.values[-1]) if isinstance(one, Steps) else one for name, one in found.items()}


_ONE, _ZERO = Number(1.0), Number(0.0)


def _comparisons(tree: Tree) -> list[Call]:
    return [n for n in nodes_in(tree) if isinstance(n, Call) and n.function in _COMPARISONS and len(n.arguments) == 2]


def _replaced(tree: Tree, places: Mapping[Tree, Tree], made: dict[int, Tree]) -> Tree:
    """A formula with other trees in the place of some calls."""
    if not isinstance(tree, Call):
        return tree
    if tree in places:
        return places[tree]
    if id(tree) not in made:
        made[id(tree)] = Call(tree.function, tuple(_replaced(a, places, made) for a in tree.arguments))
    return made[id(tree)]
