"""Runs that are stopped, go on, and end with the same bits."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Executor, Future
from contextlib import suppress

import jax
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.running import checkpoint as checkpoints
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.stopping.agreement import Agreement
from gpnode.inference.stopping.schedule import Stopping
from support.small_problems import SETTINGS, decay_data, decay_model


class Inline(Executor):
    """Runs chunks in this thread, and interrupts before the one after ``chunks``."""

    def __init__(self, chunks: float = np.inf):
        self.left = chunks

    def submit(self, fn, /, *args, **kwargs):
        if self.left <= 0:
            raise KeyboardInterrupt
        self.left -= 1
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def run(folder, *, method=SETTINGS, model=None, data=None, **options):
    return gn.fit(
        model or decay_model(), data or decay_data(), method=method, progress=False, checkpoint=folder, **options
    )


@pytest.fixture(scope="module")
def whole():
    """The same run without interruption or checkpoint."""
    return gn.fit(decay_model(), decay_data(), method=SETTINGS, progress=False)


@pytest.fixture
def stopped(tmp_path):
    """A run stopped after it had drawn something."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor=Inline(10))
    return tmp_path


def same(one: gn.Posterior, other: gn.Posterior) -> bool:
    return np.array_equal(one.unconstrained, other.unconstrained) and one.stats.equals(other.stats)


def test_a_run_stopped_again_and_again_ends_with_the_same_bits(tmp_path, whole):
    for chunks in (1, 3, 2, 5):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, executor=Inline(chunks))
    posterior = run(tmp_path)
    assert same(posterior, whole)
    assert not posterior.record.interrupted
    assert posterior.record.warmup_failures == whole.record.warmup_failures
    assert same(run(tmp_path), whole)  # a finished run is there at once


@pytest.mark.slow
def test_nuts_goes_on_with_the_same_bits_too(tmp_path):
    nuts = gn.NUTS(warmup=20, draws=10, chains=1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, method=nuts, executor=Inline(2))
    assert same(run(tmp_path, method=nuts), gn.fit(decay_model(), decay_data(), method=nuts, progress=False))


@pytest.mark.slow
def test_more_draws_are_those_of_a_longer_run(tmp_path, whole):
    short = gn.Lifted(warmup=30, draws=15, chains=2)
    first = run(tmp_path, method=short)
    assert first.unconstrained.shape[1] == 15
    assert same(run(tmp_path), whole)
    assert same(run(tmp_path, method=short), first)


def test_partial_results_open_at_any_time(tmp_path, whole):
    with pytest.raises(gn.CheckpointError, match="no checkpoint"):
        gn.open_checkpoint(tmp_path, decay_model(), decay_data())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor=Inline(0))
    with pytest.raises(gn.CheckpointError, match="0 of 30 steps of the warm-up"):
        gn.open_checkpoint(tmp_path, decay_model(), decay_data())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, executor=Inline(10))
    some = gn.open_checkpoint(tmp_path, decay_model(), decay_data())
    drawn = some.unconstrained.shape[1]
    assert 0 < drawn < 40
    assert some.record.interrupted
    assert np.array_equal(some.unconstrained, whole.unconstrained[:, :drawn])
    assert not some.diagnose().converged
    assert "rate" in str(some)


def inactive_in_turn(rows, stopping, report):
    """The first chain is inactive after 10 draws, goes on after 20, stops again after 40; the run ends after 80."""
    inactive = {10: {0}, 40: {0}}
    longest = max(map(len, rows))
    return Agreement(longest == 80, rows, frozenset(inactive.get(longest, ())))


def drawn_so_far(folder):
    """How many draws of each chain are in a checkpoint of a run that is to go on."""
    try:
        partial = gn.open_checkpoint(folder, decay_model(), decay_data())
    except gn.CheckpointError:
        return [0, 0]
    assert partial.record.interrupted
    assert partial.draws.sizes["draw"] == min(partial.record.draws_made)
    return partial.record.draws_made


