"""Initial value problem solvers behind one seam (:class:`Solver`)."""

from gpnode.solvers.adaptive import Adaptive, Stiff
from gpnode.solvers.base import Solution, Solver, Status, VectorField, solve_with_gradient
from gpnode.solvers.fixed_grid import FixedGrid, local_errors, refine
from gpnode.solvers.native import Native, NativeStiff, unsupported

ALL_SOLVERS = (Native, NativeStiff, FixedGrid, Adaptive, Stiff)

__all__ = [
    "ALL_SOLVERS",
    "Adaptive",
    "FixedGrid",
    "Native",
    "NativeStiff",
    "Solution",
    "Solver",
    "Status",
    "Stiff",
    "VectorField",
    "local_errors",
    "refine",
    "solve_with_gradient",
    "unsupported",
]
