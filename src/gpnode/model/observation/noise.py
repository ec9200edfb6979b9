"""Noise: what a measurement's density is given its prediction."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from gpnode._registry import Registry
from gpnode.errors import ModelError
from gpnode.model.priors.distributions import describe_hyper, lowest
from gpnode.model.priors.parameters import Values


class NoiseModel(eqx.Module):
    """Independent normal noise whose variance depends on hyperparameters of its own.

    Kinds that are registered have a ``name``. Hyperparameters go by full names that begin with ``prefix``.
    """

    @abstractmethod
    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        """Free hyperparameters by full name."""

    @abstractmethod
    def scaled_var(self, values: Values, prefix: str, unit: Array) -> Array:
        """Noise variance in scaled units; ``unit`` is the variable's scale."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Settings, for records."""

    def guesses(self, prefix: str, level: float, unit: float) -> dict[str, float]:
        """Values to begin a search with, by full name, for noise of standard deviation ``level`` in scaled units."""
        return {}


class Noise(NoiseModel):
    """Normal noise with one standard deviation.

    Give ``var`` or ``std``, as a prior or a number. By default it is relative to the largest
    measurement (``std=0.1`` is 10 % of it); ``relative=False`` means the user's units. On the
    log scale noise has no unit and ``relative`` does not matter.
    """

    name: ClassVar[str] = "normal"

    var: Any = None
    std: Any = None
    relative: bool = eqx.field(static=True, default=True)

    def __init__(self, *, var: Any = None, std: Any = None, relative: bool = True) -> None:
        if var is not None and std is not None:
            raise ModelError("give the noise as var or as std, not both.")
        self.var = dist.LogNormal(0.0, 1.0) if var is None and std is None else var
        self.std = std
        self.relative = relative
        if not lowest(self.hyper) >= 0 or (not isinstance(self.hyper, dist.Distribution) and not self.hyper > 0):
            raise ModelError("the noise must be positive: give a positive number, or a prior such as LogNormal.")

    @property
    def kind(self) -> str:
        """Which of the two the hyperparameter is."""
        return "noise_var" if self.std is None else "noise_std"

    @property
    def hyper(self) -> Any:
        """The hyperparameter: a prior, or a number."""
        return self.var if self.std is None else self.std

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {f"{prefix}.{self.kind}": self.hyper} if isinstance(self.hyper, dist.Distribution) else {}

    def scaled_var(self, values: Values, prefix: str, unit: Array) -> Array:
        is_free = isinstance(self.hyper, dist.Distribution)
        size = values[f"{prefix}.{self.kind}"] if is_free else jnp.asarray(self.hyper)
        var = size if self.std is None else size**2
        return var if self.relative else var / unit**2

    def describe(self) -> dict[str, Any]:
        return {self.kind: describe_hyper(self.hyper), "relative": self.relative}

    def guesses(self, prefix: str, level: float, unit: float) -> dict[str, float]:
        std = level if self.relative else level * unit
        return {f"{prefix}.noise_std": std, f"{prefix}.noise_var": std**2}


NOISES: Registry[NoiseModel] = Registry("noise", Noise)
