"""What is measured, where that is not a state itself: a sum of states, a scaled signal, a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest
from gpnode.model.priors.distributions import describe_hyper, say_how_to_write, write_prior


class Observable:
    """A measured variable that is a function of states.

    Parameters
    ----------
    function
        ``function(t, x, p) -> value`` in the user's units, written with ``jax.numpy``. ``x`` holds the states, ``p``
        the parameters of a :class:`KnownForm` and those of all observables, by name.
    priors
        For each parameter that the measurement alone needs, such as a scale or an offset, a numpyro distribution, or
        a number if it is known.

    >>> glow = gn.Observable(lambda t, x, p: p.gain * (x.x + 0.1), {"gain": gn.LogNormal(0.0, 1.0)})
    >>> model = gn.Model(model.dynamics, initial={"x": 3.0}, observables={"glow": glow})
    """

    def __init__(self, function: Callable[..., Any], priors: Mapping[str, Any] | None = None) -> None:
        if not callable(function):
            raise ModelError(f"an observable is a function of t, x and p; got {type(function).__name__}.")
        self.function = function
        self.priors = dict(priors or {})
        for name, prior in self.priors.items():
            if isinstance(prior, dist.Distribution):
                if prior.batch_shape or prior.event_shape:
                    raise ModelError(f"the prior of {name!r} must be for one number; give one prior per parameter.")
            elif not isinstance(prior, Real):
                raise ModelError(
                    f"the prior of {name!r} must be a numpyro distribution or a number; got {type(prior).__name__}."
                    f"{say_how_to_write(prior)}"
                )

    def __repr__(self) -> str:
        unknown = ", ".join(f"{name} ~ {write_prior(prior)}" for name, prior in self.priors.items())
        return f"Observable({getattr(self.function, '__name__', 'function')}; {unknown})"

    def bound(self, variable: str, states: tuple[str, ...], parameters: tuple[str, ...]) -> SharedFunction:
        """The function, once it has been run on shapes so that mistakes show before any sampling.

        ``parameters`` are all that it may use.
        """
        number = jax.ShapeDtypeStruct((), jnp.result_type(float))
        used: set[str] = set()

        def value(t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> Any:
            return jnp.asarray(self.function(t, Named(x), Named(p, used)), dtype=float)

        known = dict.fromkeys(parameters, number)
        try:
            shape = jax.eval_shape(value, number, dict.fromkeys(states, number), known).shape
        except (KeyError, AttributeError) as error:
            text = error.args[0] if error.args else str(error)
            raise ModelError(
                f"the observable {variable!r} uses an unknown name: {text}. Give it a prior, or correct it."
            ) from error
        except Exception as error:  # whatever the user's own code raises
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(
                f"the observable {variable!r} cannot be traced: {first} It must return a number and use jax.numpy, "
                "with jnp.where in place of if."
            ) from error
        if shape != ():
            raise ModelError(f"the observable {variable!r} must be one number; its shape is {shape}.")
        idle = [name for name in self.priors if name not in used]
        if idle:
            raise ModelError(
                f"the observable {variable!r} never uses {idle[0]!r}. Remove its prior, or correct a name."
            )
        return SharedFunction(self.function, self._digest(states, parameters))

    def _digest(self, states: tuple[str, ...], parameters: tuple[str, ...]) -> str:
        def named(t: Named, x: Named, p: Named) -> dict[str, Any]:
            return {"value": jnp.asarray(self.function(t["t"], x, p), dtype=float)}

        return traced_digest(named, ("t",), states, parameters)

    def describe(self, states: tuple[str, ...], parameters: tuple[str, ...]) -> dict[str, Any]:
        """Settings, for records and the fingerprint."""
        return {
            "digest": self._digest(states, parameters),
            "priors": {name: describe_hyper(prior) for name, prior in self.priors.items()},
        }
