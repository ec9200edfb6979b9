from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import numpy as np
import pytest

import gpnode as gn
from support import SHARED


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Tests begun in the background of a script would ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def lynx_hare() -> dict:
    """Hudson Bay pelts with a reference posterior, where the shared data are at hand."""
    path = SHARED / "reference" / "lynx_hare.json"
    if not path.exists():
        pytest.skip(f"reference data not found at {path.relative_to(SHARED.parents[1])} beside the clone")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def decay_data() -> gn.Observations:
    """Two variables of a damped rotation, 12 and 9 noisy points on different grids."""
    rng = np.random.default_rng(3)
    t1, t2 = np.linspace(0.0, 6.0, 12), np.linspace(0.3, 5.8, 9)
    x = 3.0 * np.exp(-0.2 * t1) * np.cos(t1) + 0.1 * rng.normal(size=t1.size)
    y = 20.0 * np.exp(-0.2 * t2) * np.sin(t2) + 0.5 * rng.normal(size=t2.size)
    return gn.Observations({"x": (t1, x), "y": (t2, y)}, start=0.0)


@pytest.fixture(scope="session")
def positive_data() -> gn.Observations:
    """Two experiments of logistic growth with multiplicative noise."""
    rng = np.random.default_rng(4)

    def growth(x0: float, t: np.ndarray) -> np.ndarray:
        return 50.0 / (1.0 + (50.0 / x0 - 1.0) * np.exp(-0.8 * t))

    runs = {}
    for name, x0, n in (("low", 2.0, 10), ("high", 9.0, 7)):
        t = np.sort(rng.uniform(0.0, 8.0, n))
        runs[name] = {"x": (t, growth(x0, t) * np.exp(0.05 * rng.normal(size=n)))}
    return gn.Observations.from_experiments(runs, start=0.0)
