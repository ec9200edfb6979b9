"""How measurements scatter about the ODE's path: Gaussian process plus noise, block by block.

Each variable in each experiment is one block with its own covariance matrix; blocks are
independent given the parameters, so no larger matrix is ever built.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import log_ndtr, ndtri
from tinygp import GaussianProcess

from gpnode.data.scaling import Scaling
from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction
from gpnode.model.observation.families import Family
from gpnode.model.observation.formula_noise import BoundFormula
from gpnode.model.observation.kernels import Kernel
from gpnode.model.observation.noise import NoiseModel
from gpnode.model.observation.transforms import Transform
from gpnode.model.priors.parameters import Values
from gpnode.problem.covariance import DENSE_LIMIT, MOST_DENSE, RELATIVE_JITTER, Lags, gaussian_log_density
from gpnode.problem.factorisation import factorise

_TAIL = 1e-15  # of a prediction: beyond, all places are equally far out


class Reading(eqx.Module):
    """The user's function that a measured variable is, on scaled states; ``scale`` is that of its values.

    ``priors`` are of the parameters it has to itself, ``fixed`` the known ones. If ``since_last``, what is measured is
    how much it has grown since the last measurement.
    """

    priors: dict[str, dist.Distribution]
    fixed: dict[str, float]
    scaling: Scaling
    scale: Array
    function: SharedFunction = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    since_last: bool = eqx.field(static=True)

    def __call__(self, t: Array, x: Array, parameters: Values) -> Array:
        """The scaled value at solver time ``t`` and scaled states ``x`` (states,)."""
        named = {s: x[i] * self.scaling.state_scale[i] for i, s in enumerate(self.states)}
        value = self.function(self.scaling.user_time(t), Named(named), Named({**parameters, **self.fixed}))
        return jnp.asarray(value, dtype=float) / self.scale

    def formula(self, parameters: tuple[str, ...]) -> Any:
        """The function in sympy's terms; a bare symbol where it cannot be written as one."""
        import sympy

        from gpnode.tracing.formulas import number, write_formulas
        from gpnode.tracing.interpreter import Unsupported

        free = [name for name in parameters if name not in self.fixed]
        symbols = [sympy.Symbol(name) for name in ("t", *self.states, *free)]

        def value(t: Any, *values: Any) -> list[Any]:
            states = Named(dict(zip(self.states, values, strict=False)))
            numbers = dict(zip((*free, *self.fixed), values[len(self.states) :], strict=True))
            return [jnp.asarray(self.function(t, states, Named(numbers)), dtype=float)]

        try:
            return write_formulas(value, [*symbols, *map(number, self.fixed.values())])[0]
        except Unsupported:
            return sympy.Symbol("h")


class LeftOut(NamedTuple):
    """Of measurements (n,), each against its prediction from the others: its place there as a standard normal value,
    the log density of the prediction, and what the process leaves to noise."""

    places: Array
    log_densities: Array
    noise: Array


