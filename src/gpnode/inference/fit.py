"""One call from a model and measurements to a posterior."""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from ..binding import bind, fingerprint
from ..convergence import pareto_k
from ..data import Observations
from ..likelihood import RELATIVE_JITTER
from ..model import Model
from ..posterior import Posterior, spread_out
from ..problem import Problem, log_densities, report_draws
from ..solvers import Status
from ..storage import FORMAT
from .chains import Sampler, run_chains, start_chains
from .gibbs import Lifted
from .nuts import NUTS
from .progress import Display
from .start import Start, disperse, find_start

_HARMLESS = 0.02  # nats
_ACCURACY_DRAWS = 100
_LONGEST_LIFTED = 1000  # measurements in a block


@dataclass(frozen=True)
class Laplace:
    """Highest posterior density and a normal approximation around it: seconds instead of minutes."""

    draws: int = 2000

    def __post_init__(self) -> None:
        if self.draws < 50:
            raise ValueError(f"draws must be at least 50; got {self.draws}.")


def fit(
    model: Model,
    data: Observations,
    *,
    method: Lifted | NUTS | Laplace | None = None,
    seed: int = 0,
    progress: bool = True,
    executor: Executor | None = None,
) -> Posterior:
    """Infer the model's unknowns from the data, from cold.

    Parameters
    ----------
    model, data
        What is known, and what was measured.
    method
        ``Lifted()`` samples the posterior on the surface the data pin down, and is the default for up
        to 1000 measurements in a series; ``NUTS()`` is the usual sampler, and the default beyond;
        ``Laplace()`` approximates quickly.
    seed
        Same seed, same numbers.
    progress
        Show stages, draws, time left, divergences and the worst R-hat on standard error.
    executor
        Where chunks of chains run; any ``concurrent.futures.Executor``.

    Notes
    -----
    Ctrl-C after the warm-up returns the draws so far, marked as interrupted.
    """
    if not isinstance(method, Lifted | NUTS | Laplace | None):
        raise TypeError(f"method must be gpnode.Lifted(...), gpnode.NUTS(...) or gpnode.Laplace(...); got {method!r}.")
    begun = time.perf_counter()
    identity = {"fingerprint": fingerprint(model, data), "model": model.describe()}
    start_key, spread_key, chain_key = jax.random.split(jax.random.key(seed), 3)
    with Display(progress) as display:
        display.say("reading the data")
        problem = bind(model, data)
        method = _default_method(problem) if method is None else method
        start = find_start(problem, start_key, display.say)
        if isinstance(method, Laplace):
            unconstrained, stats, details = _laplace(start, method, chain_key, display)
        else:
            unconstrained, stats, details = _sample(start, method, spread_key, chain_key, display, executor)
        display.say("checking the solver's accuracy")
        accuracy = _accuracy(start.problem, unconstrained)
    record = {
        "format": FORMAT,
        "method": type(method).__name__.lower(),
        "settings": dataclasses.asdict(method),
        "seed": seed,
        **identity,
        "start_times": dict(data.start),
        "time_unit": data.time_unit,
        "relative_jitter": RELATIVE_JITTER,
        "start": _describe_start(start),
        "accuracy": accuracy,
        "constants": {n: np.asarray(m).tolist() for n, m in start.problem.dynamics.constants().items()},
        "seconds": time.perf_counter() - begun,
        "versions": _versions(),
        **details,
    }
    # Through JSON and back, so that a fresh posterior and a loaded one hold equal records.
    return Posterior(
        draws=_dataset(start.problem, unconstrained),
        stats=stats,
        unconstrained=unconstrained,
        data=data,
        record=_jsonable(record),
        model=model,
        problem=start.problem,
    )


def _default_method(problem: Problem) -> Lifted | NUTS:
    """The lifted sampler, unless a block of data is too long for the dense whitening it needs."""
    return Lifted() if max(b.y.size for b in problem.measured) <= _LONGEST_LIFTED else NUTS()


