"""Noise whose standard deviation is a formula: of the prediction, of parameters, of numbers beside each measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest
from gpnode.model.functions import check_priors, describe_prior, refuse_idle, shapes_of, write_any_prior
from gpnode.model.observation.noise import NoiseModel
from gpnode.model.priors.parameters import Values

SHAPES = ("normal", "laplace")
_PREDICTED = "y"


class FormulaNoise(NoiseModel):
    """Noise whose standard deviation is a function.

    Parameters
    ----------
    std
        ``std(t, x, p, y) -> value`` in the user's units, written with ``jax.numpy``. ``x`` holds the states, ``y`` is
        what is predicted, and ``p`` holds ``priors``, all parameters of the model, and numbers that come with each
        measurement (see :class:`Observations`). On the log scale it is the standard deviation of the logarithm.
    priors
        For each parameter that noise alone needs, a numpyro distribution, or a number if it is known. The same name in
        the noise of two variables is the same parameter.
    shape
        "normal" or "laplace".

    Examples
    --------
    >>> noisy = gn.FormulaNoise(lambda t, x, p, y: p.floor + 0.1 * y, {"floor": gn.HalfNormal(0.1)})
    >>> error_bars = gn.FormulaNoise(lambda t, x, p, y: p.sd)
    >>> data = gn.Observations({"x": ([0.0, 1.0, 2.0], [1.0, 0.6, 0.3], {"sd": [0.1, 0.1, 0.05]})})
    """

    name: ClassVar[str] = "formula"

    function: Callable[..., Any] = eqx.field(static=True)
    own: dict[str, Any]
    shape: str = eqx.field(static=True)

    def __init__(
        self, std: Callable[..., Any], priors: Mapping[str, Any] | None = None, *, shape: str = "normal"
    ) -> None:
        if not callable(std):
            raise ModelError(f"the formula of the noise is a function of t, x, p and y; got {type(std).__name__}.")
        if shape not in SHAPES:
            raise ModelError(f"the shape of the noise must be {' or '.join(SHAPES)}; got {shape!r:.80}.")
        self.function, self.own, self.shape = std, dict(priors or {}), shape
        check_priors(self.own)

    def __repr__(self) -> str:
        unknown = ", ".join(f"{name} ~ {write_any_prior(prior)}" for name, prior in self.own.items())
        return f"FormulaNoise({getattr(self.function, '__name__', 'function')}; {unknown})"

    @property
    def is_normal(self) -> bool:  # type: ignore[override]
        return self.shape == "normal"

    def priors(self, prefix: str) -> dict[str, dist.Distribution]:
        return {name: prior for name, prior in self.own.items() if isinstance(prior, dist.Distribution)}

    def scaled_var(self, values: Values, prefix: str, unit: Array, level: Array) -> Array:
        raise NotImplementedError("the formula of a noise needs more than a level: see BoundFormula.std.")

    def report(self, values: Values, prefix: str, unit: Array) -> Values:
        return {name: values[name] for name in self.priors(prefix)}

    def report_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(self.priors(prefix))

    def describe(self) -> dict[str, Any]:
        priors = {name: describe_prior(prior) for name, prior in self.own.items()}
        return {"kind": self.name, "shape": self.shape, "priors": priors}

    def bound(self, variable: str, states: Iterable[str], parameters: Iterable[str]) -> BoundFormula:
        """The noise of a variable, once its function has been run on shapes; it may use ``parameters`` and its own."""
        states = tuple(states)
        names = tuple(dict.fromkeys((*parameters, *self.own)))
        what = f"the formula of the noise of {variable!r}"

        def value(t: Any, x: Named, p: Named) -> Any:
            return jnp.asarray(self.function(t, x, p, jnp.ones(())), dtype=float)

        found, used = shapes_of(what, value, states, names, "a number")
        if found.shape != ():
            raise ModelError(f"{what} must be one number; its shape is {found.shape}.")
        refuse_idle(what, self.own, used)

        def flat(x: Named, p: Named, rest: Named) -> dict[str, Any]:
            return {"std": jnp.asarray(self.function(rest["t"], x, p, rest[_PREDICTED]), dtype=float)}

        digest = traced_digest(flat, states, names, ("t", _PREDICTED))
        fixed = {name: float(prior) for name, prior in self.own.items() if isinstance(prior, Real)}
        return BoundFormula(
            self.function,
            self.own,
            shape=self.shape,
            std_of=SharedFunction(self.function, digest),
            states=states,
            fixed=fixed,
            used=frozenset(used),
            sees_path=_sees(self.function, states, names),
        )


def _sees(function: Callable[..., Any], states: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether the function depends on states or on the prediction."""

    def of_path(x: dict[str, Any], y: Any, t: Any, p: dict[str, Any]) -> Any:
        return jnp.asarray(function(t, Named(x), Named(p), y), dtype=float)

    traced = jax.make_jaxpr(of_path)(dict.fromkeys(states, 1.0), 1.0, 1.0, dict.fromkeys(names, 1.0)).jaxpr
    path = set(map(id, traced.invars[: len(states) + 1]))
    read = [v for step in traced.eqns for v in step.invars] + list(traced.outvars)
    return any(id(variable) in path for variable in read)


class BoundFormula(FormulaNoise):
    """The noise of one variable: ``used`` are the parameters its formula uses, ``fixed`` the known ones among its own.

    ``sees_path`` tells whether it depends on states or on what is predicted.
    """

    std_of: SharedFunction = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    fixed: dict[str, float]
    used: frozenset[str] = eqx.field(static=True)
    sees_path: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[..., Any],
        own: Mapping[str, Any],
        *,
        shape: str,
        std_of: SharedFunction,
        states: tuple[str, ...],
        fixed: dict[str, float],
        used: frozenset[str],
        sees_path: bool,
    ) -> None:
        super().__init__(std_of, own, shape=shape)  # which, unlike the function, equals any other that does the same
        self.std_of, self.states, self.fixed, self.used, self.sees_path = std_of, states, fixed, used, sees_path

    def std(self, t: Array, x: Array, p: Values, y: Array) -> Array:
        """Standard deviation in the user's units, at a time, states (states,) and a prediction in them."""
        named = Named({name: x[i] for i, name in enumerate(self.states)})
        return jnp.asarray(self.std_of(t, named, Named({**p, **self.fixed}), y), dtype=float)

    def log_density(self, residual: Array, std: Array) -> Array:
        """Log densities (n,) of residuals (n,)."""
        if self.is_normal:
            return dist.Normal(0.0, std).log_prob(residual)
        return dist.Laplace(0.0, std / jnp.sqrt(2.0)).log_prob(residual)

    def below(self, residual: Array, std: Array) -> Array:
        """Probability (n,) of less than what was measured."""
        if self.is_normal:
            return jax.scipy.special.ndtr(residual / std)
        tail = 0.5 * jnp.exp(-jnp.sqrt(2.0) * jnp.abs(residual) / std)
        return jnp.where(residual > 0, 1.0 - tail, tail)

    def draw(self, key: Array, std: Array) -> Array:
        """Errors (n,)."""
        if self.is_normal:
            return std * jax.random.normal(key, std.shape)
        return std / jnp.sqrt(2.0) * jax.random.laplace(key, std.shape)
