"""How a problem reaches other processes.

Threads share an object; a worker process gets it as bytes, unpacks them once, and keeps what it unpacked, so that
compiled code is found again at the next task. Bytes are made by cloudpickle and only ever read by workers that
this process sent them to: no file is written or read this way.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import cloudpickle

T = TypeVar("T")
_MOST_KEPT = 16
_kept: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


class Sendable(Generic[T]):
    """An object that is shared between threads, and copied to another process.

    If ``lasting``, the other process keeps the copy for sendables of the same content that follow.
    """

    def __init__(self, content: T, lasting: bool = True) -> None:
        self.content, self._lasting = content, lasting
        self._packed: tuple[str, bytes] | None = None

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if not self._lasting:
            return _unpack_once, (cloudpickle.dumps(self.content),)
        if self._packed is None:
            packed = cloudpickle.dumps(self.content)
            self._packed = hashlib.sha256(packed).hexdigest(), packed
        return _unpack, self._packed


def _unpack_once(packed: bytes) -> Sendable[Any]:
    return Sendable(cloudpickle.loads(packed), lasting=False)


def _unpack(digest: str, packed: bytes) -> Sendable[Any]:
    with _lock:
        if digest not in _kept:
            _kept[digest] = Sendable(cloudpickle.loads(packed))
            while len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end(digest)
        return _kept[digest]
