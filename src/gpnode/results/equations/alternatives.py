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

FAR_APART = 0.2
"""Part of the range of a path, beyond which forms that are about as probable cannot owe it to their paths alone."""


@dataclass(frozen=True)
class Alternatives:
    """The most probable form and others that are nearly as probable.

    ``difference`` is the largest one from the path of the first, by state and as a part of the range of all paths;
    ``disputed`` are the terms that some have and others do not, by state.
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
    """Of ``systems``, the most probable first and rivals of it, each with the numbers that stand for it.

    Those whose numbers have no path are left out; None if one is alone.
    """
    paths = [np.asarray(_path(problem, v)) for v in values]
    solved = [i for i, path in enumerate(paths) if np.isfinite(path).all()]
    if len(solved) < 2 or solved[0] != 0:
        return None
    chosen = [systems[i] for i in solved]
    everything = np.stack([paths[i] for i in solved])
    apart = np.abs(everything - paths[0]).max(axis=(0, 1, 2))  # forms, experiments and times
    span = np.maximum(np.ptp(everything, axis=(0, 1, 2)), np.finfo(float).tiny)
    disputed = {}
    for state in chosen[0].terms:
        forms = [set(system.terms[state]) for system in chosen]
        shared = set.intersection(*forms)
        named = dict.fromkeys(term for system in chosen for term in system.terms[state])
        disputed[state] = tuple(term for term in named if term not in shared)
    difference = {state: float(part) for state, part in zip(problem.states, apart / span, strict=True)}
    return Alternatives(tuple(chosen), difference, disputed)


@eqx.filter_jit
def _path(problem: Problem, values: Values) -> Array:
    """Scaled (experiments, nodes, states); NaN if it cannot be solved."""
    solved = problem.solve(values)
    return jnp.where(jnp.max(solved.status) == Status.OK, solved.xs, jnp.nan)
