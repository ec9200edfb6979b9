"""Noise that is not normal: outliers, and counts.

Such a noise says what density a measurement has given its prediction, both in the user's units. There is no Gaussian
process on top of it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import betainc, gammaincc, gammaln

from gpnode.errors import ModelError
from gpnode.model.observation.noise import NOISE_SIZE, NoiseModel
from gpnode.model.priors.distributions import describe_hyper, exponential, lowest
from gpnode.model.priors.parameters import Values

_SMALLEST = 1e-9  # expected count: a path may touch zero
_PRIOR_DISPERSION = 1.0


class Family(NoiseModel):
    """Noise with a density of its own."""

    is_normal: ClassVar[bool] = False
    is_count: ClassVar[bool] = False
    """Whether measurements are whole numbers from zero up."""

    @abstractmethod
    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        """Of measurements (n,) whose predictions are ``predicted`` (n,), in the user's units."""

    def log_density(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        """Of what was ``measured`` (n,)."""
        return self.distribution(values, prefix, unit, predicted).log_prob(measured)

    @abstractmethod
    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        """Probability (n,) of less than what was ``measured``, and half of that of as much."""

    @property
    def domain(self) -> str:
        """What measurements may be, in words."""
        return "whole numbers from zero up" if self.is_count else "any numbers"

    def refused(self, measured: np.ndarray) -> np.ndarray:
        """Which measurements (n,) it cannot be about."""
        if not self.is_count:
            return np.zeros(measured.shape, dtype=bool)
        return (measured < 0) | (measured != np.round(measured))


class StudentNoise(Family):
    """Noise with outliers: Student's t with a scale ``std``, relative to the largest measurement as in :class:`Noise`.

    Parameters
    ----------
    std
        Its scale: a prior, or a number.
    df
        Degrees of freedom: the fewer, the more outliers. A number, or a prior.
    relative
        False if ``std`` is in the user's units.

    Examples
    --------
    >>> robust = gn.Model(model.dynamics, noise=gn.StudentNoise(df=4.0))
    """

    name: ClassVar[str] = "student"

    std: Any = exponential(NOISE_SIZE)
    df: Any = 4.0
    relative: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        for what in ("std", "df"):
            one = getattr(self, what)
            if not lowest(one) >= 0 or (not isinstance(one, dist.Distribution) and not one > 0):
                raise ModelError(f"{what} of the noise must be positive: give a number, or a prior such as LogNormal.")

    def _parts(self, prefix: str) -> dict[str, Any]:
        return {f"{prefix}.noise_scale": self.std, f"{prefix}.noise_df": self.df}

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {name: part for name, part in self._parts(prefix).items() if isinstance(part, dist.Distribution)}

    def _numbers(self, values: Values, prefix: str, unit: Array) -> tuple[Array, Array]:
        """Scale in scaled units, and degrees of freedom."""
        free = self.priors(prefix)
        scale, df = (values[name] if name in free else jnp.asarray(part) for name, part in self._parts(prefix).items())
        return (scale if self.relative else scale / unit), df

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        return self._numbers(values, prefix, unit)[0] ** 2

    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        scale, df = self._numbers(values, prefix, unit)
        return dist.StudentT(df, predicted, scale * unit)

    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        scale, df = self._numbers(values, prefix, unit)
        away = (measured - predicted) / (scale * unit)
        tail = 0.5 * betainc(0.5 * df, 0.5, df / (df + away**2))
        return jnp.where(away > 0, 1.0 - tail, tail)

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        units = {f"{prefix}.noise_scale": unit if self.relative else 1.0, f"{prefix}.noise_df": 1.0}
        return {name: values[name] * units[name] for name in self.priors(prefix)}

    def report_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(self.priors(prefix))

    def describe(self) -> dict[str, Any]:
        parts = {"std": describe_hyper(self.std), "df": describe_hyper(self.df)}
        return {"kind": self.name, **parts, "relative": self.relative}

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        return {f"{prefix}.noise_scale": noise_std if self.relative else noise_std * unit}


class LaplaceNoise(Family):
    """Noise with a density that falls off exponentially on both sides: large errors are rarer than Student's.

    ``std`` is its standard deviation, a prior or a number, relative to the largest measurement as in :class:`Noise`
    unless ``relative`` is False.

    >>> robust = gn.Model(model.dynamics, noise=gn.LaplaceNoise())
    """

    name: ClassVar[str] = "laplace"

    std: Any = exponential(NOISE_SIZE)
    relative: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        if not lowest(self.std) >= 0 or (not isinstance(self.std, dist.Distribution) and not self.std > 0):
            raise ModelError("std of the noise must be positive: give a number, or a prior such as LogNormal.")

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {f"{prefix}.noise_std": self.std} if isinstance(self.std, dist.Distribution) else {}

    def _std(self, values: Values, prefix: str, unit: Array) -> Array:
        """In scaled units."""
        std = values.get(f"{prefix}.noise_std", self.std) if self.priors(prefix) else jnp.asarray(self.std)
        return std if self.relative else std / unit

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        return self._std(values, prefix, unit) ** 2

    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        return dist.Laplace(predicted, self._std(values, prefix, unit) * unit / jnp.sqrt(2.0))

    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        away = jnp.sqrt(2.0) * (measured - predicted) / (self._std(values, prefix, unit) * unit)
        tail = 0.5 * jnp.exp(-jnp.abs(away))
        return jnp.where(away > 0, 1.0 - tail, tail)

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        return {name: values[name] * (unit if self.relative else 1.0) for name in self.priors(prefix)}

    def report_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(self.priors(prefix))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "std": describe_hyper(self.std), "relative": self.relative}

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        return {f"{prefix}.noise_std": noise_std if self.relative else noise_std * unit}


