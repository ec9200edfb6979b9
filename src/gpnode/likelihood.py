"""How measurements scatter about the ODE's path: Gaussian process plus noise, block by block.

Each variable in each trajectory is one block with its own covariance matrix; blocks are
independent given the parameters, so no larger matrix is ever built.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from tinygp import GaussianProcess

from .errors import ModelError
from .factorise import Score, factorise, score
from .kernels import Kernel, describe_hyper, lowest
from .parameters import Values

DENSE_LIMIT = 300
"""With more measurements than this in a block, kernels that allow it are treated in linear time."""

RELATIVE_JITTER = 1e-10
"""Added to the diagonal of a covariance, relative to its mean diagonal, before factorising."""

_LAG_DIGITS = 13  # of times between zero and one


class Transform(eqx.Module):
    """The scale on which measurements scatter evenly about the path."""

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """From scaled states to the scale of the noise."""

    @abstractmethod
    def backward(self, y: Array) -> Array:
        """From the scale of the noise to scaled states."""

    @abstractmethod
    def inside(self, x: Array) -> Array:
        """Whether ``x`` can be transformed at all, elementwise."""

    @property
    @abstractmethod
    def keeps_units(self) -> bool:
        """True if the noise is measured in the variable's own unit."""


class Identity(Transform):
    """Additive noise."""

    def forward(self, x: Array) -> Array:
        return x

    def backward(self, y: Array) -> Array:
        return y

    def inside(self, x: Array) -> Array:
        return jnp.full(jnp.shape(x), True)

    @property
    def keeps_units(self) -> bool:
        return True


class Log(Transform):
    """Multiplicative noise: Gaussian on the log scale."""

    def forward(self, x: Array) -> Array:
        return jnp.log(jnp.where(x > 0, x, 1.0))

    def backward(self, y: Array) -> Array:
        return jnp.exp(y)

    def inside(self, x: Array) -> Array:
        return x > 0

    @property
    def keeps_units(self) -> bool:
        return False


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


class Channel(eqx.Module):
    """How one observed variable is measured; shared by its trajectories.

    ``unit`` is the variable's scale, or 1 on the log scale; ``record_length`` the unit of
    Gaussian-process time.
    """

    kernel: Kernel | None
    noise: Noise
    transform: Transform
    unit: Array
    record_length: Array
    variable: str = eqx.field(static=True)
    state: int = eqx.field(static=True)

    @property
    def prefix(self) -> str:
        return f"{self.variable}.kernel"

    def priors(self) -> dict[str, dist.Distribution]:
        kernel = {} if self.kernel is None else self.kernel.priors(self.prefix)
        return kernel | self.noise.priors(self.variable)

    def noise_var(self, values: Values) -> Array:
        return self.noise.scaled_var(values, self.variable, self.unit)

    def signal_cov(self, values: Values, t1: Array, t2: Array) -> Array:
        """Gaussian-process covariance without noise."""
        if self.kernel is None:
            return jnp.zeros((t1.size, t2.size))
        return self.kernel.matrix(values, self.prefix, t1, t2)

    def noisy_cov(self, values: Values, t: Array) -> Array:
        """Covariance of measurements at times ``t``, jitter included."""
        return self.signal_cov(values, t, t) + self._diagonal(values, t) * jnp.eye(t.size)

    def _diagonal(self, values: Values, t: Array) -> Array:
        """Noise variance and jitter."""
        noise_var = self.noise_var(values)
        return noise_var + RELATIVE_JITTER * (self.signal_cov(values, t[:1], t[:1])[0, 0] + noise_var)

    def log_density(self, values: Values, block: Measured, residual: Array) -> Array:
        """Log density of the block's residuals (n,)."""
        if self.kernel is None:
            return jnp.sum(dist.Normal(0.0, jnp.sqrt(self.noise_var(values))).log_prob(residual))
        diagonal = self._diagonal(values, block.gp_times)
        if block.lags is not None:
            at_lags = self.kernel.at_lags(values, self.prefix, block.lags.values)
            return gaussian_log_density(residual, at_lags, block.lags.positions, diagonal)
        scalable, noise = self.kernel.quasiseparable(values, self.prefix), jnp.broadcast_to(diagonal, residual.shape)
        # Measurement times are sorted when the data are read; to check again here would stop the compiled code.
        return GaussianProcess(scalable, block.gp_times, diag=noise, assume_sorted=True).log_probability(residual)

    def lags(self, times: Array) -> Lags | None:
        """Lags between Gaussian-process times (n,); None where they are not needed."""
        if self.kernel is None or (self.kernel.in_linear_time and times.size > DENSE_LIMIT):
            return None
        return Lags.between(np.asarray(times))

    def whitener(self, values: Values, t: Array) -> Array:
        """W with W cov W' = 1 for measurements at ``t`` (n,): a matrix (n, n), or a number if all are independent."""
        if self.kernel is None:
            return 1.0 / jnp.sqrt(self.noise_var(values))
        return factorise(self.noisy_cov(values, t)).whitener

    def report_names(self) -> tuple[str, ...]:
        """Names of the reported hyperparameters."""
        kernel = () if self.kernel is None else tuple(self.kernel.priors(self.prefix))
        return (*kernel, *(f"{self.variable}.noise_std" for _ in self.noise.priors(self.variable)))

    def report(self, values: Values) -> Values:
        """Hyperparameters in the user's units."""
        factors: dict[str, Any] = {"variance": self.unit**2, "time": self.record_length, "none": 1.0}
        units = {} if self.kernel is None else self.kernel.units(self.prefix)
        found = {name: values[name] * factors[units[name]] for name in values if name in units}
        if self.noise.priors(self.variable):
            found[f"{self.variable}.noise_std"] = jnp.sqrt(self.noise_var(values)) * self.unit
        return found


