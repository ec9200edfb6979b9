"""Same seed, same draws: from a cold and from a warm cache, on one core and on all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, os, sys
if sys.argv[1] == "one":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import gpnode as gn

t = np.linspace(0.0, 6.0, 25)
noise = 0.05 * np.random.default_rng(0).normal(size=(2, t.size))
data = gn.Observations({"x": (t, np.cos(t) + noise[0]), "y": (t, -np.sin(t) + noise[1])})
model = gn.Model(gn.Dictionary(["x", "y"], gn.polynomial(degree=2)))
found = gn.fit(model, data, method=gn.Lifted(draws=40, warmup=40, chains=2), progress=False)
print(hashlib.sha256(np.ascontiguousarray(found.unconstrained).tobytes()).hexdigest())
"""


def digest(folder, cores: str) -> str:
    """Of the draws of a fit in a process of its own, which keeps all compiled code in ``folder``."""
    environment = {**os.environ, "GPNODE_CACHE": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-c", PROGRAM, cores]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow  # two processes that compile everything
def test_draws_do_not_depend_on_what_is_compiled_already_nor_on_cores(tmp_path):
    """Handlers compiled in the process and those found in numba's cache are the same code, to the last bit."""
    cold = digest(tmp_path, "all")
    assert list((tmp_path / "numba").rglob("*.nbc"))
    assert digest(tmp_path, "one") == cold
