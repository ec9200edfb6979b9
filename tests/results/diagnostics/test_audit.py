"""What the process takes over, and what the data say nothing about."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.results.diagnostics.audit import process_shares, widths_against_prior
from support.linear import NOISE, SD


def test_the_process_takes_over_where_equations_are_wrong(linear):
    right = process_shares(linear[0])["x"]
    assert right.ode > 0.9
    assert right.process < 0.05
    wrong = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": 0.0 * x.x}, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=kernels.SquaredExponential(variance=0.5, length_scale=0.5),
        noise=gn.Noise(std=NOISE),
    )
    fitted = gn.fit(wrong, linear[0].data, method=gn.Laplace(draws=200), progress=False)
    found = process_shares(fitted)["x"]
    assert found.process > 0.5
    assert found.ode + found.process + found.noise == pytest.approx(1.0, abs=0.1)
    remark = next(c for c in fitted.diagnose().checks if c.name == "Gaussian process")
    assert remark.passed is None
    assert "of the variation of x" in remark.finding


def test_numbers_the_data_say_nothing_about_are_named(linear):
    model = gn.Model(
        gn.KnownForm(
            ["x"],
            lambda t, x, p: {"x": -p.rate * x.x + 0.0 * p.idle},
            {
                "rate": gn.LogNormal(-1.0, 1.0),
                "idle": gn.Normal(0.0, 1.0),
            },
        ),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=None,
    )
    fitted = gn.fit(model, linear[0].data, method=gn.Laplace(draws=2000), progress=False)
    widths = widths_against_prior(fitted)
    assert widths["idle"] == pytest.approx(1.0, abs=0.15)
    assert widths["rate"] < 0.5
    remark = next(c for c in fitted.diagnose().checks if c.name == "not informed by the data")
    assert remark.finding.startswith("idle:")