class Lags(eqx.Module):
    """How far apart times (n,) are, each distance once: on a regular grid there are n of them, not n squared.

    ``values`` (m,) rise from zero; ``positions`` (n (n + 1) / 2,) tell which belongs to two times, row by row
    of the upper triangle.
    """

    values: Array
    positions: Array

    @classmethod
    def between(cls, times: np.ndarray) -> Lags:
        rows, columns = np.triu_indices(times.size)
        # Equal but for rounding: what that changes in a covariance is far below the jitter.
        apart = np.abs(times[columns] - times[rows]).round(_LAG_DIGITS)
        values, positions = np.unique(apart, return_inverse=True)
        return cls(jnp.asarray(values), jnp.asarray(positions))


class Measured(eqx.Module):
    """One block of data: ``y`` (n,) transformed and scaled, ``gp_times`` (n,), the rows (n,) of
    the solver's output that belong to them, and the lags between times if the likelihood needs them."""

    y: Array
    gp_times: Array
    rows: Array
    lags: Lags | None
    channel: int = eqx.field(static=True)
    trajectory: int = eqx.field(static=True)


@jax.custom_vjp
def gaussian_log_density(residual: Array, at_lags: Array, positions: Array, noise_var: Array) -> Array:
    """Log N(residual; 0, covariance), with the gradient in closed form from one factorisation.

    The covariance is given by its values at lags (see :class:`Lags`), and what is to be added to its diagonal.
    """
    return score(residual, at_lags, positions, noise_var).value


def _gaussian_fwd(residual: Array, at_lags: Array, positions: Array, noise_var: Array) -> tuple[Array, Score]:
    found = score(residual, at_lags, positions, noise_var)
    return found.value, found


def _gaussian_bwd(found: Score, cotangent: Array) -> tuple[Array, Array, None, Array]:
    # A covariance that is not positive definite gives NaN; its gradient must be finite all the same.
    factor = jnp.where(jnp.isfinite(found.value), cotangent, 0.0)
    safe = (jnp.where(jnp.isfinite(found.value), d, 0.0) for d in found[1:])
    by_residual, by_lag, by_noise = (factor * d for d in safe)
    return by_residual, by_lag, None, by_noise


gaussian_log_density.defvjp(_gaussian_fwd, _gaussian_bwd)
