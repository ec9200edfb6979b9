"""A new kernel and a new noise: one file and one line each, then models, problem files and fits take them."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.formats.problem_toml import read_problem, write_problem
from gpnode.model.observation.kernels import KERNELS, Stationary
from gpnode.model.observation.noise import NoiseModel
from gpnode.model.observation.registry import NOISES


@KERNELS.add
class Cosine(Stationary):
    """``w cos(lag / l)``."""

    name: ClassVar[str] = "Cosine"

    variance: Any = gn.LogNormal(-2.0, 1.0)
    length_scale: Any = gn.LogNormal(-1.0, 0.5)

    def shape(self, hyper, lag):
        return jnp.cos(lag / hyper["length_scale"])


@NOISES.add
class TwoSources(NoiseModel):
    """A known floor, and what is to be inferred on top of it."""

    name: ClassVar[str] = "two-sources"

    floor: float = 0.01
    extra: Any = gn.LogNormal(-3.0, 1.0)

    def priors(self, prefix):
        return {f"{prefix}.extra_std": self.extra}

    def scaled_var(self, values, prefix, unit, level):
        return self.floor**2 + values[f"{prefix}.extra_std"] ** 2

    def describe(self):
        return {"kind": self.name, "floor": self.floor}


@pytest.fixture
def table(tmp_path):
    t = np.linspace(0.0, 5.0, 20)
    x = 2.0 * np.exp(-0.7 * t) + 0.02 * np.random.default_rng(0).normal(size=t.size)
    rows = "\n".join(f"{a},{b}" for a, b in zip(t, x, strict=True))
    (tmp_path / "data.csv").write_text(f"time,x\n{rows}\n")
    return tmp_path


def test_problem_files_name_them_and_fits_use_them(table):
    content = {
        "data": {"file": "data.csv"},
        "model": {"equations": ["dx/dt = -k*x"]},
        "parameters": {"k": "LogNormal(0, 1)"},
        "kernel": {"kind": "Cosine", "length_scale": 0.4},
        "noise": {"kind": "two-sources", "floor": 0.002},
    }
    write_problem(content, table / "problem.toml")
    problem = read_problem(table / "problem.toml")
    assert problem.model.kernel == Cosine(length_scale=0.4)
    posterior = gn.fit(problem.model, problem.data, method=gn.Laplace(draws=300), progress=False)
    assert float(posterior.draws["k"].mean()) == pytest.approx(0.7, abs=0.1)
    assert "x.kernel.variance" in posterior.draws
    assert 0.002 * 2.0 < float(posterior.draws["x.noise_std"].mean()) < 0.2


def test_unknown_settings_are_refused_by_name(table):
    content = {"data": {"file": "data.csv"}, "kernel": {"kind": "Cosine", "width": 1.0}}
    write_problem(content, table / "problem.toml")
    with pytest.raises(gn.ModelError, match="Cosine has 'width'; it may have variance, length_scale"):
        read_problem(table / "problem.toml")
