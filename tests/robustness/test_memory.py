"""Many fits in one process: nothing is compiled twice, and memory stays where it is."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import gpnode as gn
from support import ROOT
from support.small_problems import decay_data


def logistic_model() -> gn.Model:
    """The same equations in new functions each time, and a prior that comes from the data."""
    capacity = gn.term("crowding", lambda x: x.x * x.x)
    known = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    missing = gn.Dictionary(["x"], gn.polynomial(1) + capacity, prior=gn.priors.Gaussian(0.1))
    return gn.Model(gn.Sum(known=known, missing=missing), kernel=None, noise=gn.Noise(std=0.05))


@pytest.mark.slow
def test_a_second_fit_compiles_nothing(caplog):
    def compilations(seed: int) -> int:
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            gn.fit(logistic_model(), decay_data(seed), method=gn.Laplace(draws=100), progress=False)
        return sum("Finished XLA compilation" in r.getMessage() for r in caplog.records)

    assert compilations(0) > 0
    assert compilations(1) == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_does_not_grow_over_two_hundred_fits():
    code = f"""
import json, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import gpnode as gn
from support.small_problems import decay_data, new_decay_model
sizes = []
for i in range(200):
    gn.fit(new_decay_model(), decay_data(i), method=gn.Lifted(draws=100, warmup=50, chains=2), seed=i, progress=False)
    sizes.append(int(open("/proc/self/statm").read().split()[1]))
print(json.dumps(sizes))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sizes = np.array(json.loads(done.stdout.splitlines()[-1]))
    print("resident pages after 20 fits and after 200:", sizes[19], sizes[-1])
    assert sizes[-1] < 1.05 * sizes[19]
