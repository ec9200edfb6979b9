"""From what a sampler left behind to a posterior with its record."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from gpnode import __version__
from gpnode.data.observations import Observations
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.starting.ladder import ACCURACY_DRAWS, Start, solver_errors
from gpnode.inference.stopping.agreement import thin_to_equal_length
from gpnode.inference.stopping.statistics import e_bfmi, pareto_k
from gpnode.model.model import Model
from gpnode.problem.binding import fingerprint
from gpnode.problem.covariance import RELATIVE_JITTER
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities, report_draws
from gpnode.results.posterior import Posterior, pick_evenly
from gpnode.results.storage import FORMAT
from gpnode.solvers import Status

Method = Lifted | NUTS | Laplace
_METHODS: dict[str, type[Method]] = {"lifted": Lifted, "nuts": NUTS, "laplace": Laplace}


def describe_method(method: Method, without_draws: bool = False) -> tuple[str, dict[str, Any]]:
    """Name and settings of a method, in a form JSON can hold."""
    settings = dataclasses.asdict(method)
    if without_draws:
        del settings["draws"]
    return type(method).__name__.lower(), settings


def read_method(name: str, settings: Mapping[str, Any]) -> Method:
    """The method that :func:`describe_method` described."""
    return _METHODS[name](**settings)


@dataclass(frozen=True)
class Sampled:
    """Draws (chain, draw, size) in unconstrained coordinates, statistics of each, and what else is to be recorded."""

    unconstrained: np.ndarray
    stats: xr.Dataset
    details: dict[str, Any]


def from_chains(rows: list[np.ndarray], made: list[int], warmup_failures: np.ndarray, interrupted: bool) -> Sampled:
    """What chains left behind: ``rows`` of each, of which equally many are kept, how many it ``made`` before any
    were left out, and counts of the warm-up's steps by status.
    """
    kept = thin_to_equal_length(rows)
    names = [n for n in kept[0].dtype.names or () if n != "draw"]
    stats = xr.Dataset({n: (("chain", "draw"), np.stack([r[n] for r in kept])) for n in names})
    details: dict[str, Any] = {
        "solver_failures": _count_failures(np.concatenate([r["failure"] for r in rows])),
        "warmup_failures": _named_failures(warmup_failures),
        "draws_made": made,
        "interrupted": interrupted,
    }
    if "energy" in names:  # compares successive draws, and so must see all of them
        details["e_bfmi"] = min(e_bfmi(r["energy"][None]) for r in rows)
    return Sampled(np.stack([r["draw"] for r in kept]), stats, details)


def from_laplace(start: Start, settings: Laplace, key: Array) -> Sampled:
    """Draws from the normal approximation at the best mode, and how well it fits the density."""
    mode = start.modes[0]
    z = np.asarray(jax.random.normal(key, (settings.draws, mode.centre.size)))
    draws = mode.centre + z @ mode.scale_tril.T
    values, status = log_densities(start.problem, draws)
    log_weights = values + 0.5 * (z**2).sum(axis=1)
    sound = np.isfinite(log_weights)
    # Where more than a few draws cannot even be solved, the approximation reaches beyond the posterior.
    k = pareto_k(log_weights[sound]) if sound.mean() > 0.99 else np.inf
    stats = xr.Dataset({"log_density": (("chain", "draw"), values[None]), "failure": (("chain", "draw"), status[None])})
    details = {
        "solver_failures": _count_failures(status),
        "laplace": {"pareto_k": k, "log_evidence": mode.log_evidence, "map": _map_values(start.problem, mode.centre)},
    }
    return Sampled(draws[None], stats, details)


def assemble(
    model: Model, data: Observations, method: Method, seed: int, start: Start, sampled: Sampled, seconds: float
) -> Posterior:
    """The posterior, with the record of how it came about. Compares some draws with a tight solve."""
    name, settings = describe_method(method)
    record = {
        "format": FORMAT,
        "method": name,
        "settings": settings,
        "seed": seed,
        "fingerprint": fingerprint(model, data),
        "model": model.describe(),
        "start_times": dict(data.start),
        "time_unit": data.time_unit,
        "relative_jitter": RELATIVE_JITTER,
        "start": _describe_start(start),
        "accuracy": _accuracy(start.problem, sampled.unconstrained),
        "constants": {n: np.asarray(m).tolist() for n, m in start.problem.dynamics.constants().items()},
        "seconds": seconds,
        "versions": versions(),
        **sampled.details,
    }
    # Through JSON and back, so that a fresh posterior and a loaded one hold equal records.
    return Posterior(
        draws=_dataset(start.problem, sampled.unconstrained),
        stats=sampled.stats,
        unconstrained=sampled.unconstrained,
        data=data,
        record=json.loads(json.dumps(record, default=float)),
        model=model,
        problem=start.problem,
    )


def _map_values(problem: Problem, centre: np.ndarray) -> dict[str, Any]:
    """Parameters in user units at the mode of the unconstrained density."""
    found = report_draws(problem, jnp.asarray(centre)[None, None])
    return {name: np.asarray(value[0, 0]).tolist() for name, value in found.items()}


def _accuracy(problem: Problem, unconstrained: np.ndarray) -> dict[str, Any] | None:
    """Compare log densities with those of a tight adaptive solve, on draws spread over the run."""
    if not problem.solver.follows_grid:
        return None
    chosen = pick_evenly(unconstrained, ACCURACY_DRAWS)
    difference = solver_errors(problem, chosen)
    # Draws weighed by these would be draws of the exact posterior. By the Cauchy-Schwarz inequality, means of the two
    # differ by at most this many standard deviations, whatever they are means of.
    weights = np.exp(difference - difference.max())
    shift = float(weights.std() / weights.mean())
    return {"largest_error": float(np.abs(difference).max()), "largest_shift": shift, "draws": len(chosen)}


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
    return _named_failures(np.bincount(status.ravel().astype(int), minlength=len(Status)))


def _named_failures(counts: np.ndarray) -> dict[str, int]:
    return {s.name.lower().replace("_", " "): int(counts[s]) for s in Status if s != Status.OK}


def _describe_start(start: Start) -> dict[str, Any]:
    problem = start.problem
    return {
        "failed_solves": start.search.failed_solves,
        "candidates": [{"misfit": c.misfit, "origin": c.origin} for c in start.search.candidates],
        "piloted": start.piloted,
        "modes": [
            {"log_density": m.log_density} | ({} if start.piloted else {"log_evidence": m.log_evidence})
            for m in start.modes
        ],
        "steps": int(problem.nodes.shape[1] - 1),
        "time_unit": float(problem.scaling.time_unit),
        "solver": dict(vars(problem.solver)),
    }


def versions() -> dict[str, str]:
    """Of Python and of the libraries whose arithmetic enters the draws."""
    libraries = {name: version(name) for name in ("jax", "numpyro", "diffrax", "numpy")}
    return {"python": platform.python_version(), "gpnode": __version__} | libraries
