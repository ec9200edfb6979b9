"""Handlers that XLA calls."""

from __future__ import annotations

import threading

import jax

from gpnode.solvers.native import ffi
from gpnode.solvers.native.ffi import is_registration


def serve_nothing(call_frame: int) -> int:
    if is_registration(call_frame):
        return 0
    return 0


def test_threads_that_need_the_same_handler_share_one(monkeypatch):
    """The second comes while the first is still compiling; XLA refuses another handler of the same name."""
    jax.devices()  # only then are handlers handed over at once
    failures: list[Exception] = []
    compile_handler, both = ffi.cfunc, threading.Barrier(2)

    def slowly(*settings, **options):
        threading.Event().wait(0.2)
        return compile_handler(*settings, **options)

    def need_it():
        both.wait()
        try:
            ffi.register("gpnode_test_shared", serve_nothing, cached=False)
        except Exception as error:
            failures.append(error)

    monkeypatch.setattr(ffi, "cfunc", slowly)
    threads = [threading.Thread(target=need_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
