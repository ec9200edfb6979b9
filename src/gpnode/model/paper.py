"""The priors of the paper, under one name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpnode.model.model import Model
from gpnode.model.observation.kernels import PAPER_PRIORS, Kernel
from gpnode.model.observation.noise import Noise
from gpnode.model.priors.distributions import LogNormal
from gpnode.model.priors.sparsity import FinnishHorseshoe


def paper_priors(model: Model) -> Model:
    """``model`` with the paper's priors wherever it left them open.

    Those are: a Finnish horseshoe on the coefficients of dictionaries; LogNormal(0, 1) on the variances of Gaussian
    process and noise, relative to the largest measurement squared; Gamma(1, 0.5) on length scales, in records. They
    suit oscillations; elsewhere such a process can take the equations' place. Where ``kernel`` or ``noise`` is a
    mapping, only the variables it names are changed.

    >>> model = gn.paper_priors(gn.Model(gn.Dictionary(["x", "y"], gn.polynomial(degree=2))))
    """
    return dataclasses.replace(
        model,
        dynamics=model.dynamics.completed(FinnishHorseshoe()),
        kernel=_for_each(model.kernel, _completed),
        noise=_for_each(model.noise, lambda noise: Noise(var=LogNormal(0.0, 1.0)) if noise is None else noise),
    )


def _completed(kernel: Kernel | None) -> Kernel | None:
    return None if kernel is None else kernel.completed(PAPER_PRIORS)


def _for_each(setting: Any, change: Any) -> Any:
    if isinstance(setting, Mapping):
        return {name: change(one) for name, one in setting.items()}
    return change(setting)
