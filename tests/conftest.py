"""Data and fits that tests of several rooms look at."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
import pytest
from filelock import FileLock

import gpnode as gn
from gpnode.inference.samplers.base import Method
from gpnode.model.observation import kernels
from support import SHARED
from support.growth import MODEL, SETTINGS
from support.linear import NOISE, RATE, SD, decay

pytest.register_assert_rewrite("support.densities")


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


@pytest.fixture(scope="session")
def fit_once(tmp_path_factory) -> Callable[[str, gn.Model, gn.Observations, Method], gn.Posterior]:
    """Fits by name that all processes of a run of tests share: the first to ask makes one, others read it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def fit(name: str, model: gn.Model, data: gn.Observations, method: Method) -> gn.Posterior:
        file = folder / f"{name}.nc"
        with FileLock(file.with_suffix(".lock")):
            if file.exists():
                return gn.Posterior.load(file, model)
            fitted = gn.fit(model, data, method=method, progress=False)
            fitted.save(file)
            return fitted

    return fit


@pytest.fixture(scope="session")
def posterior(positive_data, fit_once) -> gn.Posterior:
    """Logistic growth, by chains too short to have converged."""
    return fit_once("posterior", MODEL, positive_data, SETTINGS)


@pytest.fixture(scope="session")
def sparse(decay_data, fit_once) -> gn.Posterior:
    """A dictionary with a fixed and a forbidden term."""
    dynamics = gn.Dictionary(["x", "y"], gn.polynomial(1), fixed={("x", "x"): -0.2}, forbidden=[("y", "1")])
    model = gn.Model(dynamics, initial={"y": 0.0}, kernel=None)
    return fit_once("sparse", model, decay_data, gn.Laplace(draws=300))


@pytest.fixture(scope="session")
def linear():
    """x' = -0.4 x with an unknown start: the posterior of the start is normal, in closed form."""
    rng = np.random.default_rng(5)
    times = np.linspace(0.2, 5.0, 14)
    values = 2.0 * np.exp(-RATE * times) + 0.1 * rng.normal(size=times.size)
    scale = np.abs(values).max()
    data = gn.Observations({"x": (times, values)}, start=0.0)
    model = gn.Model(
        gn.KnownForm(["x"], decay, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=kernels.SquaredExponential(variance=0.01, length_scale=0.3),
        noise=gn.Noise(std=NOISE),
    )
    posterior = gn.fit(model, data, method=gn.Laplace(draws=4000), progress=False)
    span = times[-1]  # the record runs from the start to the last measurement

    def kernel(a, b):
        return 0.01 * scale**2 * np.exp(-0.5 * ((a[:, None] - b[None]) / (0.3 * span)) ** 2)

    design = np.exp(-RATE * times)
    cov = kernel(times, times) + (NOISE * scale) ** 2 * np.eye(times.size)
    return posterior, times, values, design, cov, kernel


@pytest.fixture(scope="session")
def gray_box(decay_data, fit_once) -> gn.Posterior:
    """A dictionary and a known part together, with a term of the user's own."""
    library = gn.polynomial(1, constant=False) + gn.term("x/(1+x^2)", lambda x: x.x / (1.0 + x.x**2))
    model = gn.Model(
        gn.Sum(
            known=gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * jnp.exp(-0.1 * t)}, {"k": gn.Normal(0.0, 0.1)}),
            free=gn.Dictionary(["x", "y"], library),
        ),
        initial={"y": 0.0},
        kernel=None,
    )
    return fit_once("gray_box", model, decay_data, gn.Laplace(draws=400))
