"""Evaluating a problem from outside compiled code: at one point, at many, and what draws mean in the user's units."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from gpnode._config import compiled, compiled_for_few_calls
from gpnode.problem.density import Problem

_BATCH = 10  # points
P = ParamSpec("P")
T = TypeVar("T")


def compiled_for_search(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator for what a search calls some hundred times, with a problem, or something that has one, in front.

    Where native code does the work, a call takes a fraction of a millisecond however it was compiled, and the quickest
    way to compile it is the best. Loops over long series, or over steps of a solver in array code, must be optimised.
    """
    return _by_need(function, compiled_for_few_calls(function))


def compiled_for_sampling(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator for what a sampler calls ten thousands of times, with a problem in front.

    Where native code does the work, a little optimising makes the rest as quick as all of it would, in less time.
    """
    little = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": True}
    return _by_need(function, compiled(function, xla_cpu_use_fusion_emitters=False, **little))


def _by_need(function: Callable[P, T], quickly_made: Callable[P, T]) -> Callable[P, T]:
    """What was ``quickly_made`` where native code does the work, else the function with all optimising."""
    optimised = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        problem: Any = getattr(args[0], "problem", args[0])
        return (quickly_made if problem.mostly_native else optimised)(*args, **kwargs)

    return call


def log_density(problem: Problem, unconstrained: ArrayLike) -> tuple[float, int]:
    """Log density and status at one point (size,)."""
    values, statuses = log_densities(problem, np.asarray(unconstrained)[None])
    return float(values[0]), int(statuses[0])


def log_densities(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density and status at points (n, size), in batches of one size: compiled once for any number."""
    batches = []
    for first in range(0, len(points), _BATCH):
        batch = points[first : first + _BATCH]
        padded = np.concatenate([batch, np.repeat(batch[-1:], _BATCH - len(batch), axis=0)])
        results = _log_densities(problem, jnp.asarray(padded), jnp.asarray(len(batch)))
        batches.append([np.asarray(part)[: len(batch)] for part in results])
    values, statuses = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return values, statuses


@compiled_for_search
def _log_densities(problem: Problem, points: Array, count: Array) -> tuple[Array, Array]:
    """At the first ``count`` points; zeros at the others."""

    def one(i: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        value, status = problem.log_density(points[i])
        return so_far[0].at[i].set(value), so_far[1].at[i].set(status)

    return jax.lax.fori_loop(0, count, one, (jnp.zeros(len(points)), jnp.zeros(len(points), int)))


@compiled_for_search
def value_and_grad(problem: Problem, unconstrained: Array) -> tuple[Array, Array, Array]:
    """Compiled :meth:`Problem.value_and_grad`."""
    return problem.value_and_grad(unconstrained)


@compiled_for_few_calls
def report_draws(problem: Problem, draws: Array) -> Any:
    """Parameters in user units for draws (chains, draws, size)."""
    return jax.vmap(jax.vmap(problem.report))(draws)
