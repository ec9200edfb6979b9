"""Measurements on another scale."""

from __future__ import annotations

import numpy as np
from scipy import stats

import gpnode as gn
from support import reference as ref
from support.densities import check, points, read, tight


def test_log_transform_noise_std_and_experiments(positive_data):
    model = gn.Model(
        gn.KnownForm(
            ["x"],
            lambda t, x, p: {"x": p.r * x.x * (1 - x.x / p.K)},
            {"r": gn.Uniform(0.1, 2.0), "K": gn.LogNormal(np.log(50.0), 0.5)},
        ),
        initial={"x": {"low": gn.LogNormal(np.log(2.0), 0.5), "high": gn.Around(0.7)}},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-2.0, 1.0)),
        transform=gn.Log(),
    )
    first = {s.experiment: s.values[0] for s in positive_data.series}
    centre = np.array([0.0, np.log(50), np.log(2), np.log(first["high"]), -2.0])
    problem = tight(model, positive_data)
    table = {
        "r": ref.uniform(0.1, 2.0),
        "K": ref.positive(stats.lognorm(0.5, scale=50.0)),
        "x.initial.low": ref.positive(stats.lognorm(0.5, scale=2.0)),
        "x.initial.high": ref.positive(stats.lognorm(0.7, scale=first["high"])),
        "x.noise_std": ref.positive(stats.lognorm(1.0, scale=np.exp(-2.0))),
    }

    def expected(u):
        v, total = read(problem, u, table)
        for s in positive_data.series:
            x0 = v[f"x.initial.{s.experiment}"]
            mean = v["K"] / (1 + (v["K"] / x0 - 1) * np.exp(-v["r"] * s.times))  # the closed form
            total += stats.norm.logpdf(np.log(s.values), np.log(mean), v["x.noise_std"]).sum()
        return total

    check(problem, expected, points(problem.size, centre))
