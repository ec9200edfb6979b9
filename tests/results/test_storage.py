"""A posterior in a file: everything comes back, and other files are refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

import gpnode as gn
from support.growth import MODEL


def test_save_and_load_give_everything_back(posterior, tmp_path):
    path = tmp_path / "new" / "posterior.nc"
    posterior.save(path)
    again = gn.Posterior.load(path, MODEL)
    assert again.draws.equals(posterior.draws)
    assert again.stats.equals(posterior.stats)
    assert again.record == posterior.record
    assert np.array_equal(again.unconstrained, posterior.unconstrained)
    assert str(again.data) == str(posterior.data)
    assert np.array_equal(again.problem.nodes, posterior.problem.nodes)
    assert str(again) == str(posterior)
    times = np.linspace(0.0, 10.0, 5)
    assert np.array_equal(gn.forecast(again, times).states, gn.forecast(posterior, times).states)
    posterior.save(path)  # over itself
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_readable_without_gpnode(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    with xr.open_dataset(path, group="posterior", engine="h5netcdf") as draws:
        assert draws["r"].shape == (2, 60)
        assert json.loads(draws.attrs["gpnode"])["seed"] == 0


def test_loading_without_the_model_reads_but_does_not_forecast(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    again = gn.Posterior.load(path)
    assert again.summary().equals(posterior.summary())
    with pytest.raises(gn.ModelError, match="model"):
        gn.forecast(again, [1.0])
    with pytest.raises(gn.ModelError, match="model"):
        again.equations()


def test_another_model_is_refused(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    with pytest.raises(gn.ModelError, match="another model"):
        gn.Posterior.load(path, dataclasses.replace(MODEL, kernel=None))
    changed = gn.KnownForm(
        ["x"], lambda t, x, p: {"x": p.r * x.x * (1 - x.x / p.K) + 1e-9}, dict(MODEL.dynamics.priors)
    )
    with pytest.raises(gn.ModelError, match="another model"):
        gn.Posterior.load(path, dataclasses.replace(MODEL, dynamics=changed))


@pytest.mark.parametrize("content", [b"", b"not netcdf", b"\x89HDF\r\n\x1a\n" + b"\0" * 100])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign.nc"
    path.write_bytes(content)
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)


def test_missing_truncated_and_stranger_files(posterior, tmp_path):
    with pytest.raises(gn.FileFormatError, match="no file"):
        gn.Posterior.load(tmp_path / "nowhere.nc")
    path = tmp_path / "p.nc"
    posterior.save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)
    xr.Dataset({"a": ("b", [1.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)
