"""One fit: its seed, its errors, how long it goes on, and that it begins again on finer steps."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.running.checkpoint import Checkpoint
from gpnode.inference.running.sessions import _replay, _rows_so_far
from gpnode.inference.running.traces import MemoryTrace
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.stopping.schedule import Goal, Stopping
from support.draws import as_chains
from support.small_problems import coarse, decay_data, decay_model, on_the_edge

SETTINGS = NUTS(warmup=40, draws=30, chains=2)


@pytest.fixture
def data() -> gn.Observations:
    return decay_data()


def test_same_seed_same_bits(data):
    one, two = (gn.fit(decay_model(), data, method=SETTINGS, seed=5, progress=False) for _ in range(2))
    other = gn.fit(decay_model(), data, method=SETTINGS, seed=6, progress=False)
    assert np.array_equal(one.unconstrained, two.unconstrained)
    assert not np.array_equal(one.unconstrained, other.unconstrained)


def test_hopeless_problems_say_what_to_do(data):
    dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2}, {"rate": gn.Uniform(50.0, 60.0)})
    with pytest.raises(gn.StartError, match="Narrow the priors"):
        gn.fit(gn.Model(dynamics, initial={"x": 8.0}), data, method=gn.Laplace(), progress=False)


def as_they_are(draws):
    return draws


def memory(count, level=0.0):
    """A trace of independent draws around ``level``."""
    trace = MemoryTrace()
    if not count:
        return trace
    trace.append(as_chains(np.random.default_rng(count).normal(level, size=(1, count, 2)), np.zeros((1, count)))[0])
    return trace


@pytest.mark.parametrize(
    ("counts", "inactive", "kept"),
    [
        ((700, 900), (), (350, 350)),  # on their way to a goal
        ((2000, 2100, 2400), (0,), (1000, 1050, 1050)),
        ((5000, 5000), (), (2000, 2000)),  # more than is asked for
        ((5000, 5000, 300), (2,), (2000, 2000)),  # too few to be of use
        ((300, 0), (), ()),
    ],
)
def test_rows_so_far_are_equally_many_but_for_inactive_chains(counts, inactive, kept):
    ends = gn.Lifted(stopping=Stopping(first_goal=125))
    rows = _rows_so_far([memory(count) for count in counts], frozenset(inactive), Goal(4000), ends)
    assert tuple(map(len, rows)) == kept


def test_how_far_a_run_has_come_is_told_from_its_draws():
    ends = gn.Lifted(stopping=Stopping(first_goal=125))
    unsettled = memory(2300)
    unsettled.read()["draw"][:, 0] += np.linspace(9.0, 15.0, 2300)
    stops, agreement = _replay([memory(2000), memory(2000, 0.0), unsettled], ends, as_they_are)
    assert stops == [Goal(2000), Goal(2000), Goal(4000)]
    assert not agreement.reached
    stops, agreement = _replay([memory(2000), memory(2200, 0.0), memory(2300)], ends, as_they_are)
    assert (stops, agreement.reached) == ([Goal(500)] * 3, True)
    assert _replay([memory(150), memory(100)], ends, as_they_are)[0] == [Goal(125)] * 2


def test_a_run_goes_on_until_its_chains_agree(tmp_path):
    """100 draws of two chains cannot have 400 independent ones; where it ends does not depend on interruptions."""
    settings = gn.Lifted(warmup=40, chains=2, stopping=Stopping(first_goal=100))
    assert [goal.steps for goal in settings.stopping.goals(None)] == [100, 200, 400, 800, 1600, 3200, 6400]
    whole = gn.fit(decay_model(), decay_data(), method=settings, progress=False)
    assert whole.unconstrained.shape[1] in (200, 400, 800, 1600)
    assert not whole.record.interrupted
    kept = gn.fit(decay_model(), decay_data(), method=settings, progress=False, checkpoint=tmp_path)
    opened = gn.open_checkpoint(tmp_path, decay_model(), decay_data())
    for other in (kept, opened):
        assert np.array_equal(whole.unconstrained, other.unconstrained)
        assert not other.record.interrupted


@pytest.mark.slow
def test_a_run_on_coarse_steps_begins_again_on_finer_ones(tmp_path, monkeypatch):
    """And where it ends does not depend on whether it was interrupted after that."""
    at_first = "gpnode.inference.starting.ladder.with_accurate_steps"
    monkeypatch.setattr(at_first, lambda problem, centre, points: coarse(problem))
    method = gn.Lifted(draws=250, warmup=60, chains=2)
    whole = gn.fit(*on_the_edge(), method=method, progress=False)
    assert whole.record.start.solver["tolerance"] < coarse(gn.bind(*on_the_edge())).solver.step_error
    assert whole.record.accuracy.largest_error < 0.1
    keep, kept = Checkpoint.keep, []

    def stop_after_a_while(self, chain):
        keep(self, chain)
        kept.append(chain.done)
        if (len(kept) > 4 and chain.done < kept[-2]) or len(kept) > 14:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "keep", stop_after_a_while)
    with pytest.raises(KeyboardInterrupt):
        gn.fit(*on_the_edge(), method=method, progress=False, checkpoint=tmp_path)
    monkeypatch.setattr(Checkpoint, "keep", keep)
    resumed = gn.fit(*on_the_edge(), method=method, progress=False, checkpoint=tmp_path)
    assert np.array_equal(resumed.unconstrained, whole.unconstrained)


def test_what_was_mixed_up_is_said():
    with pytest.raises(TypeError, match="the model comes first"):
        gn.fit(decay_data(), decay_model())
    with pytest.raises(TypeError, match=r"Wrap it: gpnode\.Observations"):
        gn.fit(decay_model(), {"x": ([0, 1], [2, 3])})
    with pytest.raises(TypeError, match=r"needs a gpnode\.Model"):
        gn.fit("dx/dt = -x", decay_data())
