"""What the data say nothing about."""

from __future__ import annotations

import pytest

import gpnode as gn
from gpnode.results.diagnostics.audit import widths_against_prior
from support.linear import SD


@pytest.mark.slow
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
