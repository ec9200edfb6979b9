"""Where chunks run, and who dies on the way, does not change a bit."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future

import pytest

import gpnode as gn
from gpnode.inference.running.executors import Serial
from support.executors import Elsewhere, same
from support.small_problems import SETTINGS, decay_data, decay_model


@pytest.fixture(scope="module")
def serial():
    return run(Serial())


def run(executor=None, **options):
    return gn.fit(decay_model(), decay_data(), method=SETTINGS, progress=False, executor=executor, **options)


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
