"""Native code is tried in another process first: what crashes there is not used here."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.solvers import FixedGrid, unsupported
from gpnode.solvers.native import availability

CRASH = ("-c", "import os; os.abort()")
FAIL = ("-c", "raise SystemExit(3)")
MISHAP = ("-c", "raise SystemExit(1)")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """As in a new process with an empty cache."""
    monkeypatch.setenv("GPNODE_CACHE", str(tmp_path))
    availability.why_unavailable.cache_clear()
    yield monkeypatch
    availability.why_unavailable.cache_clear()


def verdicts(tmp_path) -> list[str]:
    return [path.read_text() for path in (tmp_path / "gpnode").glob("native-calls-*.txt")]


def test_the_trial_succeeds_and_is_remembered(fresh, tmp_path):
    assert availability.why_unavailable() is None
    assert verdicts(tmp_path) == ["works"]
    availability.why_unavailable.cache_clear()
    fresh.setattr(availability, "_COMMAND", CRASH)
    assert availability.why_unavailable() is None


@pytest.mark.parametrize("command", [CRASH, FAIL], ids=["crash", "fail"])
def test_a_crash_or_wrong_numbers_leave_array_code(command, fresh, tmp_path):
    fresh.setattr(availability, "_COMMAND", command)
    reason = unsupported(lambda t, x, p: -p["k"] * x, {"k": jnp.ones(())}, 1)
    assert reason is not None
    assert "in a way gpnode does not know (jaxlib" in reason
    assert verdicts(tmp_path) == ["fails"]
    with pytest.raises(RuntimeError, match="native code cannot be used"):
        availability.serve_under("gpnode_never", lambda call_frame: 0)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(0.0, 1.0)}), initial={"x": 1.0}
    )
    data = gn.Observations({"x": (np.arange(6.0), np.exp(-np.arange(6.0)))})
    with pytest.warns(UserWarning, match="does not know .*array code instead"):
        problem = gn.bind(model, data)
    assert isinstance(problem.solver, FixedGrid)
    assert np.isfinite(problem.log_density(jnp.zeros(problem.size))[0])


def test_a_mishap_is_no_verdict(fresh, tmp_path):
    """A trial that cannot even begin says nothing of XLA: the next process tries again."""
    fresh.setattr(availability, "_COMMAND", MISHAP)
    assert "could not be tried (exit code 1)" in str(availability.why_unavailable())
    fresh.setattr(availability, "_COMMAND", ("-c", "import time; time.sleep(60)"))
    fresh.setattr(availability, "_LONGEST", 0.1)
    availability.why_unavailable.cache_clear()
    assert "could not be tried" in str(availability.why_unavailable())
    assert verdicts(tmp_path) == []


def test_without_a_cache_the_trial_is_made_once_in_a_process(fresh):
    runs = []
    fresh.setattr(availability, "cache_directory", lambda: None)
    fresh.setattr(availability, "_run_probe", lambda: runs.append(1) or 0)
    assert availability.why_unavailable() is None
    assert availability.why_unavailable() is None
    assert len(runs) == 1
