"""Every kernel against an independent computation of the density."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import pytest

from gpnode.model.observation import kernels
from support import reference as ref
from support.densities import check, kernel_tables, points, rotation_model, rotation_reference, tight

# Two at a time, one for each variable; if they are odd in number the first takes part twice.
EVERY = tuple(kernels.KERNELS.values())
PAIRS = list(zip_longest(EVERY[::2], EVERY[1::2], fillvalue=EVERY[0]))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: "-".join(k.__name__ for k in p))
def test_every_kernel(decay_data, pair):
    chosen = dict(zip(("x", "y"), pair, strict=True))
    problem = tight(rotation_model(kernel={v: k() for v, k in chosen.items()}), decay_data)
    covariances, hyper = kernel_tables({v: k.__name__ for v, k in chosen.items()})
    check(problem, rotation_reference(problem, decay_data, covariances, hyper), points(problem.size))


def test_sum_product_and_fixed_hyperparameters(decay_data):
    # Priors of sums and products carry the letters of their parts.
    combined = {
        "x": kernels.SquaredExponential() + kernels.Matern12(variance=0.3),
        "y": kernels.Matern32() * kernels.Periodic(variance=1.0, length_scale=2.0),
    }
    problem = tight(rotation_model(kernel=combined), decay_data)
    hyper = {
        "x.kernel.a.variance": ref.LOGNORMAL,
        "x.kernel.a.length_scale": ref.LENGTH,
        "x.kernel.b.length_scale": ref.LENGTH,
        "y.kernel.a.variance": ref.LOGNORMAL,
        "y.kernel.a.length_scale": ref.LENGTH,
        "y.kernel.b.period": ref.PERIOD,
    }

    def cov_x(v, d):
        first = {"variance": v["x.kernel.a.variance"], "length_scale": v["x.kernel.a.length_scale"]}
        second = {"variance": 0.3, "length_scale": v["x.kernel.b.length_scale"]}
        return ref.squared_exponential(first, d) + ref.matern12(second, d)

    def cov_y(v, d):
        first = {"variance": v["y.kernel.a.variance"], "length_scale": v["y.kernel.a.length_scale"]}
        second = {"variance": 1.0, "length_scale": 2.0, "period": v["y.kernel.b.period"]}
        return ref.matern32(first, d) * ref.periodic(second, d)

    expected = rotation_reference(problem, decay_data, {"x": cov_x, "y": cov_y}, hyper)
    check(problem, expected, points(problem.size))


def test_paper_convention_of_the_squared_exponential(decay_data):
    model = rotation_model(kernel=kernels.SquaredExponential(halved=False))
    problem = tight(model, decay_data)
    covariances = {
        v: lambda h, d, x=v: h[f"{x}.kernel.variance"] * np.exp(-((d / h[f"{x}.kernel.length_scale"]) ** 2))
        for v in ("x", "y")
    }
    hyper = kernel_tables({"x": "SquaredExponential", "y": "SquaredExponential"})[1]
    check(problem, rotation_reference(problem, decay_data, covariances, hyper), points(problem.size, count=1))