@pytest.mark.slow
def test_a_run_with_inactive_chains_ends_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("gpnode.inference.running.sessions.find_agreement", inactive_in_turn)
    open_ended = gn.Lifted(warmup=30, chains=2, stopping=Stopping(first_goal=10))
    whole = gn.fit(decay_model(), decay_data(), method=open_ended, progress=False)
    assert whole.record.draws_made == [40, 80]
    assert whole.draws.sizes["draw"] == 40
    assert "40 draws (of up to 80 made)" in str(whole)
    made = [0, 0]
    while made[0] == made[1]:  # until the second has gone on alone
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, method=open_ended, executor=Inline(1))
        made = drawn_so_far(tmp_path)
    assert made[0] == 10
    assert 10 < made[1] <= 20
    finished = None
    while finished is None:  # stopped after every chunk, and so while the first chain catches up
        with suppress(KeyboardInterrupt):
            finished = run(tmp_path, method=open_ended, executor=Inline(1))
    for found in (finished, gn.open_checkpoint(tmp_path, decay_model(), decay_data())):
        assert same(found, whole)
        assert found.record.draws_made == [40, 80]
        assert not found.record.interrupted


def test_laplace_keeps_its_start(tmp_path):
    quick = gn.Laplace(draws=100)
    one = run(tmp_path, method=quick)
    assert same(run(tmp_path, method=quick), one)
    assert same(gn.open_checkpoint(tmp_path, decay_model(), decay_data()), one)


def test_a_start_read_back_is_the_very_same_problem(stopped):
    start_key = jax.random.split(jax.random.key(0), 3)[0]
    found = find_start(gn.bind(decay_model(), decay_data()), start_key, SETTINGS, lambda what: None)
    loaded, points = checkpoints.load_start(stopped, decay_model(), decay_data())
    assert len(points) == SETTINGS.chains
    assert loaded.problem.solver == found.problem.solver
    for a, b in zip(jax.tree.leaves(loaded.problem), jax.tree.leaves(found.problem), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(loaded.maxima, found.maxima, strict=True):
        assert np.array_equal(a.centre, b.centre)
        assert np.array_equal(a.scale_tril, b.scale_tril)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model": decay_model(2.0)}, "another model or other data"),
        ({"data": decay_data(1)}, "another model or other data"),
        ({"seed": 4}, "seed 0, not 4"),
        ({"method": gn.Lifted(warmup=31, draws=40, chains=2)}, "another sampler"),
    ],
)
def test_another_run_is_refused(stopped, change, what):
    before = {p.name: p.read_bytes() for p in stopped.iterdir()}
    with pytest.raises(gn.CheckpointError, match=what):
        run(stopped, **change)
    assert {p.name: p.read_bytes() for p in stopped.iterdir()} == before


def test_one_process_at_a_time(stopped):
    with (
        checkpoints.Checkpoint(stopped, checkpoints.read_run(stopped)),
        pytest.raises(gn.CheckpointError, match="another process"),
    ):
        run(stopped)


@pytest.mark.parametrize("name", ["run.json", "start.npz", "chain-1.npz", "chain-0.draws"])
@pytest.mark.parametrize("damage", ["cut", "foreign"])
def test_damaged_files_are_refused_by_name(stopped, whole, name, damage):
    path = stopped / name
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2] if damage == "cut" else b"\x80\x04\x95" + before[3:])
    with pytest.raises(gn.FileFormatError, match=name):
        run(stopped)
    path.write_bytes(before)  # the rest was left as it was
    assert same(run(stopped), whole)


@pytest.mark.parametrize("failing", range(0, 9, 2))
def test_a_full_disk_is_one_error_and_loses_nothing(stopped, whole, monkeypatch, failing):
    sync, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(gn.StorageError, match="No space left on device"):
            run(stopped)
    assert not [p for p in stopped.iterdir() if p.name.endswith(".tmp")]
    assert gn.open_checkpoint(stopped, decay_model(), decay_data()).num_draws > 0
    assert same(run(stopped), whole)


def test_a_place_that_cannot_be_written_to_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(gn.StorageError, match="cannot write"):
        run(tmp_path / "file" / "run")
