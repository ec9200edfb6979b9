"""Equations the user writes down, with unknown parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.errors import ModelError
from gpnode.model.dynamics.base import BoundDynamics, Dynamics, Named, SharedFunction, traced_digest
from gpnode.model.dynamics.writing import RightSide
from gpnode.model.functions import check_priors, describe_prior, refuse_idle, shapes_of, write_any_prior
from gpnode.model.priors.given import Given
from gpnode.model.priors.parameters import Block, Independent, Values
from gpnode.model.priors.population import Each, Population


class KnownForm(Dynamics):
    """A vector field of known form.

    Parameters
    ----------
    states
        Names of the states whose equations ``f`` gives.
    f
        ``f(t, x, p) -> {state: slope}`` in the user's units, written with ``jax.numpy``.
        ``x`` holds the states and ``p`` the parameters, by name: ``p.alpha * x.prey``.
    priors
        For each parameter a numpyro distribution, or a number if it is known, or a :class:`Population` or
        :class:`Each` if it differs between experiments, or :class:`Given` if each experiment gives it.

    delays
        Which of the parameters are times by which doses come later: ``Dose("gut", 320.0, delay="lag")``. Equations need
        not use them.

    Examples
    --------
    >>> decay = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    """

    states: tuple[str, ...] = eqx.field(static=True)
    f: Callable[..., Mapping[str, Any]] = eqx.field(static=True)
    priors: dict[str, Any]
    delays: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        states: Sequence[str],
        f: Callable[..., Mapping[str, Any]],
        priors: Mapping[str, Any],
        delays: Sequence[str] = (),
    ) -> None:
        self.states = tuple(states)
        self.f = f
        self.priors = dict(priors)
        self.delays = tuple(delays)
        check_priors(self.priors, also=Population | Each | Given)
        for name in self.delays:
            if name not in self.priors:
                raise ModelError(f"the delay {name!r} has no prior. Give one, such as LogNormal(0.0, 1.0).")

    def __repr__(self) -> str:
        unknown = ", ".join(f"{name} ~ {write_any_prior(prior)}" for name, prior in self.priors.items())
        return f"KnownForm({', '.join(self.states)}; {unknown})"

    def bind(self, states: tuple[str, ...], scaling: Scaling, num_observations: int, prefix: str) -> BoundKnownForm:
        self._check(states)
        free = {prefix + n: p for n, p in self.priors.items() if isinstance(p, dist.Distribution)}
        fixed = {n: float(p) for n, p in self.priors.items() if isinstance(p, Real)}
        f = SharedFunction(self.f, self._digest(states))
        individual, given = tuple(self.populations(prefix)), tuple(self.given(prefix))
        return BoundKnownForm(Independent(free), fixed, scaling, f, states, self.states, prefix, individual, given)

    def populations(self, prefix: str) -> dict[str, Population | Each]:
        return {prefix + n: p for n, p in self.priors.items() if isinstance(p, Population | Each)}

    def given(self, prefix: str) -> dict[str, str]:
        return {prefix + n: n for n, p in self.priors.items() if isinstance(p, Given)}

    def late(self, prefix: str) -> dict[str, str]:
        return {prefix + name: name for name in self.delays}

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(self.priors)

    def _digest(self, states: tuple[str, ...]) -> str:
        return traced_digest(lambda t, x, p: self.f(t["t"], x, p), ("t",), states, self.priors)

    def slopes(self, t: Any, states: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The user's function at states and parameters given by name."""
        return dict(self.f(t, Named(states), Named(parameters)))

    def describe(self, states: tuple[str, ...]) -> dict[str, Any]:
        return {
            "kind": "known-form",
            "states": list(self.states),
            "function": getattr(self.f, "__name__", type(self.f).__name__),
            "digest": self._digest(states),
            "priors": {name: describe_prior(prior) for name, prior in self.priors.items()},
            **({"delays": list(self.delays)} if self.delays else {}),
        }

    def _check(self, states: tuple[str, ...]) -> None:
        def slopes_of(t: Any, x: Named, p: Named) -> dict[str, Any]:
            return dict(self.f(t, x, p))

        slopes, used = shapes_of("the vector field", slopes_of, states, self.priors, "{state: slope}")
        if set(slopes) != set(self.states):
            raise ModelError(
                f"the vector field must return slopes for {', '.join(self.states)}; "
                f"it returns {', '.join(slopes) or 'none'}."
            )
        for state, slope in slopes.items():
            if slope.shape != ():
                raise ModelError(f"the slope of {state!r} must be one number; its shape is {slope.shape}.")
        refuse_idle("the vector field", self.priors, used | set(self.delays))


class BoundKnownForm(BoundDynamics):
    """The user's function on scaled states: ``block`` holds unknown parameters, ``fixed`` known ones.

    ``individual`` names those that differ between experiments; they are in blocks of their own. ``given`` are those
    that are known at every time of an experiment; they come with the other values.
    """

    block: Independent
    fixed: dict[str, float]
    scaling: Scaling
    f: SharedFunction = eqx.field(static=True)
    all_states: tuple[str, ...] = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    prefix: str = eqx.field(static=True)
    individual: tuple[str, ...] = eqx.field(static=True, default=())
    given: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.block,)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*self.block.names, *self.individual)

    def vector_field(self, t: Array, x: Array, values: Values) -> Array:
        scale = self.scaling.state_scale
        named = Named({s: x[i] * scale[i] for i, s in enumerate(self.all_states)})
        slopes = self.f(self.scaling.user_time(t), named, Named(self.numbers(values)))
        rate = self.scaling.time_unit / scale
        zero = jnp.zeros(())
        return jnp.stack([slopes[s] * rate[i] if s in self.states else zero for i, s in enumerate(self.all_states)])

    def numbers(self, values: Values) -> Values:
        fixed = {name: jnp.asarray(value) for name, value in self.fixed.items()}
        names = (*self.parameter_names, *self.given)
        return {name.removeprefix(self.prefix): values[name] for name in names} | fixed

    def with_computed(self, names: frozenset[str]) -> BoundKnownForm:
        individual = (*self.individual, *(name for name in self.given if name in names))
        given = tuple(name for name in self.given if name not in names)
        return dataclasses.replace(self, individual=individual, given=given)

    def right_sides(self) -> dict[str, RightSide]:
        """The user's function as formulas; a bare symbol ``f_state`` where it cannot be written as one."""
        import sympy

        from gpnode.tracing.formulas import number, write_formulas
        from gpnode.tracing.interpreter import Unsupported

        full = (*self.parameter_names, *self.given)
        names = [name.removeprefix(self.prefix) for name in full]
        symbols = [sympy.Symbol(n) for n in ("t", *self.all_states, *full)]
        count = len(self.all_states)

        def slopes(t: Any, *values: Any) -> list[Any]:
            states = Named(dict(zip(self.all_states, values[:count], strict=True)))
            parameters = dict(zip((*names, *self.fixed), values[count:], strict=True))
            by_state = self.f(t, states, Named(parameters))
            return [jnp.asarray(by_state[s], dtype=float) for s in self.states]

        try:
            expressions = write_formulas(slopes, [*symbols, *map(number, self.fixed.values())])
        except Unsupported:
            expressions = [sympy.Symbol(f"f_{s}") for s in self.states]
        return {state: RightSide(e) for state, e in zip(self.states, expressions, strict=True)}

    @property
    def estimates(self) -> tuple[str, ...]:
        return self.block.names

    def report(self, values: Values) -> Values:
        return {name: values[name] for name in self.block.names}

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {name: {} for name in self.block.names}
