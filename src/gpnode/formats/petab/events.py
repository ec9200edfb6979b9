"""Events of the model at known times, in the experiments of a problem."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Tree, replace_names
from gpnode.formats.petab.formulas import Formulas
from gpnode.formats.sbml.system import Happening, System

_SIGNS = {"gt": 1.0, "geq": 1.0, "lt": -1.0, "leq": -1.0}
_PROBES = (0.0, 1.0, 2.0)


class TimedEvents:
    """Events of a system, which must happen at times that are known once experiments have ``given`` their numbers."""

    def __init__(self, system: System, constants: Mapping[str, float], given: Collection[str]) -> None:
        self._known = [(one, _margin(one, system, constants, given)) for one in system.happenings]
        self.needs = frozenset(leaf for _, margin in self._known for leaf in margin.leaves)

    def jumps(self, given: Mapping[str, float], start: float) -> list[tuple[float, dict[str, Tree]]]:
        """Times, from ``start`` on, and formulas of what becomes of states."""
        found: list[tuple[float, dict[str, Tree]]] = []
        for happening, margin in self._known:
            at = [float(margin(time, {}, given)["margin"]) for time in _PROBES]
            slope = at[1] - at[0]
            if not all(map(math.isfinite, at)) or abs(at[2] - at[1] - slope) > 1e-9 * max(map(abs, at)):
                raise _refusal(happening, "when it happens is no time that can be told")
            if slope <= 0.0:
                if at[0] + slope * start > 0 and not happening.true_before:
                    raise _refusal(happening, "it happens at the very start")
                continue  # it never turns true
            time = -at[0] / slope
            if time > start:
                found.append((time, _changes(happening)))
            elif not happening.true_before:
                raise _refusal(happening, "it happens at the very start")
        times = [time for time, _ in found]
        if len(set(times)) < len(times):
            raise FileFormatError("several events of the model happen at the same time. Join them into one.")
        return sorted(found, key=lambda jump: jump[0])


def with_events(
    periods: Iterable[tuple[float, Mapping[str, Tree]]], events: Iterable[tuple[float, dict[str, Tree]]]
) -> list[tuple[float, dict[str, Tree]]]:
    """Jumps of both, in the order of time; an event comes after the period that begins at its time."""
    merged = {time: dict(changes) for time, changes in periods}
    for time, changes in events:
        before: dict[str, Tree] = merged.get(time, {})
        merged[time] = before | {state: replace_names(tree, before) for state, tree in changes.items()}
    return sorted(merged.items())


def _margin(happening: Happening, system: System, constants: Mapping[str, float], given: Collection[str]) -> Formulas:
    """A formula of time that turns positive when the event happens."""
    trigger = happening.trigger
    if not isinstance(trigger, Call) or trigger.function not in _SIGNS or len(trigger.arguments) != 2:
        raise _refusal(happening, "its trigger is more than one comparison")
    sides = trigger.arguments if _SIGNS[trigger.function] > 0 else trigger.arguments[::-1]
    margin = Formulas(system, {"margin": Call("minus", sides)}, constants)
    if margin.states:
        raise _refusal(happening, f"the state triggers it ({margin.states[0]!r:.60})")
    if not set(margin.leaves) <= set(given):
        raise _refusal(happening, "its time depends on parameters that are estimated")
    if happening.delay is not None:
        raise _refusal(happening, "it has a delay")
    return margin


def _changes(happening: Happening) -> dict[str, Tree]:
    """What becomes of states: amounts, and concentrations in compartments that change."""
    changes: dict[str, Tree] = {}
    for state, tree in happening.changes.items():
        if state in happening.sizes:
            tree = Call("times", (tree, Name(happening.sizes[state])))
        if state in happening.diluted:
            compartment = happening.diluted[state]
            tree = Call("divide", (Call("times", (tree, Name(compartment))), happening.changes[compartment]))
        changes[state] = tree
    return changes


def _refusal(happening: Happening, why: str) -> FileFormatError:
    return FileFormatError(f"gpnode does not take the event {happening.name!r:.60} of the model from PEtab: {why}.")
