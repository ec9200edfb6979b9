"""The kinds of noise there are."""

from __future__ import annotations

from gpnode._registry import Registry
from gpnode.model.observation.families import (
    BinomialNoise,
    LaplaceNoise,
    NegativeBinomialNoise,
    PoissonNoise,
    StudentNoise,
)
from gpnode.model.observation.noise import CombinedNoise, Noise, NoiseModel

NOISES: Registry[NoiseModel] = Registry(
    "noise", Noise, CombinedNoise, StudentNoise, LaplaceNoise, PoissonNoise, NegativeBinomialNoise, BinomialNoise
)
