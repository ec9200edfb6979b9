"""Equations read off a posterior: what its dynamics write, with estimates from its draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpnode.errors import ModelError
from gpnode.model.dynamics.writing import CandidateTerm
from gpnode.results.equations.written import Equation, Equations, Form, TermEstimate
from gpnode.results.posterior import Posterior

ACTIVE_SIZE = 0.15
"""A scaled coefficient larger than this moves its state noticeably; its term counts as active."""
_MOST_FORMS = 5


def equations(posterior: Posterior) -> Equations:
    """The equations of a posterior that knows its model."""
    if posterior.problem is None:
        raise ModelError("equations need the model: load the posterior with Posterior.load(path, model=...).")
    dynamics, states = posterior.problem.dynamics, posterior.problem.states
    right_sides = dynamics.right_sides()
    missing = [state for state in states if state not in right_sides]
    if missing:
        raise ModelError(f"{type(dynamics).__name__}.right_sides() has no equation for {', '.join(missing)}.")
    written = []
    for state in states:
        right = right_sides[state]
        draws = [_coefficient_draws(term, posterior) for term in right.candidates]
        active = _active_draws(right.candidates, draws)
        terms = tuple(_estimate(*pair) for pair in zip(right.candidates, draws, active, strict=True))
        written.append(Equation(state, terms, _forms(right.candidates, active), right.known))
    parameters = tuple(_interval(name, posterior.draws[name]) for name in dynamics.estimates)
    return Equations(tuple(written), parameters)


def _coefficient_draws(term: CandidateTerm, posterior: Posterior) -> np.ndarray:
    """In the user's units (chain, draw)."""
    values: Any = posterior.draws[term.array].transpose("chain", "draw", ...).to_numpy()
    return values[(..., *term.index)]


def _active_draws(terms: tuple[CandidateTerm, ...], draws: list[np.ndarray]) -> list[np.ndarray]:
    """Whether each term's coefficient is large enough, draw by draw, for the term to count as active."""
    return [
        term.free & (np.abs(coef).ravel() > ACTIVE_SIZE * term.unit) for term, coef in zip(terms, draws, strict=True)
    ]


def _estimate(term: CandidateTerm, draws: np.ndarray, active: np.ndarray) -> TermEstimate:
    _, mean, low, high = _interval(term.name, draws)
    return TermEstimate(term.name, mean, low, high, float(active.mean()) if term.free else None, term.formula)


def _forms(terms: tuple[CandidateTerm, ...], active: list[np.ndarray]) -> tuple[Form, ...]:
    """The most frequent sets of active terms."""
    if not terms:
        return ()
    sets, counts = np.unique(np.stack(active, axis=1), axis=0, return_counts=True)
    best = np.argsort(-counts, kind="stable")[:_MOST_FORMS]
    return tuple(
        Form(tuple(term.name for term, on in zip(terms, sets[b], strict=True) if on), counts[b] / counts.sum())
        for b in best
    )


def _interval(name: str, draws: Any) -> tuple[str, float, float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return name, float(draws.mean()), float(low), float(high)