def _sample(
    start: Start, settings: Sampler, spread_key: Array, chain_key: Array, display: Display, executor: Executor | None
) -> tuple[np.ndarray, xr.Dataset, dict[str, Any]]:
    display.say("compiling the sampler")
    frames, points = disperse(start, settings.chains, spread_key)
    chains = start_chains(start.problem, frames, points, chain_key, settings)
    complete = run_chains(start.problem, chains, settings, lambda c: display.chains(c, settings), executor)
    count = min(chain.num_kept for chain in chains)
    if count == 0:
        raise KeyboardInterrupt
    kept = [chain.transitions(count) for chain in chains]
    names = [n for n in kept[0]._fields if n != "draw"]
    stats = xr.Dataset({n: (("chain", "draw"), np.stack([getattr(k, n) for k in kept])) for n in names})
    details = {
        "solver_failures": _count_failures(stats["failure"].to_numpy()),
        "warmup_failures": _count_failures(np.concatenate([f for c in chains for f in c.warmup_failures])),
        "interrupted": not complete,
    }
    return np.stack([k.draw for k in kept]), stats, details


def _laplace(
    start: Start, settings: Laplace, key: Array, display: Display
) -> tuple[np.ndarray, xr.Dataset, dict[str, Any]]:
    """Draws from the normal approximation at the best mode, and how well it fits the density."""
    display.say("drawing from the approximation")
    mode = start.modes[0]
    z = np.asarray(jax.random.normal(key, (settings.draws, mode.centre.size)))
    draws = mode.centre + z @ mode.spread.T
    values, status = (np.asarray(a) for a in log_densities(start.problem, jnp.asarray(draws)))
    log_weights = values + 0.5 * (z**2).sum(axis=1)
    sound = np.isfinite(log_weights)
    # Where more than a few draws cannot even be solved, the approximation reaches beyond the posterior.
    k = pareto_k(log_weights[sound]) if sound.mean() > 0.99 else np.inf
    stats = xr.Dataset({"log_density": (("chain", "draw"), values[None]), "failure": (("chain", "draw"), status[None])})
    details = {
        "solver_failures": _count_failures(status),
        "laplace": {"pareto_k": k, "log_evidence": mode.log_evidence, "map": _map_values(start.problem, mode.centre)},
    }
    return draws[None], stats, details


def _map_values(problem: Problem, centre: np.ndarray) -> dict[str, Any]:
    """Parameters in user units at the mode of the unconstrained density."""
    found = report_draws(problem, jnp.asarray(centre)[None, None])
    return {name: np.asarray(value[0, 0]).tolist() for name, value in found.items()}


def _accuracy(problem: Problem, unconstrained: np.ndarray) -> dict[str, Any] | None:
    """Compare log densities with those of a tight adaptive solve, on draws spread over the run."""
    if not problem.solver.follows_grid:
        return None
    chosen = jnp.asarray(spread_out(unconstrained, _ACCURACY_DRAWS))
    used, exact = (np.asarray(log_densities(p, chosen)[0]) for p in (problem, problem.tightly_solved()))
    sound = np.isfinite(used)
    difference = np.where(sound, exact, 0.0) - np.where(sound, used, 0.0)
    largest = float(np.abs(difference).max())
    # Weights that differ by so little cannot bias anything, whatever the shape of their tail.
    k = -np.inf if largest < _HARMLESS else pareto_k(difference)
    return {"largest_error": largest, "pareto_k": k, "draws": len(chosen)}


def _dataset(problem: Problem, unconstrained: np.ndarray) -> xr.Dataset:
    values = report_draws(problem, jnp.asarray(unconstrained))
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, dims in problem.dims().items():
        variables[name] = (("chain", "draw", *dims), np.asarray(values[name]))
        coords |= {dim: list(labels) for dim, labels in dims.items()}
    chains, draws = unconstrained.shape[:2]
    return xr.Dataset(variables, coords={"chain": np.arange(chains), "draw": np.arange(draws), **coords})


def _count_failures(status: np.ndarray) -> dict[str, int]:
    return {s.name.lower().replace("_", " "): int((status == s).sum()) for s in Status if s != Status.OK}


def _describe_start(start: Start) -> dict[str, Any]:
    return {
        "failed_solves": start.search.failed_solves,
        "candidates": [{"misfit": c.misfit, "origin": c.origin} for c in start.search.candidates],
        "modes": [{"log_density": m.log_density, "log_evidence": m.log_evidence} for m in start.modes],
        "steps": int(start.problem.nodes.shape[1] - 1),
        "time_unit": float(start.problem.scaling.time_unit),
    }


def _versions() -> dict[str, str]:
    names = ("gpnode", "jax", "numpyro", "diffrax", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def _jsonable(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(record, default=float))
