"""Files of posteriors, written and read without arviz, in its layout."""

import numpy as np
import pytest
import xarray as xr

import gpnode as gn
from gpnode._files import whole_or_nothing, write_text
from gpnode.results import storage


@pytest.fixture(scope="module")
def posterior():
    t = np.linspace(0.0, 5.0, 8)
    data = gn.Observations({"x": (t, 8.0 * np.exp(-0.5 * t) + 0.1 * np.cos(9 * t))})
    dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.r * x.x}, {"r": gn.LogNormal(0.0, 1.0)})
    model = gn.Model(dynamics, initial={"x": gn.Normal(8.0, 1.0)}, kernel=None)
    return gn.fit(model, data, method=gn.Laplace(draws=60), seed=0)


def test_arviz_reads_what_was_saved(posterior, tmp_path):
    posterior.save(tmp_path / "p.nc")
    arviz = pytest.importorskip("arviz")
    found = arviz.from_netcdf(tmp_path / "p.nc")
    assert np.array_equal(found["posterior"]["r"].to_numpy(), posterior.draws["r"].to_numpy())
    assert "lp" in found["sample_stats"]
    found.close()


def test_files_as_arviz_writes_them_are_read(posterior, tmp_path):
    # Earlier versions of gpnode wrote by arviz.
    posterior.to_arviz().to_netcdf(tmp_path / "p.nc", engine="h5netcdf")
    found = gn.Posterior.load(tmp_path / "p.nc", posterior.model)
    assert found.draws.equals(posterior.draws)
    assert np.array_equal(found.unconstrained, posterior.unconstrained)
    assert found.record == posterior.record


def test_groups_are_those_of_before(posterior, tmp_path):
    posterior.save(tmp_path / "p.nc")
    tree = xr.open_datatree(tmp_path / "p.nc", engine="h5netcdf")
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data", "unconstrained_posterior"}
    tree.close()


def test_for_arviz_as_installed(posterior):
    import arviz

    found = posterior.to_arviz()
    kind = xr.DataTree if arviz.__version__.startswith("1.") else arviz.InferenceData
    assert isinstance(found, kind)
    assert np.array_equal(found["posterior"]["r"].to_numpy(), posterior.draws["r"].to_numpy())


def test_a_write_that_fails_leaves_the_old_file_alone(posterior, tmp_path, monkeypatch):
    path = tmp_path / "p.nc"
    posterior.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise RuntimeError("Can't close file (file write failed)")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fail)
    with pytest.raises(gn.StorageError, match="cannot write"):
        storage.save(posterior, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("other"), KeyboardInterrupt()])
def test_nothing_is_left_beside_a_file_that_was_not_written(tmp_path, error):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def write():
        with whole_or_nothing(path) as aside:
            aside.write_text("new")
            raise error

    with pytest.raises(gn.StorageError if isinstance(error, OSError) else type(error)):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