class Observable(eqx.Module):
    """How one observed variable is measured; shared by its experiments.

    It is a ``state``, or a ``reading`` of states. ``unit`` is the variable's scale, or 1 on the log scale;
    ``record_length`` the unit of Gaussian-process time. With more measurements than ``dense_limit`` in a block, kernels
    that allow it are treated in linear time.
    """

    kernel: Kernel | None
    noise: NoiseModel
    transform: Transform
    unit: Array
    record_length: Array
    reading: Reading | None
    variable: str = eqx.field(static=True)
    state: int | None = eqx.field(static=True)
    dense_limit: int = eqx.field(static=True, default=DENSE_LIMIT)

    @property
    def since_last(self) -> bool:
        """Whether what is measured is how much came since the last measurement."""
        return self.reading is not None and self.reading.since_last

    @property
    def prefix(self) -> str:
        return f"{self.variable}.kernel"

    def priors(self) -> dict[str, dist.Distribution]:
        kernel = {} if self.kernel is None else self.kernel.priors(self.prefix)
        return kernel | self.noise.priors(self.variable)

    def guesses(self, noise_std: float) -> dict[str, float]:
        """Values of hyperparameters to begin a search with, for noise of standard deviation ``noise_std``."""
        kernel = {} if self.kernel is None else self.kernel.guesses(self.prefix, noise_std)
        return kernel | self.noise.guesses(self.variable, noise_std, float(self.unit))

    def noise_var(self, values: Values, level: Array, std: Array | None = None) -> Array:
        """Noise variance (n,) of measurements of this ``level`` (n,), on their scale.

        Here and below, ``std`` (n,) is the standard deviation if it has a formula.
        """
        if std is not None:
            return std**2
        return jnp.broadcast_to(self.noise.scaled_var(values, self.variable, self.unit, level), level.shape)

    def signal_cov(self, values: Values, t1: Array, t2: Array) -> Array:
        """Gaussian-process covariance without noise."""
        if self.kernel is None:
            return jnp.zeros((t1.size, t2.size))
        return self.kernel.matrix(values, self.prefix, t1, t2)

    def noisy_cov(self, values: Values, block: Measurements, std: Array | None = None) -> Array:
        """Covariance (n, n) of a block's measurements, jitter included."""
        t = block.gp_times
        return self.signal_cov(values, t, t) + jnp.diag(self._diagonal(values, block, std))

    def _diagonal(self, values: Values, block: Measurements, std: Array | None) -> Array:
        """Noise variance and jitter (n,)."""
        noise_var, first = self.noise_var(values, block.level, std), block.gp_times[:1]
        return noise_var + RELATIVE_JITTER * (self.signal_cov(values, first, first)[0, 0] + noise_var)

    def log_density(self, values: Values, block: Measurements, residual: Array, std: Array | None = None) -> Array:
        """Log density of the block's residuals (n,)."""
        if isinstance(self.noise, Family):
            return jnp.sum(self._family_densities(self.noise, values, block, residual))
        if self.kernel is None:
            return jnp.sum(self._independent_densities(values, block, residual, std))
        diagonal = self._diagonal(values, block, std)
        if block.lags is not None:
            at_lags = self.kernel.at_lags(values, self.prefix, block.lags.values)
            return gaussian_log_density(residual, at_lags, block.lags.positions, diagonal)
        scalable = self.kernel.quasiseparable(values, self.prefix)
        # Measurement times are sorted when the data are read; to check again here would stop the compiled code.
        return GaussianProcess(scalable, block.gp_times, diag=diagonal, assume_sorted=True).log_probability(residual)

    def _independent_densities(self, values: Values, block: Measurements, residual: Array, std: Array | None) -> Array:
        """Log densities (n,), or log probabilities of lying beyond a limit."""
        if std is not None and isinstance(self.noise, BoundFormula) and not self.noise.is_normal:
            return self.noise.log_density(residual, std)
        std = jnp.sqrt(self.noise_var(values, block.level, std))
        exact = dist.Normal(0.0, std).log_prob(residual)
        if block.limits is None:
            return exact
        return jnp.where(block.limits == 0, exact, log_ndtr(-block.limits * residual / std))

    def _family_densities(self, noise: Family, values: Values, block: Measurements, residual: Array) -> Array:
        """Log densities (n,) in scaled units."""
        measured, predicted = self._in_user_units(noise, block, residual)
        return noise.log_density(values, self.variable, self.unit, predicted, measured) + jnp.log(self.unit)

    def _in_user_units(self, noise: Family, block: Measurements, residual: Array) -> tuple[Array, Array]:
        """What was measured (n,), and what was predicted (n,)."""
        measured = block.y * self.unit
        return jnp.round(measured) if noise.is_count else measured, (block.y - residual) * self.unit

    def add_noise(self, values: Values, signal: Array, key: Array, std: Array | None = None) -> Array:
        """Measurements (n,) of this ``signal`` (n,), on its scale."""
        if std is not None and isinstance(self.noise, BoundFormula):
            return signal + self.noise.draw(key, std)
        if isinstance(self.noise, Family):
            density = self.noise.distribution(values, self.variable, self.unit, signal * self.unit)
            return density.sample(key) / self.unit
        return signal + jnp.sqrt(self.noise_var(values, jnp.abs(signal))) * jax.random.normal(key, signal.shape)

    def lags(self, times: Array) -> Lags | None:
        """Lags between Gaussian-process times (n,); None where they are not needed."""
        if self.kernel is None or (self.kernel.in_linear_time and times.size > self.dense_limit):
            return None
        if times.size > MOST_DENSE:
            kind, size = type(self.kernel).__name__, 90 * times.size**2 / 1e9
            raise ModelError(
                f"{self.variable!r} has {times.size} measurements in one experiment, and {kind} needs a matrix of all "
                f"pairs of them: about {size:.0f} GB, and minutes for each step; at most {MOST_DENSE} are taken. Use "
                "kernel=gpnode.kernels.Matern32(), whose cost grows in proportion, or kernel=None for noise alone, or "
                "average neighbouring measurements."
            )
        return Lags.between(np.asarray(times))

    def whitener(self, values: Values, block: Measurements, std: Array | None = None) -> Array:
        """W with W cov W' = 1 for a block's measurements: a matrix (n, n), or its diagonal (n,) if that is all."""
        if self.kernel is None:
            return 1.0 / jnp.sqrt(self.noise_var(values, block.level, std))
        return factorise(self.noisy_cov(values, block, std)).whitener

    def left_out(self, values: Values, block: Measurements, residual: Array, std: Array | None = None) -> LeftOut:
        """Each measurement against its prediction from all others of the block."""
        if isinstance(self.noise, Family):
            measured, predicted = self._in_user_units(self.noise, block, residual)
            below = self.noise.below(values, self.variable, self.unit, predicted, measured)
            densities = self._family_densities(self.noise, values, block, residual)
            return LeftOut(ndtri(jnp.clip(below, _TAIL, 1.0 - _TAIL)), densities, residual)
        if std is not None and isinstance(self.noise, BoundFormula) and not self.noise.is_normal:
            below = jnp.clip(self.noise.below(residual, std), _TAIL, 1.0 - _TAIL)
            return LeftOut(ndtri(below), self.noise.log_density(residual, std), residual)
        if block.limits is not None:
            densities = self._independent_densities(values, block, residual, std)
            placed = residual / jnp.sqrt(self.noise_var(values, block.level, std))
            half = 0.5 * jnp.exp(densities)  # the middle of where it may be
            beyond = ndtri(jnp.clip(jnp.where(block.limits < 0, half, 1.0 - half), _TAIL, 1.0 - _TAIL))
            return LeftOut(jnp.where(block.limits == 0, placed, beyond), densities, block.broken(residual))
        if self.kernel is None:
            precision, surprise, noise = 1.0 / self.noise_var(values, block.level, std), residual, residual
        else:
            inverse = factorise(self.noisy_cov(values, block, std)).inverse
            precision = jnp.diag(inverse)
            surprise = (inverse @ residual) / precision
            # What the process leaves: the residual minus the covariance applied to the weights of its prediction.
            noise = residual - self.signal_cov(values, block.gp_times, block.gp_times) @ (surprise * precision)
        densities = 0.5 * (jnp.log(precision / (2.0 * jnp.pi)) - precision * surprise**2)
        return LeftOut(surprise * jnp.sqrt(precision), densities, noise)

    def report_names(self) -> tuple[str, ...]:
        """Names of the reported hyperparameters."""
        kernel = () if self.kernel is None else tuple(self.kernel.priors(self.prefix))
        return (*kernel, *self.noise.report_names(self.variable))

    def report(self, values: Values) -> Values:
        """Hyperparameters in the user's units."""
        factors: dict[str, Any] = {"variance": self.unit**2, "time": self.record_length, "none": 1.0}
        units = {} if self.kernel is None else self.kernel.units(self.prefix)
        reported = {name: values[name] * factors[units[name]] for name in values if name in units}
        return reported | self.noise.report(values, self.variable, self.unit)


