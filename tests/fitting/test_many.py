"""Many fits at once are those of one fit after the other."""

from __future__ import annotations

import dataclasses
import os
import signal

import pytest

import gpnode as gn
from gpnode.inference.running.executors import Serial
from gpnode.inference.samplers.base import Chunking
from support.executors import Elsewhere, same
from support.small_problems import SETTINGS, decay_data, decay_model


@pytest.fixture(scope="module")
def serial():
    return run(Serial())


def run(executor=None, **options):
    return gn.fit(decay_model(), decay_data(), method=SETTINGS, progress=False, executor=executor, **options)


def hopeless() -> gn.FitTask:
    dynamics = gn.KnownForm(["y"], lambda t, x, p: {"y": -p.rate * x.y}, {"rate": gn.LogNormal(0.0, 1.0)})
    return gn.FitTask(gn.Model(dynamics), decay_data(), name="hopeless")


def test_many_fits_are_those_of_fit_and_failures_are_reported_one_by_one(serial, tmp_path):
    tasks = [
        gn.FitTask(decay_model(), decay_data(), SETTINGS, checkpoint=tmp_path / "one"),
        hopeless(),
        gn.FitTask(decay_model(), decay_data(), SETTINGS, seed=1, name="other seed"),
    ]
    found = gn.fit_many(tasks, progress=False)
    assert [o.name for o in found] == ["0", "hopeless", "other seed"]
    assert [o.ok for o in found] == [True, False, True]
    assert isinstance(found[1].error, gn.ModelError)
    assert same(found[0].result, serial)
    assert not same(found[2].result, serial)
    assert same(gn.open_checkpoint(tmp_path / "one", decay_model(), decay_data()), serial)


def test_many_fits_elsewhere_with_a_result_made_there(serial, capsys):
    tasks = [gn.FitTask(decay_model(), decay_data(), SETTINGS, context=2.0), hopeless()]
    found = gn.fit_many(tasks, executor=Elsewhere(), then=lambda p, factor: factor * float(p.draws["rate"].mean()))
    assert found[0].result == 2.0 * float(serial.draws["rate"].mean())
    assert "2 of 2 fits done" in capsys.readouterr().err


def test_interrupted_many_fits_stop_within_a_chunk_and_go_on(tmp_path, serial, monkeypatch, interruptible):
    one_step_a_chunk = dataclasses.replace(SETTINGS, chunking=Chunking(seconds=1e-9))
    tasks = [
        gn.FitTask(decay_model(), decay_data(), one_step_a_chunk, seed=i, checkpoint=tmp_path / str(i))
        for i in range(2)
    ]
    keep = "gpnode.inference.running.checkpoint.Checkpoint.keep"
    from gpnode.inference.running.checkpoint import Checkpoint

    before, sent = Checkpoint.keep, []

    def seen(self, chain):
        before(self, chain)
        if chain.index == 0 and chain.done == 41 and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(keep, seen)
        with pytest.raises(KeyboardInterrupt):
            gn.fit_many(tasks, progress=False)
    found = gn.fit_many(tasks, progress=False)
    assert same(found[0].result, serial)
