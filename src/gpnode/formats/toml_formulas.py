"""Formulas of a problem file: equations of motion, and what is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpnode.errors import ModelError
from gpnode.formats.formula import Formula, parse, parse_equations
from gpnode.formats.toml_values import read_prior, refuse_unknown, texts_of
from gpnode.model.dynamics import Dynamics, KnownForm, Named
from gpnode.model.observation.observables import Observable
from gpnode.model.priors.given import Given
from gpnode.model.priors.population import Each, Population

_SINCE_LAST = re.compile(r"\s*since_last\((.*)\)\s*\Z", re.DOTALL)


def formulas_of(section: Mapping[str, Any]) -> dict[str, Formula]:
    """Formulas by the name of what they say."""
    for name, text in section.items():
        if not isinstance(text, str):
            raise ModelError(f'[observables] {name} must be a formula such as "scale*(a + b)"; got {text!r:.80}.')
    return {str(name): parse(_SINCE_LAST.sub(r"\1", text)) for name, text in section.items()}


def since_last_of(section: Mapping[str, Any]) -> set[str]:
    """Which observables are measured since the last time."""
    return {str(name) for name, text in section.items() if _SINCE_LAST.match(text)}


def observable(
    variable: str, formula: Formula, priors: Mapping[str, Any], dynamics: Dynamics, since_last: bool
) -> Observable:
    """A measured variable as its formula says; ``priors`` are of parameters that are in no equation."""
    own = {name: prior for name, prior in priors.items() if name in formula.names}
    known = {*dynamics.states, *dynamics.numbers, *own, "t"}
    for name in sorted(formula.names - known):
        raise ModelError(
            f"the observable {variable!r} uses {name!r}, which is neither a state nor in [parameters]; states are "
            f"{', '.join(dynamics.states)}."
        )

    def value(t: Any, x: Named, p: Named) -> Any:
        values = {"t": t, **{n: x[n] for n in x if n in formula.names}}
        return formula(values | {n: p[n] for n in p if n in formula.names})

    return Observable(value, own, since_last=since_last)


def _parameter(value: Any, where: str) -> Any:
    """A number, a prior, a population with what is ``typical`` and its ``spread``, or a prior for ``each``."""
    if not isinstance(value, Mapping):
        return read_prior(value, where)
    if "each" in value:
        refuse_unknown(value, ("each",), where)
        return Each(read_prior(value["each"], where))
    refuse_unknown(value, ("typical", "spread"), where)
    if "typical" not in value:
        raise ModelError(
            f'{where} needs what is typical: {{ typical = "LogNormal(0, 1)", spread = "HalfNormal(0.5)" }}.'
        )
    return Population(**{what: read_prior(prior, f"{where} {what}") for what, prior in value.items()})


def known_form(
    lines: Any,
    parameters: Mapping[str, Any],
    observed: set[str],
    given: set[str],
    delays: set[str],
    happening: set[str],
) -> KnownForm:
    """Equations as text; parameters that are ``observed``, in formulas of observables, need not be in them.

    Experiments tell those that are ``given``; ``delays`` are those of doses, ``happening`` those in formulas of events.
    """
    formulas = parse_equations(texts_of(lines, "[model] equations"))
    used = {name for formula in formulas.values() for name in formula.names}
    parameters = {n: v for n, v in parameters.items() if n in used | happening or n not in observed}
    priors = {str(n): _parameter(v, f"[parameters] {n}") for n, v in parameters.items()}
    for name in sorted(given & set(priors)):
        raise ModelError(f"{name!r} is in [parameters], and [experiments] gives it too. Take it out of one of them.")
    priors |= {name: Given() for name in sorted(given & (used | happening))}
    known = {*formulas, *priors, "t"}
    for state, formula in formulas.items():
        for name in sorted(formula.names - known):
            raise ModelError(f"the equation of {state!r} uses {name!r}; give it a prior or a number in [parameters].")
    idle = [n for n in priors if n not in used | delays | happening]
    if idle:
        raise ModelError(f"[parameters] has {idle[0]!r}, which no equation uses, and no event.")
    for name in priors:
        if name in formulas:
            raise ModelError(f"{name!r} is both a state and a parameter.")

    def slopes(t: Any, x: Named, p: Named) -> dict[str, Any]:
        values = {"t": t, **{s: x[s] for s in x}, **{n: p[n] for n in p}}
        return {state: formula(values) for state, formula in formulas.items()}

    return KnownForm(tuple(formulas), slopes, priors, delays=sorted(delays & set(priors)))
