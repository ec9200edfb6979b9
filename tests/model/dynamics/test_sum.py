"""A known part and a dictionary together."""

from __future__ import annotations

import numpy as np
from scipy import stats

import gpnode as gn
from gpnode.model import priors
from support import reference as ref
from support.densities import ROTATION_PRIORS, check, likelihood, points, read, rotation, tight


def test_gray_box_is_the_sum_of_its_parts(decay_data):
    gray = gn.Sum(
        known=gn.KnownForm(["x", "y"], rotation, ROTATION_PRIORS),
        missing=gn.Dictionary(["y"], gn.polynomial(1, constant=False), inputs=["x", "y"], prior=priors.Gaussian(1.0)),
    )
    model = gn.paper_priors(gn.Model(gray, initial={"x": gn.Normal(3.0, 1.0), "y": 0.0}, kernel=None))
    problem = tight(model, decay_data)
    scale = {v: np.abs(decay_data.values_of(v)).max() for v in ("x", "y")}
    unit = scale["y"] / float(problem.scaling.time_unit) / np.array([scale["x"], scale["y"]])
    table = {
        "known.a": ref.positive(stats.lognorm(0.5, scale=np.exp(-1.5))),
        "known.w": ref.real(1.0, 0.3),
        "missing.coef": ref.real(0.0, 1.0),
        "x.initial": ref.real(3.0, 1.0),
        "x.noise_var": ref.LOGNORMAL,
        "y.noise_var": ref.LOGNORMAL,
    }

    def expected(u):
        values, total = read(problem, u, table)
        a, w, (cx, cy) = values["known.a"], values["known.w"], values["missing.coef"] * unit

        def solution(times):
            def slopes(t, x):
                first = -a * x[0] - w * x[1] / 6 + 0.05 * np.sin(t)
                return [first, 6 * w * x[0] - a * x[1] + cx * x[0] + cy * x[1]]

            found = ref.path(slopes, [values["x.initial"], 0.0], 0.0, times)
            return {"x": found[:, 0], "y": found[:, 1]}

        zero = {v: lambda h, d: np.zeros_like(d) for v in ("x", "y")}
        return total + likelihood(decay_data, scale, values, solution, zero)

    check(problem, expected, points(problem.size, spread=0.05))
