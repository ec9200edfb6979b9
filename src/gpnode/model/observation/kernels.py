"""Covariance functions of time for what the ODE does not explain.

Inputs are times scaled to [0, 1]; variances are relative to the largest measurement
squared, as in the paper. A hyperparameter is a prior (any positive numpyro distribution)
or a number, which fixes it; one left open gets a prior from what is measured (:func:`priors_for`). Kernels add and
multiply.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from tinygp.kernels import Kernel as TinyKernel
from tinygp.kernels import quasisep

from gpnode._registry import Registry
from gpnode.errors import ModelError
from gpnode.model.priors.distributions import describe_hyper, lowest
from gpnode.model.priors.parameters import Values

Hyper = Any  # a numpyro distribution, or a positive number; None where it is left open
PAPER_PRIORS: dict[str, dist.Distribution] = {
    "variance": dist.LogNormal(0.0, 1.0),
    "length_scale": dist.Gamma(1.0, 0.5),
}
"""Of hyperparameters left open, as the paper has them."""
PROCESS_SIZE = 0.1 / np.log(100.0)
"""Prior mean of a process' standard deviation, as part of the spread of what is measured: one process in a hundred has
more than a tenth of it."""
_SHORTEST_GAPS, _LONGEST, _TAIL = 2.0, 0.5, 2.33  # length scales at the ends of 98 % of the prior: gaps, and records


def priors_for(spread: float, gap: float) -> dict[str, dist.Distribution]:
    """Priors of hyperparameters left open, for measurements of this ``spread``, a ``gap`` of the record apart.

    The standard deviation is exponential (a penalised-complexity prior): the process is nothing unless data insist.
    Length scales are neither shorter than the sampling nor as long as the record, where the process were a constant.
    """
    low, high = np.log(min(_SHORTEST_GAPS * gap, 0.5 * _LONGEST)), np.log(_LONGEST)
    return {
        "variance": dist.Weibull(scale=(PROCESS_SIZE * spread) ** 2, concentration=0.5),
        "length_scale": dist.LogNormal(0.5 * (low + high), 0.5 * (high - low) / _TAIL),
    }


class Kernel(eqx.Module):
    """A covariance function. ``values`` holds the free hyperparameters under ``prefix``."""

    @abstractmethod
    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        """Free hyperparameters by full name."""

    @abstractmethod
    def at_lags(self, values: Values, prefix: str, lags: Array) -> Array:
        """Covariance between times that are ``lags`` apart (any shape, not negative)."""

    @abstractmethod
    def units(self, prefix: str) -> dict[str, str]:
        """``"variance"``, ``"time"`` or ``"none"`` for each free hyperparameter."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Settings, for records."""

    def completed(self, priors: Mapping[str, Hyper]) -> Kernel:
        """With hyperparameters that were left open taken from ``priors``."""
        return self

    def guesses(self, prefix: str, noise_std: float) -> dict[str, float]:
        """Modest values to begin a search with, by full name, where noise has the standard deviation ``noise_std``."""
        return {}

    def matrix(self, values: Values, prefix: str, t1: Array, t2: Array) -> Array:
        """Covariance between times ``t1`` (n,) and ``t2`` (m,); shape (n, m)."""
        return self.at_lags(values, prefix, jnp.abs(t1[:, None] - t2[None, :]))

    @property
    def in_linear_time(self) -> bool:
        """Whether the kernel has a form whose cost grows linearly with the number of times."""
        return False

    def quasiseparable(self, values: Values, prefix: str) -> TinyKernel:
        """That form, where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no form in linear time; see in_linear_time.")

    def __add__(self, other: Kernel) -> Kernel:
        return KernelSum(self, other)

    def __mul__(self, other: Kernel) -> Kernel:
        return KernelProduct(self, other)


class Stationary(Kernel):
    """Kernels of |t - t'|: a shape function times a variance."""

    variance: eqx.AbstractVar[Hyper]
    length_scale: eqx.AbstractVar[Hyper]

    @abstractmethod
    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        """Correlation at absolute ``lag``; one at zero."""

    def hyperparameters(self) -> dict[str, Hyper]:
        return {"variance": self.variance, "length_scale": self.length_scale}

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {f"{prefix}.{n}": h for n, h in self.hyperparameters().items() if isinstance(h, dist.Distribution)}

    def completed(self, priors: Mapping[str, Hyper]) -> Kernel:
        left_open = [name for name, hyper in self.hyperparameters().items() if hyper is None]
        return dataclasses.replace(self, **{name: priors[name] for name in left_open})

    def units(self, prefix: str) -> dict[str, str]:
        kinds = {"variance": "variance", "length_scale": "time", "period": "time"}
        return {f"{prefix}.{n}": kinds.get(n, "none") for n in self.hyperparameters()}

    def guesses(self, prefix: str, noise_std: float) -> dict[str, float]:
        return {f"{prefix}.variance": (2.0 * noise_std) ** 2, f"{prefix}.length_scale": 0.5}

    def _values(self, values: Values, prefix: str) -> dict[str, Array]:
        return {
            n: values[f"{prefix}.{n}"] if isinstance(h, dist.Distribution) else jnp.asarray(h)
            for n, h in self.hyperparameters().items()
        }

    def at_lags(self, values: Values, prefix: str, lags: Array) -> Array:
        hyper = self._values(values, prefix)
        return hyper["variance"] * self.shape(hyper, lags)

    def describe(self) -> dict[str, Any]:
        return {"kind": type(self).__name__} | {
            n: None if h is None else describe_hyper(h) for n, h in self.hyperparameters().items()
        }

    def __check_init__(self) -> None:
        for name, hyper in self.hyperparameters().items():
            if hyper is None:
                continue
            if not lowest(hyper) >= 0 or (not isinstance(hyper, dist.Distribution) and not hyper > 0):
                raise ModelError(
                    f"{name} of {type(self).__name__} must be positive, but its prior or value allows other numbers. "
                    "Use a positive number, or a prior such as LogNormal or Gamma."
                )


