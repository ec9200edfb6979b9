"""Where chunks and fits run, and who dies on the way, does not change a bit."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

import numpy as np
import pytest

import gpnode as gn
from gpnode._config import computing
from gpnode.inference.running.executors import Serial
from small_problems import SETTINGS, decay_data, decay_model


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpnode.inference.running.chains._ROOM", 10)
        yield


@pytest.fixture(scope="module")
def serial(short_chunks):
    return run(Serial())


def run(executor=None, **options):
    return gn.fit(decay_model(), decay_data(), method=SETTINGS, progress=False, executor=executor, **options)


def same(one: gn.Posterior, other: gn.Posterior) -> bool:
    return np.array_equal(one.unconstrained, other.unconstrained) and one.stats.equals(other.stats)


class Elsewhere(Serial):
    """Stands for another process: everything goes there and back as bytes."""

    def submit(self, fn, /, *args, **kwargs):
        sent = pickle.loads(pickle.dumps((fn, args)))
        future: Future = Future()
        future.set_result(pickle.loads(pickle.dumps(sent[0](*sent[1]))))
        return future


class Dying(Serial):
    """A pool whose worker dies on its third task, and with it the pool."""

    made = 0

    def __init__(self):
        Dying.made += 1
        self.tasks = 0

    def submit(self, fn, /, *args, **kwargs):
        self.tasks += 1
        if self.tasks < 3:
            return super().submit(fn, *args, **kwargs)
        if self.tasks > 3:
            raise BrokenExecutor("the pool is broken")
        future: Future = Future()
        future.set_exception(BrokenExecutor("a worker died"))
        return future


def test_threads_and_other_processes_give_the_bits_of_one_thread(serial):
    assert same(run(), serial)
    assert same(run(Elsewhere()), serial)


def test_dying_workers_cost_their_chunk_only(serial):
    Dying.made = 0
    assert same(run(Dying), serial)
    assert Dying.made > 3


def test_a_pool_that_cannot_be_replaced_is_left_for_threads(serial):
    with pytest.warns(UserWarning, match="pass a function that makes the executor"):
        assert same(run(Dying()), serial)


def test_a_task_that_kills_every_worker_ends_the_run():
    class Deadly(Serial):
        def submit(self, fn, /, *args, **kwargs):
            future: Future = Future()
            future.set_exception(BrokenExecutor("killed"))
            return future

    with pytest.raises(gn.WorkerError, match="killed"):
        run(Deadly)


def test_something_else_than_an_executor():
    with pytest.raises(TypeError, match="executor must be"):
        run(4)


def test_one_thread_for_linear_algebra_while_anyone_asks():
    from threadpoolctl import threadpool_info

    def counts():
        return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

    before = counts()
    with computing():
        with computing():
            pass
        assert counts() == {1}
    assert counts() == before


# -- many fits -------------------------------------------------------------------------------


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
    monkeypatch.setattr("gpnode.inference.running.chains._SECONDS", 1e-9)  # one step a chunk
    tasks = [gn.FitTask(decay_model(), decay_data(), SETTINGS, seed=i, checkpoint=tmp_path / str(i)) for i in range(2)]
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


# -- other processes -------------------------------------------------------------------------

SLOWER = gn.Lifted(warmup=60, draws=1500, chains=3)


def spawn_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn"))


class Killer:
    """Kills each of some processes once, some while after the run has begun to draw."""

    def __init__(self, processes, wait_for):
        self._processes, self._wait_for = processes, wait_for
        self.killed: list[int] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(60.0)

    def _work(self):
        for step in range(3):
            while not self._wait_for(step):
                time.sleep(0.05)
            fresh = [p for p in self._processes() if p not in self.killed]
            if fresh:
                os.kill(fresh[0], signal.SIGKILL)
                self.killed.append(fresh[0])


def progress_of(folder):
    """Whether chains have drawn more than some hundreds of steps, by their files."""

    def reached(step: int) -> bool:
        sizes = [p.stat().st_size for p in folder.glob("chain-*.draws")]
        return sum(sizes) > 30_000 * (1 + step)

    return reached


@pytest.mark.slow
def test_spawned_processes_each_killed_once_give_the_same_bits(tmp_path):
    alone = gn.fit(decay_model(), decay_data(), method=SLOWER, progress=False, executor=Serial())
    pools: list[ProcessPoolExecutor] = []

    def make():
        pools.append(spawn_pool())
        return pools[-1]

    def workers():
        return list(pools[-1]._processes) if pools and pools[-1]._processes else []

    with Killer(workers, progress_of(tmp_path)) as killer:
        posterior = gn.fit(
            decay_model(), decay_data(), method=SLOWER, progress=False, executor=make, checkpoint=tmp_path
        )
    assert len(killer.killed) == 3
    assert len(pools) > 1
    assert same(posterior, alone)


@pytest.mark.slow
def test_dask_workers_each_killed_once_give_the_same_bits(tmp_path):
    distributed = pytest.importorskip("distributed")
    alone = gn.fit(decay_model(), decay_data(), method=SLOWER, progress=False, executor=Serial())
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        first = set(client.run(os.getpid).values())

        def workers():
            return [p for p in first if p not in killer.killed]

        with Killer(workers, progress_of(tmp_path)) as killer:
            posterior = gn.fit(
                decay_model(),
                decay_data(),
                method=SLOWER,
                progress=False,
                executor=client.get_executor(),
                checkpoint=tmp_path,
            )
        assert len(killer.killed) == 3
    assert same(posterior, alone)
