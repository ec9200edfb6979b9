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
