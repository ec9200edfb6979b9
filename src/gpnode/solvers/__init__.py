"""Initial value problem solvers behind one seam (:class:`Solver`).

A solver is one class with a ``name``, entered in ``SOLVERS``. What some can do besides solving are the classes they
inherit (:class:`CorrectsGuess`, :class:`HasSecondDerivatives`). May import :mod:`gpnode.tracing`; knows no model.
"""

from gpnode.solvers.adaptive import Adaptive, Stiff
from gpnode.solvers.base import (
    CorrectsGuess,
    HasSecondDerivatives,
    Solution,
    Solver,
    Status,
    VectorField,
    differentiate_jacobian,
    solve_from_guess,
    solve_with_gradient,
)
from gpnode.solvers.choice import fastest_solver
from gpnode.solvers.fixed_grid import FixedGrid, local_errors, refine
from gpnode.solvers.native import Native, NativeStiff, unsupported
from gpnode.solvers.registry import SOLVERS

__all__ = [
    "SOLVERS",
    "Adaptive",
    "CorrectsGuess",
    "FixedGrid",
    "HasSecondDerivatives",
    "Native",
    "NativeStiff",
    "Solution",
    "Solver",
    "Status",
    "Stiff",
    "VectorField",
    "differentiate_jacobian",
    "fastest_solver",
    "local_errors",
    "refine",
    "solve_from_guess",
    "solve_with_gradient",
    "unsupported",
]
