"""What is measured, where that is not a state itself: a sum of states, a scaled signal, a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named, SharedFunction, traced_digest
from gpnode.model.functions import check_priors, describe_prior, refuse_idle, shapes_of, write_any_prior
from gpnode.model.priors.given import Given


class Observable:
    """A measured variable that is a function of states.

    Parameters
    ----------
    function
        ``function(t, x, p) -> value`` in the user's units, written with ``jax.numpy``. ``x`` holds the states, ``p``
        the parameters of a :class:`KnownForm` and those of all observables, by name.
    priors
        For each parameter that the measurement alone needs, such as a scale or an offset, a numpyro distribution, or
        a number if it is known, or :class:`Given` if each experiment gives it.

    since_last
        What is measured is how much the function has grown since the last measurement, or since the start: new cases
        of a week, where the function counts all cases so far. Forecasts are of what comes over the time that usually
        lies between two measurements.

    Examples
    --------
    >>> glow = gn.Observable(lambda t, x, p: p.gain * (x.x + 0.1), {"gain": gn.LogNormal(0.0, 1.0)})
    >>> model = gn.Model(model.dynamics, initial={"x": 3.0}, observables={"glow": glow})
    """

    def __init__(
        self, function: Callable[..., Any], priors: Mapping[str, Any] | None = None, *, since_last: bool = False
    ) -> None:
        if not callable(function):
            raise ModelError(f"an observable is a function of t, x and p; got {type(function).__name__}.")
        self.function = function
        self.since_last = bool(since_last)
        self.priors = dict(priors or {})
        check_priors(self.priors, also=Given)

    def __repr__(self) -> str:
        unknown = ", ".join(f"{name} ~ {write_any_prior(prior)}" for name, prior in self.priors.items())
        what = f"{getattr(self.function, '__name__', 'function')}{' since the last time' if self.since_last else ''}"
        return f"Observable({what}; {unknown})"

    def bound(self, variable: str, states: tuple[str, ...], parameters: tuple[str, ...]) -> SharedFunction:
        """The function, once it has been run on shapes so that mistakes show before any sampling.

        ``parameters`` are all that it may use.
        """

        def value(t: Any, x: Named, p: Named) -> Any:
            return jnp.asarray(self.function(t, x, p), dtype=float)

        what = f"the observable {variable!r}"
        found, used = shapes_of(what, value, states, parameters, "a number")
        if found.shape != ():
            raise ModelError(f"{what} must be one number; its shape is {found.shape}.")
        refuse_idle(what, self.priors, used)
        return SharedFunction(self.function, self._digest(states, parameters))

    def _digest(self, states: tuple[str, ...], parameters: tuple[str, ...]) -> str:
        def named(t: Named, x: Named, p: Named) -> dict[str, Any]:
            return {"value": jnp.asarray(self.function(t["t"], x, p), dtype=float)}

        return traced_digest(named, ("t",), states, parameters)

    def describe(self, states: tuple[str, ...], parameters: tuple[str, ...]) -> dict[str, Any]:
        """Settings, for records and the fingerprint."""
        return {
            "digest": self._digest(states, parameters),
            "priors": {name: describe_prior(prior) for name, prior in self.priors.items()},
            **({"since_last": True} if self.since_last else {}),
        }
