"""Same seed, same draws: from a cold and from a warm cache, on one core and on all, in threads and in processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

if sys.argv[1] == "one":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np

import gpnode as gn


def main():
    t = np.linspace(0.0, 6.0, 25)
    noise = 0.05 * np.random.default_rng(0).normal(size=(2, t.size))
    data = gn.Observations({"x": (t, np.cos(t) + noise[0]), "y": (t, -np.sin(t) + noise[1])})
    model = gn.Model(gn.Dictionary(["x", "y"], gn.polynomial(degree=2)))
    executor = ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) if sys.argv[1] == "spawn" else None
    method = gn.Lifted(draws=40, warmup=40, chains=2)
    found = gn.fit(model, data, method=method, executor=executor, progress=False)
    print(hashlib.sha256(np.ascontiguousarray(found.unconstrained).tobytes()).hexdigest())


if __name__ == "__main__":
    main()
"""


def digest(folder, way: str) -> str:
    """Of the draws of a fit in a process of its own, which keeps all compiled code in ``folder``."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "GPNODE_CACHE": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}
    done = subprocess.run([sys.executable, program, way], env=environment, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow  # three processes, of which the first compiles everything
def test_draws_do_not_depend_on_what_is_compiled_already_nor_on_cores_nor_on_processes(tmp_path):
    """Handlers compiled in the process and those found in numba's cache are the same code, to the last bit."""
    cold = digest(tmp_path, "all")
    assert len(cold) == 65
    assert list((tmp_path / "numba").rglob("*.nbc"))
    assert digest(tmp_path, "one") == cold
    assert digest(tmp_path, "spawn") == cold
