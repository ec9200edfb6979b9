"""Independent measurement noise: what a measurement's density is given its prediction."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from gpnode.errors import ModelError
from gpnode.model.observation.kernels import describe_hyper, lowest
from gpnode.model.priors.parameters import Values


class Noise(eqx.Module):
    """Independent measurement noise.

    Give ``var`` or ``std``, as a prior or a number. By default it is relative to the largest
    measurement (``std=0.1`` is 10 % of it); ``relative=False`` means the user's units. On the
    log scale noise has no unit and ``relative`` does not matter.
    """

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
        return "noise_var" if self.std is None else "noise_std"

    @property
    def hyper(self) -> Any:
        return self.var if self.std is None else self.std

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {f"{prefix}.{self.kind}": self.hyper} if isinstance(self.hyper, dist.Distribution) else {}

    def scaled_var(self, values: Values, prefix: str, unit: Array) -> Array:
        """Noise variance in scaled units; ``unit`` is the variable's scale."""
        given = (
            values[f"{prefix}.{self.kind}"] if isinstance(self.hyper, dist.Distribution) else jnp.asarray(self.hyper)
        )
        var = given if self.std is None else given**2
        return var if self.relative else var / unit**2

    def describe(self) -> dict[str, Any]:
        return {self.kind: describe_hyper(self.hyper), "relative": self.relative}
