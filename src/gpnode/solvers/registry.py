"""The solvers there are: their names in files."""

from __future__ import annotations

from gpnode._registry import Registry
from gpnode.solvers.adaptive import Adaptive, Stiff
from gpnode.solvers.base import Solver
from gpnode.solvers.fixed_grid import FixedGrid
from gpnode.solvers.native import Native, NativeStiff

SOLVERS: Registry[Solver] = Registry("solver", Native, NativeStiff, FixedGrid, Adaptive, Stiff)