def _whole(number: Any) -> Any:
    """A float such as 40.0, as files have it, as a whole number; anything else as it is."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class BinomialNoise(Family):
    """Counts out of a known number of ``trials``; what is predicted is the count that is expected.

    >>> hatched = gn.Model(model.dynamics, noise=gn.BinomialNoise(trials=40))
    """

    name: ClassVar[str] = "binomial"
    is_count: ClassVar[bool] = True

    trials: int = eqx.field(static=True, converter=_whole)

    def __check_init__(self) -> None:
        if not isinstance(self.trials, int) or isinstance(self.trials, bool) or self.trials < 1:
            raise ModelError(f"trials must be a whole number from 1 up; got {self.trials!r:.80}.")

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {}

    def _chance(self, predicted: Array) -> Array:
        return jnp.clip(predicted / self.trials, _SMALLEST, 1.0 - _SMALLEST)

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        chance = jnp.clip(level * unit / self.trials, 0.5 / self.trials, 1.0 - 0.5 / self.trials)
        return self.trials * chance * (1.0 - chance) / unit**2

    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        return dist.Binomial(self.trials, self._chance(predicted))

    def log_density(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        # As gamma functions: numpyro's is good to six digits alone.
        chance, left = self._chance(predicted), self.trials - measured
        ways = gammaln(self.trials + 1.0) - gammaln(measured + 1.0) - gammaln(left + 1.0)
        return ways + measured * jnp.log(chance) + left * jnp.log1p(-chance)

    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        up_to = betainc(jnp.maximum(self.trials - measured, _SMALLEST), measured + 1.0, 1.0 - self._chance(predicted))
        up_to = jnp.where(measured < self.trials, up_to, 1.0)
        return up_to - 0.5 * jnp.exp(self.log_density(values, prefix, unit, predicted, measured))

    @property
    def domain(self) -> str:
        return f"whole numbers from 0 to {self.trials}"

    def refused(self, measured: np.ndarray) -> np.ndarray:
        return super().refused(measured) | (measured > self.trials)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "trials": self.trials}


class PoissonNoise(Family):
    """Counts: as many as are expected on average, and independent of each other.

    >>> counted = gn.Model(model.dynamics, noise=gn.PoissonNoise())
    """

    name: ClassVar[str] = "poisson"
    is_count: ClassVar[bool] = True

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {}

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        return jnp.maximum(level, 1.0 / unit) / unit

    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        return dist.Poisson(jnp.maximum(predicted, _SMALLEST))

    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        expected = jnp.maximum(predicted, _SMALLEST)
        return gammaincc(measured + 1.0, expected) - 0.5 * jnp.exp(dist.Poisson(expected).log_prob(measured))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name}


class NegativeBinomialNoise(Family):
    """Counts that scatter more than Poisson's: with mean m, their variance is ``m + dispersion m²``.

    >>> cases = gn.Model(model.dynamics, noise=gn.NegativeBinomialNoise(dispersion=gn.HalfNormal(0.5)))
    """

    name: ClassVar[str] = "negative-binomial"
    is_count: ClassVar[bool] = True

    dispersion: Any = exponential(_PRIOR_DISPERSION)

    def __check_init__(self) -> None:
        one = self.dispersion
        if not lowest(one) >= 0 or (not isinstance(one, dist.Distribution) and not one > 0):
            raise ModelError("dispersion must be positive: give a number, or a prior such as HalfNormal.")

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        free = isinstance(self.dispersion, dist.Distribution)
        return {f"{prefix}.noise_dispersion": self.dispersion} if free else {}

    def _dispersion(self, values: Values, prefix: str) -> Array:
        free = isinstance(self.dispersion, dist.Distribution)
        return values[f"{prefix}.noise_dispersion"] if free else jnp.asarray(self.dispersion)

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        return jnp.maximum(level, 1.0 / unit) / unit + self._dispersion(values, prefix) * level**2

    def distribution(self, values: Values, prefix: str, unit: Array, predicted: Array) -> dist.Distribution:
        return dist.NegativeBinomial2(jnp.maximum(predicted, _SMALLEST), 1.0 / self._dispersion(values, prefix))

    def below(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        expected, number = jnp.maximum(predicted, _SMALLEST), 1.0 / self._dispersion(values, prefix)
        up_to = betainc(number, measured + 1.0, number / (number + expected))
        return up_to - 0.5 * jnp.exp(self.log_density(values, prefix, unit, predicted, measured))

    def log_density(self, values: Values, prefix: str, unit: Array, predicted: Array, measured: Array) -> Array:
        # As gamma functions: numpyro's is good to six digits alone.
        expected, number = jnp.maximum(predicted, _SMALLEST), 1.0 / self._dispersion(values, prefix)
        ways = gammaln(measured + number) - gammaln(number) - gammaln(measured + 1.0)
        return ways - number * jnp.log1p(expected / number) + measured * jnp.log(expected / (number + expected))

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        return {name: values[name] for name in self.priors(prefix)}

    def report_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(self.priors(prefix))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "dispersion": describe_hyper(self.dispersion)}

    def guesses(self, prefix: str, noise_std: float, unit: float) -> dict[str, float]:
        return {f"{prefix}.noise_dispersion": max(noise_std**2, 1e-4)}
