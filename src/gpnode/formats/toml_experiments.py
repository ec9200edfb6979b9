"""``[experiments]`` of a problem file: what is done, in the file itself or in tables beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpnode.data.experiments import Dose, Event, Experiment, Input, Trigger
from gpnode.data.protocols import INTERPOLATIONS, read_experiments
from gpnode.errors import DataError, ModelError
from gpnode.formats.formula import parse
from gpnode.formats.toml_values import choose, number_of, refuse_unknown
from gpnode.model.dynamics import Named

FILES = ("conditions", "inputs", "doses")
"""Entries that may name a table."""
_ENTRIES = (*FILES, "interpolation", "events", "before")
_DOSE = ("state", "amount", "time", "duration", "every", "count", "delay", "experiment")


def files_of(section: Mapping[str, Any]) -> list[str]:
    """Tables that the section names."""
    return [section[name] for name in FILES if isinstance(section.get(name), str)]


def given_names(done: Mapping[str, Experiment]) -> set[str]:
    """What the experiments give equations."""
    return {name for one in done.values() for name in one.inputs}


def delay_names(done: Mapping[str, Experiment]) -> set[str]:
    """Parameters by which doses are delayed."""
    return {dose.delay for one in done.values() for dose in one.doses if dose.delay is not None}


def event_names(section: Mapping[str, Any]) -> set[str]:
    """States and parameters in formulas of events."""
    formulas = [
        text
        for entry in _list(section, "events")
        for name, text in entry.items()
        if isinstance(text, str) and name not in ("time", "count", "experiment")
    ]
    return {name for text in formulas for name in parse(text).names}


def read_done(
    folder: Path, section: Mapping[str, Any], experiments: Sequence[str], states: Sequence[str]
) -> dict[str, Experiment]:
    """What is done in each of the ``experiments``; ``states`` as dose tables count them."""
    refuse_unknown(section, _ENTRIES, "[experiments]")
    kind = choose(section.get("interpolation", "steps"), INTERPOLATIONS, "[experiments] interpolation")
    tables = {name: folder / section[name] for name in FILES if isinstance(section.get(name), str)}
    done = read_experiments(experiments, **tables, states=states, interpolation=section.get("interpolation", "steps"))
    listed: list[tuple[str, Any]] = [("doses", d) for d in _list(section, "doses")]
    listed += [("events", e) for e in _list(section, "events")]
    everywhere: dict[str, float | Input] = {
        **{n: number_of(v, f"[experiments] conditions {n}") for n, v in _table(section, "conditions").items()},
        **{n: _input(v, kind, f"[experiments] inputs {n}") for n, v in _table(section, "inputs").items()},
    }
    for name in _table(section, "inputs"):
        if name in _table(section, "conditions"):
            raise ModelError(
                f"[experiments] has {name!r} both in conditions and in inputs. Take it out of one of them."
            )
    for name, one in done.items():
        for twice in sorted(everywhere.keys() & one.inputs.keys()):
            raise ModelError(f"[experiments] gives {twice!r} in a table and in the file. Take it out of one of them.")
        mine = [(what, entry) for what, entry in listed if str(entry.get("experiment", name)) == name]
        done[name] = Experiment(
            inputs={**one.inputs, **everywhere},
            doses=[*one.doses, *(_dose(entry) for what, entry in mine if what == "doses")],
            events=[_event(entry) for what, entry in mine if what == "events" and "when" not in entry],
            triggers=[_trigger(entry) for what, entry in mine if what == "events" and "when" in entry],
            before={n: number_of(v, f"[experiments] before {n}") for n, v in _table(section, "before").items()},
        )
    for what, entry in listed:
        if str(entry.get("experiment", experiments[0])) not in experiments:
            raise ModelError(
                f"[experiments] {what} names experiment {entry['experiment']!r:.80}; the data have "
                f"{', '.join(experiments)}."
            )
    return done


def _list(section: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = section.get(name, [])
    if isinstance(value, str) and name in FILES:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise ModelError(f"[experiments] {name} must be a list of tables, or the name of a file; got {value!r:.80}.")
    return value


def _table(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = section.get(name, {})
    if isinstance(value, str):
        return {}
    if not isinstance(value, Mapping):
        raise ModelError(f"[experiments] {name} must be a table, or the name of a file; got {value!r:.80}.")
    return value


def _input(value: Any, kind: type[Input], where: str) -> Input:
    if not isinstance(value, Mapping) or set(value) != {"times", "values"}:
        raise ModelError(f"{where} must be {{ times = [...], values = [...] }}; got {value!r:.80}.")
    try:
        return kind(value["times"], value["values"])
    except DataError as error:
        raise ModelError(f"{where}: {error}") from None


def _dose(entry: Mapping[str, Any]) -> Dose:
    refuse_unknown(entry, _DOSE, "[experiments] doses")
    for name in ("state", "amount"):
        if name not in entry:
            raise ModelError(f'[experiments] doses needs {name}: doses = [{{ state = "gut", amount = 320.0 }}].')
    if not isinstance(entry["state"], str):
        raise ModelError(f"[experiments] doses state must be a text; got {entry['state']!r:.80}.")
    try:
        return Dose(**{name: value for name, value in entry.items() if name != "experiment"})
    except (DataError, TypeError) as error:
        raise ModelError(f"[experiments] doses: {error}") from None


def _event(entry: Mapping[str, Any]) -> Event:
    """At a time, what becomes of states, by formulas."""
    try:
        return Event(number_of(entry.get("time"), "[experiments] events time"), _changes(entry, ("time", "experiment")))
    except DataError as error:
        raise ModelError(f"[experiments] events: {error}") from None


def _trigger(entry: Mapping[str, Any]) -> Trigger:
    """When a formula turns positive, what becomes of states, by formulas."""
    if "time" in entry:
        raise ModelError("[experiments] events has both a time and when. Take one of them out, or make two events.")
    if not isinstance(entry["when"], str):
        raise ModelError(
            '[experiments] events when must be a formula that turns positive, such as "x - 5"; '
            f"got {entry['when']!r:.80}."
        )
    when = _function(entry["when"], "the formula of when an event happens")
    try:
        return Trigger(when, _changes(entry, ("when", "count", "experiment")), entry.get("count", 1))
    except DataError as error:
        raise ModelError(f"[experiments] events: {error}") from None


def _changes(entry: Mapping[str, Any], others: tuple[str, ...]) -> dict[str, Any]:
    return {str(state): _change(to, state) for state, to in entry.items() if state not in others}


def _change(to: Any, state: str) -> Any:
    if not isinstance(to, str):
        return number_of(to, f"[experiments] events {state}")
    return _function(to, f"the event that changes {state!r}")


def _function(text: str, what: str) -> Any:
    """A formula of states and parameters as a function; ``what`` it is, for errors."""
    formula = parse(text)

    def function(t: Any, x: Named, p: Named) -> Any:
        values = {"t": t, **{n: x[n] for n in x if n in formula.names}, **{n: p[n] for n in p if n in formula.names}}
        for name in sorted(formula.names - set(values)):
            raise ModelError(f"{what} uses {name!r}, which is no state and no parameter.")
        return formula(values)

    return function
