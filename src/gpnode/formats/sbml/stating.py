"""What a file says as a model that a fit can take: equations with numbers, initial values, events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp

from gpnode.data.experiments import Event, Experiment, Trigger
from gpnode.errors import ModelError, SbmlError
from gpnode.formats.formula import Call, Name, Tree, names_in, scalar_function
from gpnode.formats.sbml.algebra import linear_parts
from gpnode.formats.sbml.equations import Equations
from gpnode.formats.sbml.naming import TIME, amount_of, at_start, slope_of
from gpnode.formats.sbml.system import Happening, System
from gpnode.model.dynamics import KnownForm, Named
from gpnode.model.model import Model
from gpnode.model.observation.observables import Observable
from gpnode.solvers import NativeStiff

_SIGNS = {"gt": 1.0, "geq": 1.0, "lt": -1.0, "leq": -1.0}


def state_model(
    system: System, priors: Mapping[str, Any], measured: Iterable[str], settings: Mapping[str, Any]
) -> Model:
    """The model of a file in which ``priors`` take the place of numbers, and observables see what is ``measured``."""
    if not system.states:
        raise SbmlError("nothing in the file is integrated over time, so that there is nothing to fit.")
    for name in priors:
        if name not in system.numbers:
            raise ModelError(
                f"there is no number {name!r:.60} in the file to give a prior to; there are "
                f"{', '.join(system.numbers) or 'none'}."
            )
    equations = Equations(system)
    used = {n for n in system.needed([slope_of(state) for state in system.states]) if n in system.numbers}
    observables = {name: _observable(equations, name) for name in measured if name not in system.states}
    own = {name: prior for name, prior in priors.items() if name not in used}
    elsewhere = system.needed([*observables, *map(at_start, system.states)])
    for name in own:
        if name not in elsewhere:
            raise ModelError(f"{name!r} has a prior, but neither equations, starts nor what is measured use it.")
    numbers = {name: priors.get(name, system.numbers[name]) for name in system.numbers if name in used}
    for name, number in numbers.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise SbmlError(f"{name.split('@')[-1]!r} has no finite value in the file. Give it a prior or a number.")

    def slopes(t: Any, x: Named, p: Named) -> dict[str, Any]:
        return {state: jnp.asarray(slope, dtype=float) for state, slope in equations.slopes(t, x, p).items()}

    given = settings.get("initial", {})
    both = {
        "solver": NativeStiff(),  # rates of networks differ by orders of magnitude, and may jump
        **settings,
        "initial": {state: _start(equations, state, priors) for state in system.states if state not in given} | given,
        "observables": observables | settings.get("observables", {}),
        "parameters": own | settings.get("parameters", {}),
    }
    return Model(KnownForm(system.states, slopes, numbers), **both)


def _start(equations: Equations, state: str, priors: Mapping[str, Any]) -> Any:
    """The value of a state at the start: a number, or a function of parameters that have priors."""
    system, name = equations.system, at_start(state)
    if not system.needed([name]) & set(priors):
        value = float(equations.values([name], 0.0, {}, {})[name])
        if not math.isfinite(value):
            raise SbmlError(f"{state.split('@')[0]!r} has no finite value at the start. Give it one: initial={{...}}.")
        return value
    return lambda p: jnp.asarray(equations.values([name], 0.0, {}, p)[name], dtype=float)


def _observable(equations: Equations, name: str) -> Observable:
    system = equations.system
    if name not in system.identifiers and name != amount_of(name.removesuffix("@amount")):
        raise ModelError(f"{name!r:.60} is not in the file, so that it cannot be measured.")
    needed = system.needed([name])

    def value(t: Any, x: Named, p: Named) -> Any:
        states = {state: x[state] for state in system.states}
        return equations.values([name], t, states, {n: p[n] for n in p if n in needed})[name]

    return Observable(value)


def state_experiment(system: System, priors: Mapping[str, Any], most: int | None) -> Experiment:
    """What the events of a file do, where a fit can do it; those that the state triggers happen ``most`` times."""
    equations = Equations(system)
    events: list[Event] = []
    triggers: list[Trigger] = []
    for happening in system.happenings:
        done = _Translation(equations, happening, priors).done(most)
        if isinstance(done, Event):
            events.append(done)
        elif done is not None:
            triggers.append(done)
    times = [event.time for event in events]
    after = {_includes_its_time(h) for h in system.happenings if _is_timed(system, h)}
    if len(after) > 1:
        raise SbmlError(
            "some events include the time at which they are triggered (>=), others do not (>), and a fit cannot tell "
            "them apart. Write them in one way."
        )
    if len(set(times)) < len(times):
        raise SbmlError("several events happen at the same time, whose order a fit does not keep. Join them into one.")
    return Experiment(events=events, triggers=triggers, measured_after=True in after)


def _is_timed(system: System, happening: Happening) -> bool:
    return not system.needed(names_in(happening.trigger)) & set(system.states)


def _includes_its_time(happening: Happening) -> bool:
    """Whether what is measured at the time of an event is what comes after it."""
    late = happening.delay is not None
    return late or (isinstance(happening.trigger, Call) and happening.trigger.function in ("geq", "leq"))


class _Translation:
    """One event of a file as something that is done in an experiment."""

    def __init__(self, equations: Equations, happening: Happening, priors: Mapping[str, Any]) -> None:
        self.equations, self.system = equations, equations.system
        self.happening, self.priors = happening, priors

    def done(self, most: int | None) -> Event | Trigger | None:
        trigger = self.happening.trigger
        if not isinstance(trigger, Call) or trigger.function not in _SIGNS or len(trigger.arguments) != 2:
            raise self._refusal("its trigger is more than one comparison")
        left, right = trigger.arguments if _SIGNS[trigger.function] > 0 else trigger.arguments[::-1]
        margin = Call("minus", (left, right))
        needed = self.system.needed(names_in(margin))
        if needed & set(self.system.states):
            return self._by_state(margin, needed, most)
        parts = linear_parts(margin, TIME)
        if parts is None or any(TIME in self.system.needed(names_in(part)) for part in parts):
            raise self._refusal("when it happens is no time that can be told")
        if needed & set(self.priors):
            if self.happening.delay is not None:
                raise self._refusal("it has a delay, and happens when parameters say")
            return Trigger(self._function(margin), self._changes())
        return self._at_time(trigger.function, self._number(parts[0]), self._number(parts[1]))

    def _at_time(self, comparison: str, rest: float, factor: float) -> Event | None:
        at = -rest / factor
        begins_true = rest > 0 or (rest == 0 and (comparison in ("geq", "leq") or factor < 0))
        if not math.isfinite(at):
            raise self._refusal("when it happens is no time that can be told")
        if begins_true and not self.happening.true_before:
            raise self._refusal("it happens at the very start")
        if begins_true or at < 0:
            return None  # it is true from the start, or until some time, and never turns true
        return Event(at + self._delay(), self._changes())

    def _by_state(self, margin: Tree, needed: frozenset[str], most: int | None) -> Trigger:
        if self.happening.delay is not None:
            raise self._refusal("it has a delay, and is triggered by the state")
        for other in self.system.happenings:
            if other is not self.happening and set(other.changes) & needed:
                raise self._refusal(f"what the event {other.name!r} changes can trigger it")
        start = self.equations.starts({})
        if float(self.equations.formula(margin, 0.0, start, {})) >= 0 and not self.happening.true_before:
            raise self._refusal("it happens at the very start")
        if most is None:
            raise SbmlError(
                f"the event {self.happening.name!r} is triggered by the state: say how often it can happen at most, "
                "experiment_with(most=1)."
            )
        return Trigger(self._function(margin), self._changes(), count=most)

    def _delay(self) -> float:
        delay = self.happening.delay
        if delay is None:
            return 0.0
        names = {name for tree in (delay, *self.happening.changes.values()) for name in names_in(tree)}
        depends = self.system.needed(names) & {*self.system.states, TIME}
        if self.system.needed(names_in(delay)) & {*self.system.states, TIME, *self.priors}:
            raise self._refusal("its delay is not one number")
        if self.happening.at_trigger and (depends or self.happening.sizes or self.happening.diluted):
            raise self._refusal("it keeps values of the time it was triggered until its delay is over")
        return self._number(delay)

    def _number(self, tree: Tree) -> float:
        names = sorted(names_in(tree))
        values = self.equations.values(names, 0.0, {}, {})
        return float(scalar_function(tree)({name: float(value) for name, value in values.items()}))

    def _changes(self) -> dict[str, Callable[..., Any]]:
        changes: dict[str, Tree] = {}
        for state, tree in self.happening.changes.items():
            if state in self.happening.sizes:
                tree = Call("times", (tree, Name(self.happening.sizes[state])))
            if state in self.happening.diluted:
                compartment = self.happening.diluted[state]
                tree = Call("divide", (Call("times", (tree, Name(compartment))), self.happening.changes[compartment]))
            changes[state] = tree
        used = self.system.needed(names_in(Call("plus", tuple(changes.values()))))
        slopes = self.system.needed([slope_of(state) for state in self.system.states])
        for name in sorted(used & set(self.priors) - slopes):
            raise self._refusal(f"it uses {name!r}, which has a prior and is in no equation")
        return {state: self._function(tree) for state, tree in changes.items()}

    def _function(self, tree: Tree) -> Callable[..., Any]:
        equations, states = self.equations, self.system.states

        def value(t: Any, x: Named, p: Named) -> Any:
            numbers = {name: p[name] for name in p}
            return jnp.asarray(equations.formula(tree, t, {s: x[s] for s in states}, numbers), dtype=float)

        return value

    def _refusal(self, why: str) -> SbmlError:
        return SbmlError(f"a fit cannot have the event {self.happening.name!r}: {why}. It can be simulated.")
