"""Functions that users write, of time, states and parameters: run once on shapes, so that mistakes show at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from gpnode.errors import ModelError
from gpnode.model.dynamics.base import Named
from gpnode.model.priors.distributions import describe_hyper, say_how_to_write, write_prior


def check_priors(priors: Mapping[str, Any], also: Any = Real) -> None:
    """Refuse what is neither a distribution of one number, nor a number, nor of the kind that is ``also`` allowed."""
    for name, prior in priors.items():
        if isinstance(prior, dist.Distribution):
            if prior.batch_shape or prior.event_shape:
                raise ModelError(f"the prior of {name!r} must be for one number; give one prior per parameter.")
        elif not isinstance(prior, Real | also):
            raise ModelError(
                f"the prior of {name!r} must be a numpyro distribution or a number; got {type(prior).__name__}."
                f"{say_how_to_write(prior)}"
            )


def write_any_prior(prior: Any) -> str:
    """What was given for a parameter, as one would write it."""
    return write_prior(prior) if isinstance(prior, dist.Distribution | Real) else repr(prior)


def describe_prior(prior: Any) -> Any:
    """What was given for a parameter, for records and the fingerprint."""
    return describe_hyper(prior) if isinstance(prior, dist.Distribution | Real) else prior.describe()


def shapes_of(
    what: str,
    function: Callable[..., Any],
    states: Iterable[str],
    parameters: Iterable[str],
    returns: str,
) -> tuple[Any, set[str]]:
    """Shapes of what ``function(t, x, p)`` returns, and the parameters it used; refused if it cannot be run.

    ``what`` it is and what it ``returns`` are for the message.
    """
    number = jax.ShapeDtypeStruct((), jnp.result_type(float))
    used: set[str] = set()

    def run(t: Any, x: Mapping[str, Any], p: Mapping[str, Any]) -> Any:
        return function(t, Named(x), Named(p, used))

    try:
        shapes = jax.eval_shape(run, number, dict.fromkeys(states, number), dict.fromkeys(parameters, number))
    except (KeyError, AttributeError) as error:
        text = error.args[0] if error.args else str(error)
        raise ModelError(f"{what} uses an unknown name: {text}. Give it a prior, or correct it.") from error
    except Exception as error:  # whatever the user's own code raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{what} cannot be traced: {first} It must return {returns} and use jax.numpy, "
            "with jnp.where in place of if."
        ) from error
    return shapes, used


def refuse_idle(what: str, priors: Iterable[str], used: set[str]) -> None:
    """Refuse priors of parameters that a function never uses: the last mistake to name, for others cause it."""
    idle = [name for name in priors if name not in used]
    if idle:
        raise ModelError(f"{what} never uses {', '.join(map(repr, idle))}. Remove the prior, or correct a name.")
