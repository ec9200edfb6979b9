"""Equations read off a posterior: what its dynamics write, with estimates from its draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpnode.errors import ModelError
from gpnode.model.dynamics.writing import CandidateTerm, RightSide
from gpnode.problem.density import Problem
from gpnode.results.equations.alternatives import find_alternatives
from gpnode.results.equations.forms import Form, System
from gpnode.results.equations.representing import represent
from gpnode.results.equations.written import Equation, Equations, ParameterEstimate, TermEstimate
from gpnode.results.posterior import Posterior
from gpnode.tracing.arrays import at_once

ACTIVE_SIZE = 0.15
"""A scaled coefficient larger than this moves its state noticeably; its term counts as active."""
_MOST_FORMS = 5


def equations(posterior: Posterior) -> Equations:
    """The equations of a posterior that knows its model.

    Where the prior tells which terms act, they are written in the most probable form of all equations together, with
    coefficients given that form.

    >>> gn.equations(posterior).to_dataframe().shape[0]
    1
    """
    if posterior.problem is None:
        raise ModelError("equations need the model: load the posterior with Posterior.load(path, model=...).")
    dynamics, states = posterior.problem.dynamics, posterior.problem.states
    right_sides = dynamics.right_sides()
    missing = [state for state in states if state not in right_sides]
    if missing:
        raise ModelError(f"{type(dynamics).__name__}.right_sides() has no equation for {', '.join(missing)}.")
    rng = np.random.default_rng(0)
    active = {state: _active_draws(right_sides[state].candidates, posterior, rng) for state in states}
    systems = _systems(states, right_sides, active)
    told = any(term.acting for state in states for term in right_sides[state].candidates)
    best = systems[0] if told and systems else None
    estimates = {state: _estimates(right_sides[state], active[state], posterior, best) for state in states}
    kept = np.arange(posterior.num_draws) if best is None else best.draws
    likely = {state: np.array([t.likely for t in terms], dtype=bool) for state, terms in estimates.items()}
    stands = represent(posterior, kept, _written(right_sides, likely))
    reported = at_once(dynamics.report, stands.values)
    written = [
        Equation(
            state,
            tuple(
                replace(estimate, value=float(reported[term.array][term.index]))
                for term, estimate in zip(right_sides[state].candidates, estimates[state], strict=True)
            ),
            _forms(right_sides[state].candidates, active[state]),
            right_sides[state].known,
        )
        for state in states
    ]
    parameters = []
    own = [(name, name, ()) for name in posterior.problem.reading_block.names] + _individuals(posterior.problem)
    for shown_as, name, index in (*((n, n, ()) for n in dynamics.estimates), *own):
        draws = _entry(posterior, name, index)
        _, low, high = _interval(draws[kept])
        value = float(reported[name] if name in dynamics.estimates else np.asarray(stands.values[name])[index])
        parameters.append(ParameterEstimate(shown_as, value, low, high, float(draws.mean())))
    shown = systems[:_MOST_FORMS] if told else ()
    rivals = shown[:1] + tuple(s for s in shown[1:] if s.rivals(shown[0]))
    forms = [{state: active[state][system.draws[0]] for state in states} for system in rivals[1:]]
    numbers = [
        represent(posterior, system.draws, _written(right_sides, form)).values
        for system, form in zip(rivals[1:], forms, strict=True)
    ]
    alternatives = find_alternatives(posterior.problem, rivals, [stands.values, *numbers])
    measured = {
        observable.variable: observable.reading.formula(
            (*posterior.model.dynamics.numbers, *posterior.model.measuring_priors())
        )
        for observable in posterior.problem.observables
        if observable.reading is not None and posterior.model is not None
    }
    return Equations(tuple(written), tuple(parameters), shown, stands, alternatives, measured)


def _estimates(right: RightSide, active: np.ndarray, posterior: Posterior, best: System | None) -> list[TermEstimate]:
    """From all draws, or from those of the ``best`` form."""
    kept = slice(None) if best is None else best.draws
    terms = []
    for k, term in enumerate(right.candidates):
        coef = _entry(posterior, term.array, term.index)
        is_written = None if best is None else (not term.free or bool(active[best.draws[0], k]))
        mean, low, high = _interval(coef[kept] if is_written else coef)
        probability = _probability(term, active[:, k], posterior)
        overall = float(coef.mean())
        terms.append(TermEstimate(term.name, mean, low, high, probability, term.formula, mean, overall, is_written))
    return terms


def _individuals(problem: Problem) -> list[tuple[str, str, tuple[int, ...]]]:
    """Numbers of parameters that differ between experiments, as (how shown, name, index).

    What populations have in common, if there is any such thing, else the value of each experiment.
    """
    found: list[tuple[str, str, tuple[int, ...]]] = []
    for block in problem.populations:
        common = [p.name for p in block.parameters() if not p.shape]
        found += [(name, name, ()) for name in common]
        if not common:
            found += [(f"{block.name}[{e}]", block.name, (r,)) for r, e in enumerate(problem.experiments)]
    return found


def _written(right_sides: dict[str, RightSide], acts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """1 for coefficients of candidates that act (candidates,) in each state, 0 for others, in order of sampling."""
    flags: dict[str, dict[int, float]] = {}
    for state, right in right_sides.items():
        for term, on in zip(right.candidates, acts[state], strict=True):
            if term.position is not None:
                flags.setdefault(term.array, {})[term.position] = float(on)
    return {array: np.array([by_position[i] for i in sorted(by_position)]) for array, by_position in flags.items()}


def _probability(term: CandidateTerm, active: np.ndarray, posterior: Posterior) -> float | None:
    if not term.free:
        return None
    return float(active.mean() if term.acting is None else _entry(posterior, term.acting, term.index).mean())


def _entry(posterior: Posterior, array: str, index: tuple[int, ...]) -> np.ndarray:
    """One entry of a reported array, in the user's units (draws,)."""
    values: Any = posterior.draws[array].transpose("chain", "draw", ...).to_numpy()
    return values[(..., *index)].ravel()