class Measurements(eqx.Module):
    """One block of data: ``y`` (n,) transformed and scaled, ``gp_times`` (n,), the rows (n,) of
    the solver's output that belong to them, and the lags between times if the likelihood needs them.

    ``level`` (n,) is how large what was measured was, on the scale of ``y``: noise may grow with it. ``limits`` (n,),
    None if there are none, is -1 where the value lies below ``y``, 1 where it lies above, else 0. ``previous`` (n,) is
    the measurement of the last time before, -1 if there is none; None unless what was measured is what came since.
    ``numbers`` (n,) come with each measurement, by name.
    """

    y: Array
    level: Array
    gp_times: Array
    rows: Array
    lags: Lags | None
    limits: Array | None
    previous: Array | None
    numbers: dict[str, Array]
    observable: int = eqx.field(static=True)
    experiment: int = eqx.field(static=True)

    def beside(self, count: int) -> Values:
        """Numbers that come with each measurement, (n,) or, with the start after the last one, (n + 1,)."""
        return {name: jnp.pad(one, (0, count - one.size), mode="edge") for name, one in self.numbers.items()}

    def since_last(self, along: Array, start: Array) -> Array:
        """What is measured (n, ...), of a function that is ``along`` (n, ...) and was ``start`` (...) at first."""
        if self.previous is None:
            return along
        first = jnp.reshape(self.previous < 0, (-1,) + (1,) * (along.ndim - 1))
        return along - jnp.where(first, start, along[self.previous])

    def broken(self, residual: Array) -> Array:
        """Residuals (n,) without those of limits that are kept."""
        if self.limits is None:
            return residual
        return jnp.where((self.limits != 0) & (self.limits * residual < 0), 0.0, residual)