class SquaredExponential(Stationary):
    """``w exp(-lag^2 / (2 l^2))``; with ``halved=False``, the paper's printed ``w exp(-lag^2 / l^2)``."""

    name: ClassVar[str] = "SquaredExponential"

    variance: Hyper = None
    length_scale: Hyper = None
    halved: bool = eqx.field(static=True, default=True)

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        return jnp.exp(-((lag / hyper["length_scale"]) ** 2) * (0.5 if self.halved else 1.0))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"halved": self.halved}


class _Matern(Stationary):
    """Kernels that have a form in linear time."""

    scalable: ClassVar[type[quasisep.Quasisep]]
    """That form, as tinygp has it."""

    @property
    def in_linear_time(self) -> bool:
        return True

    def quasiseparable(self, values: Values, prefix: str) -> TinyKernel:
        hyper = self._values(values, prefix)
        return self.scalable(scale=hyper["length_scale"], sigma=jnp.sqrt(hyper["variance"]))  # type: ignore[call-arg]


class Matern12(_Matern):
    """Exponential kernel: continuous, nowhere smooth paths."""

    name: ClassVar[str] = "Matern12"
    scalable: ClassVar[type[quasisep.Quasisep]] = quasisep.Exp

    variance: Hyper = None
    length_scale: Hyper = None

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        return jnp.exp(-lag / hyper["length_scale"])


class Matern32(_Matern):
    """Once differentiable paths."""

    name: ClassVar[str] = "Matern32"
    scalable: ClassVar[type[quasisep.Quasisep]] = quasisep.Matern32

    variance: Hyper = None
    length_scale: Hyper = None

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        r = jnp.sqrt(3.0) * lag / hyper["length_scale"]
        return (1.0 + r) * jnp.exp(-r)


