"""Priors: distributions of single numbers, sparsity of coefficients, and the blocks of parameters they make.

The names below are what users see as ``gpnode.priors``. Imports no other part of the model.
"""

from .distributions import (
    Beta,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Normal,
    StudentT,
    TruncatedNormal,
    Uniform,
)
from .sparsity import COEFFICIENT_PRIORS, CoefficientPrior, FinnishHorseshoe, Gaussian, Horseshoe, Laplace
from .spike_and_slab import SpikeAndSlab

__all__ = [
    "COEFFICIENT_PRIORS",
    "Beta",
    "CoefficientPrior",
    "Exponential",
    "FinnishHorseshoe",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "HalfNormal",
    "Horseshoe",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "Normal",
    "SpikeAndSlab",
    "StudentT",
    "TruncatedNormal",
    "Uniform",
]
