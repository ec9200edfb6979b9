"""Posteriors on disk: NetCDF that arviz and xarray can read without gpnode."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr

from gpnode._files import LARGEST_ARRAYS, cannot_write, make_folder, whole_or_nothing
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.errors import FileFormatError, ModelError
from gpnode.model.model import Model
from gpnode.problem.binding import bind, fingerprint
from gpnode.problem.density import Problem
from gpnode.problem.grid import on_nodes
from gpnode.results._arviz import join_groups
from gpnode.results.posterior import Posterior
from gpnode.results.record import Record

_GROUPS = ("posterior", "sample_stats", "observed_data", "unconstrained_posterior")
_STAT_NAMES = {"accept_prob": "acceptance_rate", "log_density": "lp", "num_steps": "n_steps"}  # arviz's names


def to_arviz(posterior: Posterior) -> Any:
    """Groups posterior, sample_stats, observed_data and unconstrained_posterior, for the arviz that is installed."""
    return join_groups(_groups(posterior))


def _groups(posterior: Posterior) -> dict[str, xr.Dataset]:
    raw = xr.Dataset({"unconstrained": (("chain", "draw", "position"), posterior.unconstrained)})
    if posterior.problem is not None:
        raw["nodes"] = (("experiment", "node"), np.asarray(posterior.problem.nodes))
    return {
        "posterior": posterior.draws.assign_attrs(gpnode=posterior.record.to_json()),
        "sample_stats": posterior.stats.rename({k: v for k, v in _STAT_NAMES.items() if k in posterior.stats}),
        "observed_data": _data_to_dataset(posterior.data),
        "unconstrained_posterior": raw,
    }


def save(posterior: Posterior, path: Any) -> None:
    """Write each group of arviz's layout into one NetCDF file, all or nothing."""
    target = Path(path)
    make_folder(target.parent)
    try:
        with whole_or_nothing(target) as aside:
            for name, group in _groups(posterior).items():
                numbers = [key for key, values in group.variables.items() if values.dtype.kind in "biufc"]
                group.to_netcdf(
                    aside,
                    mode="a" if aside.exists() else "w",
                    group=name,
                    engine="h5netcdf",
                    encoding={key: {"zlib": True} for key in numbers},
                )
    except RuntimeError as error:  # what HDF5 makes of a full disk when it closes a file
        raise cannot_write(target, error) from error


def load(path: Any, model: Model | None = None, data: Observations | None = None) -> Posterior:
    """Read a posterior; with ``model``, check that it is the one the draws came from.

    ``data`` stand for the measurements in the file, and tell what was done in experiments.
    """
    groups = _read_groups(Path(path))
    draws, raw = groups["posterior"], groups["unconstrained_posterior"]
    record = _read_record(draws, path)
    data = _dataset_to_data(groups["observed_data"], record) if data is None else data
    stats = groups["sample_stats"].rename({v: k for k, v in _STAT_NAMES.items() if v in groups["sample_stats"]})
    problem = None if model is None else _rebind(model, data, record, raw)
    return Posterior(
        draws=draws.drop_attrs(deep=False),
        stats=stats,
        unconstrained=raw["unconstrained"].to_numpy(),
        data=data,
        record=record,
        model=model,
        problem=problem,
    )


def _read_groups(path: Path) -> dict[str, xr.Dataset]:
    if not path.exists():
        raise FileFormatError(f"there is no file {path}.")
    try:
        with ExitStack() as stack:
            groups = {name: stack.enter_context(_open(path, name)) for name in _GROUPS}
            declared = sum(group.nbytes for group in groups.values())
            if declared > LARGEST_ARRAYS:  # a small file can declare any size, and would get the memory for it
                raise ValueError(f"it declares {declared} bytes, and at most {LARGEST_ARRAYS} are read")
            return {name: group.load() for name, group in groups.items()}
    except (OSError, KeyError, ValueError, AttributeError, RuntimeError) as error:
        raise FileFormatError(
            f"{path} is not a gpnode posterior, or is damaged ({error}). Use a file written by Posterior.save."
        ) from error


def _open(path: Path, group: str) -> xr.Dataset:
    return xr.open_dataset(path, group=group, engine="h5netcdf")


def _read_record(draws: xr.Dataset, path: Any) -> Record:
    text = draws.attrs.get("gpnode")
    if not isinstance(text, str):
        raise FileFormatError(f"{path} holds draws, but not from gpnode.")
    return Record.from_json(text, str(path))


def _rebind(model: Model, data: Observations, record: Record, raw: xr.Dataset) -> Problem:
    if fingerprint(model, data) != record.fingerprint:
        raise ModelError(
            "this posterior came from another model. Pass the model that was fitted, with the same equations, "
            "priors and settings, and the data if anything was done in experiments (it was made with jax "
            f"{record.versions['jax']})."
        )
    # The draws are in the units of their own run, which the data might not give again to the last bit.
    kept = {name: jnp.asarray(np.asarray(value, dtype=float)) for name, value in record.start.scaling.items()}
    whole = {f.name for f in dataclasses.fields(Scaling)} == set(kept)
    scaling = Scaling(**kept) if whole else dataclasses.replace(bind(model, data).scaling, **kept)
    problem = bind(model, data, scaling=scaling)
    return on_nodes(problem, raw["nodes"].to_numpy(), record.start.solver) if "nodes" in raw else problem


def _data_to_dataset(data: Observations) -> xr.Dataset:
    table = data.to_long()
    columns = {name: ("observation", table[name].to_numpy(dtype=object)) for name in ("experiment", "variable")}
    values = np.concatenate([s.values for s in data.series])
    numbers = {"time": ("observation", table["time"].to_numpy(dtype=float)), "value": ("observation", values)}
    if data.has_limits:
        numbers["limit"] = ("observation", np.concatenate([s.limits for s in data.series]))
    return xr.Dataset({**columns, **numbers})


def _dataset_to_data(dataset: xr.Dataset, record: Record) -> Observations:
    dataset = dataset.rename({"trajectory": "experiment"} if "trajectory" in dataset else {})  # in older files
    table = pd.DataFrame({name: dataset[name].to_numpy() for name in ("experiment", "variable", "time", "value")})
    if "limit" in dataset:
        marks = np.array(["", ">", "<"])[dataset["limit"].to_numpy()]
        texts = [f"{mark}{value!r}" if mark else value for mark, value in zip(marks, table["value"], strict=True)]
        table["value"] = pd.Series(texts, dtype=object)
    return Observations.from_long(
        table, experiment="experiment", start=record.start_times, time_unit=None
    ).with_time_unit(record.time_unit)
