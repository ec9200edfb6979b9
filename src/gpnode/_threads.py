"""How many threads linear algebra may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

_blas_lock = threading.Lock()
_blas_users = 0
_blas_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the linear algebra library to one thread while anyone in this process asks for it.

    A second thread would only wait, at full speed, for the next small matrix: with two, a forecast has been seen to
    take forty times as long. Also a decorator.
    """
    global _blas_users, _blas_limits
    with _blas_lock:
        _blas_users += 1
        if _blas_users == 1:
            _blas_limits = threadpool_limits(1, user_api="blas")
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limits.restore_original_limits()
