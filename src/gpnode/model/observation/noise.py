"""Noise: how far measurements scatter about their predictions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from gpnode.errors import ModelError
from gpnode.model.priors.distributions import describe_hyper, exponential, lowest
from gpnode.model.priors.parameters import Values

NOISE_SIZE = 0.1
"""Prior mean of a standard deviation of noise, as part of the largest measurement, or of each."""


class NoiseModel(eqx.Module):
    """Independent noise whose variance depends on hyperparameters of its own: normal, or else a ``Family``.

    Kinds that are registered have a ``name``. Hyperparameters go by full names that begin with ``prefix``.
    """

    is_normal: ClassVar[bool] = True
    follows_level: ClassVar[bool] = False
    """Whether it grows with what is measured, which is sensible in the user's units alone."""

    @abstractmethod
    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        """Free hyperparameters by full name."""

    @abstractmethod
    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        """Noise variance in scaled units, a number or (n,).

        ``unit`` is the variable's scale, ``level`` (n,) how large what is measured is, in scaled units.
        """

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        """What there is to say of free hyperparameters, by full name, in the user's units."""
        std = jnp.sqrt(self.scaled_var(values, prefix, unit, jnp.ones(()))) * unit
        return dict.fromkeys(self.report_names(prefix), std)

    def report_names(self, prefix: str) -> tuple[str, ...]:
        """Names of what is reported: by default one standard deviation, where measurements are largest."""
        return (f"{prefix}.noise_std",) if self.priors(prefix) else ()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Settings, for records."""

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        """Values to begin a search with, by full name, given the noise in scaled units."""
        return {}


class Noise(NoiseModel):
    """Normal noise with one standard deviation.

    Give ``var`` or ``std``, as a prior or a number; without either, ``std`` has an exponential prior. By default it is
    relative to the largest measurement (``std=0.1`` is 10 % of it); ``relative=False`` means the user's units. On the
    log scale noise has no unit and ``relative`` does not matter.

    >>> known = gn.Noise(std=0.2, relative=False)  # as the instrument has it
    >>> inferred = gn.Noise(std=gn.HalfNormal(0.1))  # relative to the spread of the data
    """

    name: ClassVar[str] = "normal"

    var: Any = None
    std: Any = None
    relative: bool = eqx.field(static=True, default=True)

    def __init__(self, *, var: Any = None, std: Any = None, relative: bool = True) -> None:
        if var is not None and std is not None:
            raise ModelError("give the noise as var or as std, not both.")
        self.var = var
        self.std = exponential(NOISE_SIZE) if var is None and std is None else std
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

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        is_free = isinstance(self.hyper, dist.Distribution)
        size = values[f"{prefix}.{self.kind}"] if is_free else jnp.asarray(self.hyper)
        var = size if self.std is None else size**2
        return var if self.relative else var / unit**2

    def describe(self) -> dict[str, Any]:
        return {self.kind: describe_hyper(self.hyper), "relative": self.relative}

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        std = noise_std if self.relative else noise_std * unit
        return {f"{prefix}.noise_std": std, f"{prefix}.noise_var": std**2}


class CombinedNoise(NoiseModel):
    """Normal noise that is additive and proportional at once: its standard deviation is ``a + b |level|``.

    The level is that of the measured series, smoothed; of new measurements, what is predicted. On the log scale, where
    all noise is proportional, use :class:`Noise`.

    Parameters
    ----------
    additive
        ``a`` as part of the largest measurement: a prior, or a number (zero for none).
    proportional
        ``b``: a prior, or a number (zero for none).

    Examples
    --------
    >>> counted = gn.Model(model.dynamics, noise=gn.CombinedNoise(additive=0.0))
    """

    name: ClassVar[str] = "combined"
    follows_level: ClassVar[bool] = True

    additive: Any = exponential(NOISE_SIZE)
    proportional: Any = exponential(NOISE_SIZE)

    def __check_init__(self) -> None:
        parts = (self.additive, self.proportional)
        numbers = [part for part in parts if not isinstance(part, dist.Distribution)]
        if any(not lowest(part) >= 0 for part in parts) or (len(numbers) == 2 and not sum(numbers) > 0):
            raise ModelError("additive and proportional noise must be priors or numbers from zero up, not both zero.")

    def _parts(self, prefix: str) -> dict[str, Any]:
        return {f"{prefix}.noise_additive": self.additive, f"{prefix}.noise_proportional": self.proportional}

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {name: part for name, part in self._parts(prefix).items() if isinstance(part, dist.Distribution)}

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        free = self.priors(prefix)
        a, b = (values[name] if name in free else part for name, part in self._parts(prefix).items())
        return (a + b * level) ** 2

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        units = dict(zip(self._parts(prefix), (unit, jnp.ones(())), strict=True))
        return {name: values[name] * units[name] for name in self.priors(prefix)}

    def report_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(self.priors(prefix))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.name,
            "additive": describe_hyper(self.additive),
            "proportional": describe_hyper(self.proportional),
        }

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        # Half of the noise each, where values are of the order of one.
        return {f"{prefix}.noise_additive": 0.5 * noise_std, f"{prefix}.noise_proportional": noise_std}
