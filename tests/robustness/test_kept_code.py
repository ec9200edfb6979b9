"""Compiled code is kept between runs, so it must not depend on the process that compiles it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest


@pytest.mark.slow
def test_compiled_code_is_found_again_without_a_compiler(tmp_path):
    """A second process uses the cache of the first, of integrators, too; neither needs a C compiler."""
    program = (
        "import jax.numpy as jnp, gpnode as gn\n"
        "params, times = {'k': jnp.ones(())}, jnp.linspace(0.0, 1.0, 9)\n"
        "found = gn.Native().solve(lambda t, x, p: -p['k'] * x, params, jnp.ones(1), times)\n"
        "print(float(found.xs[-1, 0]))\n"
    )
    environment = {**os.environ, "GPNODE_CACHE": str(tmp_path), "PATH": "", "NUMBA_DEBUG_CACHE": "1"}
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        said = done.stdout.splitlines()
        runs.append((float(said[-1]), sorted(p.name for p in (tmp_path / "gpnode").rglob("*.nbc"))))
    assert runs[0] == runs[1]
    assert not [line for line in said if "data saved" in line]
    assert runs[0][0] == pytest.approx(np.exp(-1.0), rel=1e-6)
    assert len(runs[0][1]) == 7  # one file for each function of the field


LOWERED = """
import hashlib
import equinox as eqx
import jax.numpy as jnp
import gpnode as gn
from gpnode.problem.evaluation import value_and_grad
field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.Uniform(0.1, 2.0)})
data = gn.Observations({"x": ([0.0, 1.0, 2.0, 3.0], [5.0, 3.0, 2.0, 1.5])})
problem = gn.bind(gn.Model(field, initial={"x": gn.TruncatedNormal(5.0, 1.0, low=0.0)}), data)
lowered = eqx.filter_jit(value_and_grad.__wrapped__).lower(problem, jnp.zeros(problem.size))
print(hashlib.sha256(lowered.as_text().encode()).hexdigest())
"""


@pytest.mark.slow
def test_code_is_the_same_in_every_process():
    found = [
        subprocess.run(
            [sys.executable, "-c", LOWERED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("3", "4")  # in which unsorted numbers come in different orders
    ]
    assert found[0] == found[1]
