"""Where a model meets data: fingerprints, and the solver that is taken."""

from __future__ import annotations

import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.solvers import (
    FixedGrid,
    NativeStiff,
    Status,
)
from support.growth import growth


def test_fingerprints_tell_priors_and_tables_apart(positive_data):
    from gpnode.problem.binding import fingerprint

    def with_prior(prior):
        return gn.Model(gn.KnownForm(["x"], growth, {"r": prior, "K": 50.0}))

    table = np.linspace(0.0, 1.0, 50)

    def forced(values):
        return gn.Model(gn.KnownForm(["x"], lambda t, x, p: {"x": p.r * jnp.interp(t, table, values)}, {"r": 1.0}))

    models = [
        with_prior(gn.TruncatedNormal(1.0, 0.5, low=0.0)),
        with_prior(gn.TruncatedNormal(5.0, 3.0, low=0.0)),
        with_prior(gn.Normal(1.0, 0.5)),
        with_prior(gn.Normal(1.0, 0.6)),
        forced(table),
        forced(table**2),
    ]
    marks = [fingerprint(m, positive_data) for m in models]
    assert len(set(marks)) == len(marks)
    assert marks == [fingerprint(m, positive_data) for m in models]


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process():
    script = (
        "import gpnode as gn\n"
        "from gpnode.problem.binding import fingerprint\n"
        "from gpnode.studies import predator_prey as study\n"
        "print(fingerprint(study.dictionary(), study.simulate(0)))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in (0, 2)
    ]
    assert len({run.stdout for run in runs}) == 1


@pytest.mark.slow
def test_a_model_with_a_stiff_solver_is_solved_in_native_code():
    t = np.linspace(0.0, 5.0, 12)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * (x.x - jnp.cos(t))}, {"rate": gn.LogNormal(5.0, 1.0)}),
        initial={"x": 1.0},
        kernel=None,
        noise=gn.Noise(),
        solver=gn.Stiff(rtol=1e-7, atol=1e-9),
    )
    problem = gn.bind(model, gn.Observations({"x": (t, np.cos(t))}))
    assert problem.solver == NativeStiff(rtol=1e-7, atol=1e-9)
    value, gradient, status = problem.value_and_grad(jnp.array([0.0, -3.0]))
    assert int(status) == Status.OK
    assert np.isfinite(value)
    assert np.abs(gradient).min() > 0.0


def test_what_cannot_be_compiled_falls_back_and_says_so():
    def searching(t, x, p):
        return {"x": p.rate * jnp.interp(x.x, jnp.linspace(0.0, 1.0, 5), jnp.arange(5.0))}

    model = gn.Model(gn.KnownForm(["x"], searching, {"rate": gn.Normal(0.0, 1.0)}), initial={"x": 0.2})
    data = gn.Observations({"x": (np.arange(6.0), np.linspace(0.2, 0.5, 6))})
    with pytest.warns(UserWarning, match="cannot be compiled to native code: .*array code instead"):
        problem = gn.bind(model, data)
    assert isinstance(problem.solver, FixedGrid)