class Matern52(_Matern):
    """Twice differentiable paths."""

    name: ClassVar[str] = "Matern52"
    scalable: ClassVar[type[quasisep.Quasisep]] = quasisep.Matern52

    variance: Hyper = None
    length_scale: Hyper = None

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        r = jnp.sqrt(5.0) * lag / hyper["length_scale"]
        return (1.0 + r + r**2 / 3.0) * jnp.exp(-r)


class Periodic(Stationary):
    """``w exp(-2 sin^2(pi lag / p) / l^2)``; ``period`` is in units of the record's length."""

    name: ClassVar[str] = "Periodic"

    variance: Hyper = None
    length_scale: Hyper = PAPER_PRIORS["length_scale"]
    period: Hyper = dist.LogNormal(-1.0, 1.0)

    def hyperparameters(self) -> dict[str, Hyper]:
        return super().hyperparameters() | {"period": self.period}

    def units(self, prefix: str) -> dict[str, str]:
        return super().units(prefix) | {f"{prefix}.length_scale": "none"}

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        return jnp.exp(-2.0 * (jnp.sin(jnp.pi * lag / hyper["period"]) / hyper["length_scale"]) ** 2)


class RationalQuadratic(Stationary):
    """A mixture of squared exponentials over length scales; ``mixture`` is its shape parameter."""

    name: ClassVar[str] = "RationalQuadratic"

    variance: Hyper = None
    length_scale: Hyper = None
    mixture: Hyper = dist.LogNormal(0.0, 1.0)

    def hyperparameters(self) -> dict[str, Hyper]:
        return super().hyperparameters() | {"mixture": self.mixture}

    def shape(self, hyper: dict[str, Array], lag: Array) -> Array:
        alpha = hyper["mixture"]
        return (1.0 + (lag / hyper["length_scale"]) ** 2 / (2.0 * alpha)) ** (-alpha)


class _Pair(Kernel):
    left: Kernel
    right: Kernel

    def _parts(self, prefix: str) -> tuple[tuple[Kernel, str], tuple[Kernel, str]]:
        return (self.left, f"{prefix}.a"), (self.right, f"{prefix}.b")

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {name: prior for k, p in self._parts(prefix) for name, prior in k.priors(p).items()}

    def completed(self, priors: Mapping[str, Hyper]) -> Kernel:
        return type(self)(self.left.completed(priors), self.right.completed(priors))

    def guesses(self, prefix: str, noise_std: float) -> dict[str, float]:
        return {name: guess for k, p in self._parts(prefix) for name, guess in k.guesses(p, noise_std).items()}

    def units(self, prefix: str) -> dict[str, str]:
        return {name: unit for k, p in self._parts(prefix) for name, unit in k.units(p).items()}

    def describe(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "parts": [self.left.describe(), self.right.describe()]}


class KernelSum(_Pair):
    """Sum of two independent processes."""

    @property
    def in_linear_time(self) -> bool:
        return self.left.in_linear_time and self.right.in_linear_time

    def quasiseparable(self, values: Values, prefix: str) -> TinyKernel:
        a, b = (k.quasiseparable(values, p) for k, p in self._parts(prefix))
        return a + b

    def at_lags(self, values: Values, prefix: str, lags: Array) -> Array:
        (a, pa), (b, pb) = self._parts(prefix)
        return a.at_lags(values, pa, lags) + b.at_lags(values, pb, lags)


class KernelProduct(_Pair):
    """Product of two kernels; fix the variance of one of them, or the two cannot be told apart."""

    def units(self, prefix: str) -> dict[str, str]:
        (a, pa), (b, pb) = self._parts(prefix)
        # The left factor carries the unit; the right one is a pure number.
        plain = {name: "none" if unit == "variance" else unit for name, unit in b.units(pb).items()}
        return a.units(pa) | plain

    def at_lags(self, values: Values, prefix: str, lags: Array) -> Array:
        (a, pa), (b, pb) = self._parts(prefix)
        return a.at_lags(values, pa, lags) * b.at_lags(values, pb, lags)


KERNELS: Registry[Kernel] = Registry(
    "kernel", SquaredExponential, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
)
