"""Worker processes that are killed do not change a bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

import gpnode as gn
from gpnode.inference.running.executors import Serial
from support.executors import same
from support.small_problems import decay_data, decay_model

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
