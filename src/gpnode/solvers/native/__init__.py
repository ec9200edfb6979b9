"""Native code for vector fields written in jax.numpy."""

from .scalar_code import Unsupported
from .solver import Native, NativeStiff, unsupported

__all__ = ["Native", "NativeStiff", "Unsupported", "unsupported"]