def _active_draws(terms: Sequence[CandidateTerm], posterior: Posterior, rng: np.random.Generator) -> np.ndarray:
    """Which terms act in each draw (draws, terms): drawn where the prior tells the probability, else by size."""
    columns = []
    for term in terms:
        if not term.free:
            columns.append(np.zeros(posterior.num_draws, dtype=bool))
        elif term.acting is not None:
            columns.append(rng.random(posterior.num_draws) < _entry(posterior, term.acting, term.index))
        else:
            columns.append(np.abs(_entry(posterior, term.array, term.index)) > ACTIVE_SIZE * term.unit)
    return np.stack(columns, axis=1) if columns else np.zeros((posterior.num_draws, 0), dtype=bool)


def _forms(terms: Sequence[CandidateTerm], active: np.ndarray) -> tuple[Form, ...]:
    """The most frequent sets of active terms of one equation."""
    if not terms:
        return ()
    sets, counts = np.unique(active, axis=0, return_counts=True)
    best = np.argsort(-counts, kind="stable")[:_MOST_FORMS]
    return tuple(
        Form(tuple(term.name for term, on in zip(terms, sets[b], strict=True) if on), counts[b] / counts.sum())
        for b in best
    )


def _systems(
    states: Sequence[str], right_sides: dict[str, RightSide], active: dict[str, np.ndarray]
) -> tuple[System, ...]:
    """Sets of active terms of all equations together, from the most frequent on, with the draws that have them."""
    joint = np.concatenate([active[state] for state in states], axis=1)
    sets, which, counts = np.unique(joint, axis=0, return_inverse=True, return_counts=True)
    systems = []
    for b in np.argsort(-counts, kind="stable"):
        terms, first = {}, 0
        for state in states:
            candidates = right_sides[state].candidates
            on = sets[b][first : first + len(candidates)]
            terms[state] = tuple(term.name for term, acts in zip(candidates, on, strict=True) if acts)
            first += len(candidates)
        systems.append(System(terms, counts[b] / counts.sum(), np.flatnonzero(which.ravel() == b)))
    return tuple(systems)


def _interval(draws: np.ndarray) -> tuple[float, float, float]:
    """Mean, and both ends of the 95 % interval."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(draws.mean()), float(low), float(high)
