"""A trial of native code called by XLA: ``python -m gpnode.solvers.native.probe`` fails, or crashes, where that fails.

It is run in a process of its own (:mod:`.availability`), which a wrong idea of XLA's call frame can do no harm.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpnode.solvers.native.ffi import argument, integers, is_registration, last_dimension, register, result

WORKS, DIFFERS = 0, 3
"""Exit codes: numbers came through, or did not."""
_TARGET = "gpnode_probe"


def serve(call_frame: Any) -> int:
    """From numbers (batch, n) and integers (batch, m): twice the numbers plus n, and the integers as numbers."""
    if is_registration(call_frame):
        return 0
    numbers, counts, doubled, copied = (
        argument(call_frame, 0),
        integers(call_frame, 1),
        result(call_frame, 0),
        result(call_frame, 1),
    )
    for i in range(numbers.size):
        doubled[i] = 2.0 * numbers[i] + last_dimension(call_frame, 0)
    for i in range(counts.size):
        copied[i] = float(counts[i])
    return 0


def numbers_come_through() -> bool:
    """Whether the handler gives what it should, compiled, for a vector and for a batch."""
    register(_TARGET, serve, cached=False)

    def call(numbers: Any, counts: Any) -> Any:
        kinds = [jax.ShapeDtypeStruct(a.shape, jnp.float64) for a in (numbers, counts)]
        return jax.ffi.ffi_call(_TARGET, kinds, vmap_method="broadcast_all")(numbers, counts)

    for function, shape in ((call, (3,)), (jax.vmap(call), (2, 4)), (jax.vmap(jax.vmap(call)), (2, 3, 1))):
        numbers, counts = np.random.default_rng(0).normal(size=shape), np.arange(np.prod(shape)).reshape(shape)
        doubled, copied = jax.jit(function)(numbers, counts)
        if not (np.array_equal(doubled, 2.0 * numbers + shape[-1]) and np.array_equal(copied, counts)):
            return False
    return True


def main() -> int:
    """The exit code."""
    try:
        return WORKS if numbers_come_through() else DIFFERS
    except Exception as error:  # XLA refuses a handler that speaks another version of its interface
        print(error, file=sys.stderr)
        return DIFFERS


if __name__ == "__main__":
    sys.exit(main())
