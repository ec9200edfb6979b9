"""Native code for vector fields written in jax.numpy."""

from gpnode.solvers.native.solver import Native, NativeStiff, unsupported
from gpnode.tracing.interpreter import Unsupported

__all__ = ["Native", "NativeStiff", "Unsupported", "unsupported"]
