"""Forms of equations that the data cannot tell apart, and what they disagree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode._config import computing
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.results.equations.forms import System
from gpnode.solvers import Status

TOLD_APART = 20.0
"""How many times as probable as another a form must be for the data to have decided between them."""
FAR_APART = 0.2
"""Part of the range of a path, beyond which forms that are about as probable cannot owe it to their paths alone."""


@dataclass(frozen=True)
class Alternatives:
    """The most probable form and others that are nearly as probable.

    ``difference`` is the largest one between their paths where measured, by state and as a part of the range of its
    path; ``disputed`` are the terms that some have and others do not, by state.
    """

    systems: tuple[System, ...]
    difference: dict[str, float]
    disputed: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        apart = ", ".join(f"{part:.1%} of the range of {state}" for state, part in self.difference.items())
        terms = "; ".join(f"{' and '.join(t)} in d{state}/dt" for state, t in self.disputed.items() if t)
        count = len(self.systems)
        if max(self.difference.values()) > FAR_APART:
            return (
                f"These {count} forms are about as probable, although their paths as written differ by up to {apart}: "
                f"terms too small to be written matter here. They disagree on {terms}."
            )
        return (
            f"These {count} forms cannot be told apart here: their paths differ by at most {apart} over what was seen. "
            f"They disagree on {terms}."
        )


@computing()
def find_alternatives(problem: Problem, systems: Sequence[System], values: Sequence[Values]) -> Alternatives | None:
    """Among ``systems``, the most probable first and each with the numbers that stand for it; None if one is alone."""
    paths = [np.asarray(_path(problem, v)) for v in values]
    rivals = [
        i
        for i, system in enumerate(systems)
        if i == 0 or (system.probability * TOLD_APART >= systems[0].probability and np.isfinite(paths[i]).all())
    ]
    if len(rivals) < 2 or not np.isfinite(paths[0]).all():
        return None
    chosen = [systems[i] for i in rivals]
    axes = (0, 1)  # experiments and times
    apart = np.max([np.abs(paths[i] - paths[0]).max(axis=axes) for i in rivals], axis=0)
    span = np.ptp(paths[0], axis=axes)
    disputed = {}
    for state in chosen[0].terms:
        forms = [set(system.terms[state]) for system in chosen]
        shared = set.intersection(*forms)
        named = dict.fromkeys(term for system in chosen for term in system.terms[state])
        disputed[state] = tuple(term for term in named if term not in shared)
    difference = {s: float(a / r) if r > 0 else 0.0 for s, a, r in zip(problem.states, apart, span, strict=True)}
    return Alternatives(tuple(chosen), difference, disputed)


@eqx.filter_jit
def _path(problem: Problem, values: Values) -> Array:
    """Scaled (experiments, nodes, states); NaN if it cannot be solved."""
    solved = problem.solve(values)
    return jnp.where(jnp.max(solved.status) == Status.OK, solved.xs, jnp.nan)
