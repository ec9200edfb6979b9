"""What importing and using gpnode changes for other code in the process."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import pytest
from threadpoolctl import threadpool_info

import gpnode as gn
from gpnode._config import computing

FIT = """
import jax
assert jax.config.jax_compilation_cache_dir is None
import gpnode as gn
import sys
loaded = {"equinox", "numpyro", "numba", "llvmlite", "scipy", "pandas", "xarray", "arviz", "matplotlib", "sympy"}
assert not loaded & set(sys.modules), loaded & set(sys.modules)
names = "dir", "max_size"
settings = [getattr(jax.config, f"jax_compilation_cache_{name}") for name in names]
field = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.Uniform(0.1, 2.0)})
data = gn.Observations({"x": ([0.0, 1.0, 2.0, 3.0], [5.0, 3.0, 2.0, 1.5])})
gn.fit(gn.Model(field, initial={"x": gn.Normal(5.0, 1.0)}, kernel=None), data, method=gn.Laplace(draws=50))
assert [getattr(jax.config, f"jax_compilation_cache_{name}") for name in names] == settings
assert "arviz" not in sys.modules
"""


@pytest.mark.slow
def test_a_fit_keeps_its_code_in_its_own_directory_and_leaves_no_trace(tmp_path):
    environment = {**os.environ, "GPNODE_CACHE": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("XLA_FLAGS", None)  # what compiles in no time is not kept
    subprocess.run([sys.executable, "-c", FIT], env=environment, check=True)
    assert list(tmp_path.glob("gpnode/xla-*/*-cache"))


@pytest.fixture
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("GPNODE_CACHE", str(tmp_path / "ours"))
    before = jax.config.jax_compilation_cache_dir
    yield tmp_path / "theirs"
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_outermost_context_decides(own_directory):
    def threads():
        return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

    jax.config.update("jax_compilation_cache_dir", None)
    before = threads()
    with computing():
        with computing():
            pass
        assert "ours" in jax.config.jax_compilation_cache_dir
        assert threads() == {1}
    assert jax.config.jax_compilation_cache_dir is None
    assert threads() == before


def test_a_directory_of_the_users_is_respected(own_directory):
    jax.config.update("jax_compilation_cache_dir", str(own_directory))
    with computing():
        assert jax.config.jax_compilation_cache_dir == str(own_directory)
    jax.config.update("jax_compilation_cache_dir", None)
    with computing():
        jax.config.update("jax_compilation_cache_dir", str(own_directory))
    assert jax.config.jax_compilation_cache_dir == str(own_directory)


def test_it_ends_with_an_error_too(own_directory):
    jax.config.update("jax_compilation_cache_dir", None)

    @computing()
    def fail():
        raise ValueError("as it should")

    with pytest.raises(ValueError, match="as it should"):
        fail()
    assert jax.config.jax_compilation_cache_dir is None


def test_public_names_are_listed_once_and_exist():
    assert sorted(gn.__all__) == sorted(gn._HOMES)
    for name in gn.__all__:
        assert getattr(gn, name) is not None
        assert name in dir(gn)
