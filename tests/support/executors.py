"""Executors that stand for other processes, and what it means that results are the same."""

from __future__ import annotations

import pickle
from concurrent.futures import Future

import numpy as np

import gpnode as gn
from gpnode.inference.running.executors import Serial


def same(one: gn.Posterior, other: gn.Posterior) -> bool:
    return np.array_equal(one.unconstrained, other.unconstrained) and one.stats.equals(other.stats)


class Elsewhere(Serial):
    """Stands for another process: everything goes there and back as bytes."""

    def submit(self, fn, /, *args, **kwargs):
        sent = pickle.loads(pickle.dumps((fn, args)))
        future: Future = Future()
        future.set_result(pickle.loads(pickle.dumps(sent[0](*sent[1]))))
        return future
