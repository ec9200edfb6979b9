"""Which solver a model gets."""

from __future__ import annotations

import warnings
from typing import Any

import equinox as eqx

from gpnode.solvers.base import Solver, VectorField
from gpnode.solvers.fixed_grid import FixedGrid
from gpnode.solvers.native import Native, unsupported


def fastest_solver(wanted: Solver | None, vector_field: VectorField, params: Any, states: int) -> Solver:
    """Native code where the equations allow it, unless another solver is wanted; a warning says so where they do not.

    ``params`` tells structure and shapes.
    """
    native = Native() if wanted is None else wanted.native_counterpart()
    if native is None:
        assert wanted is not None
        return wanted
    reasons: list[str | None] = []

    def look(vector_field: VectorField) -> None:
        reasons.append(unsupported(vector_field, params, states))

    # Traced, as it will be later inside compiled functions: else its numbers would be part of the code, and
    # the same equations compiled twice.
    eqx.filter_eval_shape(look, vector_field)
    if reasons[0] is None:
        return native
    warnings.warn(
        f"the vector field cannot be compiled to native code: {reasons[0]}. It is solved by array code instead, which "
        "gives the same results more slowly.",
        stacklevel=3,
    )
    return wanted or FixedGrid()
