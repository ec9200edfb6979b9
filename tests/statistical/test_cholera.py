"""Cholera by counts of new infections and concentrations of bacteria, against a long run without the package."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import gpnode as gn
from support import cholera


def model() -> gn.Model:
    def slopes(t, x, p):
        infected = p.beta * x.B / (cholera.KAPPA + x.B) * x.S
        return {"S": -infected, "I": infected - p.gamma * x.I, "R": p.gamma * x.I, "B": p.xi * x.I - p.delta * x.B}

    scales = dict(zip(cholera.NAMES, map(float, cholera.PRIOR_SCALES), strict=True))
    return gn.Model(
        gn.KnownForm(["S", "I", "R", "B"], slopes, {name: gn.HalfCauchy(scale) for name, scale in scales.items()}),
        initial=dict(zip("SIRB", map(float, cholera.START), strict=True)),
        noise={"cases": gn.PoissonNoise(), "B": gn.Noise(std=cholera.LOG_STD)},
        transform={"B": gn.Log()},
        kernel=None,
        observables={"cases": gn.Observable(lambda t, x, p: cholera.PEOPLE - x.S, since_last=True)},
    )


@pytest.mark.slow
def test_the_long_run_is_of_the_density_it_should_be():
    """Simulated anew, the data are those in the file; the solver of the long run is good to the fourth digit."""
    known = json.loads(cholera.FILE.read_text())
    cases, bacteria = cholera.simulate(seed=1)
    assert cases.tolist() == known["cases"]
    assert np.allclose(bacteria, known["bacteria"], rtol=1e-5)
    for one in known["summary"].values():
        assert one["mcse_mean"] < 0.02 * one["sd"]


@pytest.mark.slow
def test_the_posterior_is_that_of_a_long_run_without_the_package():
    known = json.loads(cholera.FILE.read_text())
    times = cholera.TIMES
    data = gn.Observations({"cases": (times, known["cases"]), "B": (times, known["bacteria"])}, start=0.0)
    begun = time.process_time()
    posterior = gn.fit(model(), data, seed=0, progress=False)
    print(f"{time.process_time() - begun:.0f} s of the processor")
    assert posterior.diagnose().converged, str(posterior.diagnose())
    table = posterior.summary()
    for name, expected in known["summary"].items():
        found = table.loc[name]
        error = np.hypot(found["sd"] / np.sqrt(found["ess_bulk"]), expected["mcse_mean"])
        assert abs(found["mean"] - expected["mean"]) < 4.0 * error, name
        assert found["sd"] == pytest.approx(expected["sd"], rel=0.1), name
