"""From what a method left behind to a posterior with its record."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from gpnode._versions import installed_versions
from gpnode.data.observations import Observations
from gpnode.inference.sampled import Sampled, pick_evenly
from gpnode.inference.samplers.base import Method
from gpnode.inference.starting.accuracy import ACCURACY_DRAWS, largest_shift, solver_errors
from gpnode.inference.starting.start import Start
from gpnode.inference.stopping.modes import find_modes
from gpnode.inference.stopping.weighing import weigh
from gpnode.model.model import Model
from gpnode.problem.binding import fingerprint
from gpnode.problem.covariance import RELATIVE_JITTER
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities, report_draws
from gpnode.results.posterior import Posterior
from gpnode.results.record import Accuracy, Record, StartRecord


def assemble(
    model: Model, data: Observations, method: Method, seed: int, start: Start, sampled: Sampled, seconds: float
) -> Posterior:
    """The posterior, with the record of how it came about. Compares some draws with a tight solve."""
    problem = start.problem
    record = Record(
        method=method.name,
        settings=method.describe(),
        seed=seed,
        fingerprint=fingerprint(model, data),
        model=model.describe(),
        start_times=dict(data.start),
        time_unit=data.time_unit,
        relative_jitter=RELATIVE_JITTER,
        start=_describe_start(start),
        accuracy=_accuracy(problem, sampled.unconstrained),
        constants={n: np.asarray(m).tolist() for n, m in problem.dynamics.constants().items()},
        seconds=seconds,
        versions=installed_versions(),
        bridged=_bridged(problem, sampled) if method.is_sample else None,
        **sampled.details,
    )
    return Posterior(
        draws=_dataset(problem, sampled.unconstrained),
        stats=sampled.stats,
        unconstrained=sampled.unconstrained,
        data=data,
        # Through JSON and back, so that a fresh posterior and a loaded one hold equal records.
        record=Record.from_json(record.to_json(), "the fit"),
        model=model,
        problem=problem,
    )


def _accuracy(problem: Problem, unconstrained: np.ndarray) -> Accuracy | None:
    """Compare log densities with those of a tight adaptive solve, on draws spread over the run."""
    if not problem.solver.follows_grid:
        return None
    chosen = pick_evenly(unconstrained, ACCURACY_DRAWS)
    difference = solver_errors(problem, chosen)
    return Accuracy(float(np.abs(difference).max()), largest_shift(difference), len(chosen))


def _bridged(problem: Problem, sampled: Sampled) -> dict[str, list[float | None]] | None:
    """Weights of modes by bridge sampling; None if there is one."""
    modes = find_modes(sampled.unconstrained, sampled.stats["log_density"].to_numpy())
    if modes.count == 1:
        return None
    found = weigh(lambda points: log_densities(problem, points)[0], sampled.unconstrained, modes)
    errors = [float(error) if np.isfinite(error) else None for error in found.errors]
    return {"values": found.values.tolist(), "errors": errors}


def _dataset(problem: Problem, unconstrained: np.ndarray) -> xr.Dataset:
    values = report_draws(problem, jnp.asarray(unconstrained))
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, dims in problem.dims().items():
        variables[name] = (("chain", "draw", *dims), np.asarray(values[name]))
        coords |= {dim: list(labels) for dim, labels in dims.items()}
    chains, draws = unconstrained.shape[:2]
    return xr.Dataset(variables, coords={"chain": np.arange(chains), "draw": np.arange(draws), **coords})


def _describe_start(start: Start) -> StartRecord:
    problem = start.problem
    scaling = {
        f.name: np.asarray(getattr(problem.scaling, f.name)).tolist() for f in dataclasses.fields(problem.scaling)
    }
    return StartRecord(
        failed_solves=start.search.failed_solves,
        candidates=[{"misfit": c.misfit, "origin": c.origin} for c in start.search.candidates],
        piloted=start.piloted,
        maxima=[
            {"log_density": m.log_density} | ({} if start.piloted else {"log_evidence": m.log_evidence})
            for m in start.maxima
        ],
        steps=int(problem.nodes.shape[1] - 1),
        scaling=scaling,
        solver=dict(vars(problem.solver)),
    )
