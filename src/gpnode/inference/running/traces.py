"""What chains leave behind, step by step: rows in memory, or in a file that grows by chunks.

A row has one named field for each field of a sampler's ``Transition``.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpnode._files import cannot_write
from gpnode.errors import FileFormatError


def as_rows(transitions: Any) -> np.ndarray:
    """Transitions whose arrays have shape (steps, ...) as a structured array (steps,)."""
    arrays = {name: np.asarray(a) for name, a in transitions._asdict().items()}
    steps = len(next(iter(arrays.values())))
    rows = np.zeros(steps, dtype=[(name, a.dtype.str, a.shape[1:]) for name, a in arrays.items()])
    for name, array in arrays.items():
        rows[name] = array
    return rows


class Trace(Protocol):
    """Rows of one chain, in the order they came."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end."""
        ...

    def read(self) -> np.ndarray:
        """All rows (count,)."""
        ...


class MemoryTrace:
    """Rows kept in memory."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._parts))

    def append(self, rows: np.ndarray) -> None:
        self._parts.append(rows)

    def read(self) -> np.ndarray:
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]


class FileTrace:
    """Rows kept in a file, of which only those counted in ``count`` are valid.

    Who keeps the count and the checksum (see :mod:`.checkpoint`) decides what is in the trace: rows beyond it come from
    a chunk that was cut short, and the next chunk overwrites them.
    """

    def __init__(self, path: Path, dtype: np.dtype | None = None, count: int = 0, checksum: int = 0) -> None:
        self._path, self._dtype, self._count, self.checksum = path, dtype, count, checksum

    @property
    def count(self) -> int:
        return self._count

    @property
    def dtype(self) -> np.dtype | None:
        """Fields of a row; None while there is none."""
        return self._dtype

    def append(self, rows: np.ndarray) -> None:
        content = rows.tobytes()
        try:
            with open(self._path, "r+b" if self._path.exists() else "w+b") as file:
                file.truncate(self._count * rows.dtype.itemsize)
                file.seek(0, os.SEEK_END)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error
        self.checksum = zlib.crc32(content, self.checksum)
        self._dtype = rows.dtype
        self._count += len(rows)

    def read(self) -> np.ndarray:
        """A view of the file: pages that are not looked at take no memory."""
        assert self._dtype is not None
        return np.memmap(self._path, self._dtype, mode="r", shape=(self._count,))

    def check(self) -> None:
        """Refuse a file that does not hold the rows it should."""
        if not self._count:
            return
        assert self._dtype is not None
        wanted = self._count * self._dtype.itemsize
        if not self._path.is_file() or self._path.stat().st_size < wanted:
            raise FileFormatError(f"{self._path} is missing or shorter than the {wanted} bytes it should have.")
        checksum = 0
        with open(self._path, "rb") as file:
            while wanted:
                part = file.read(min(wanted, 1 << 24))
                checksum, wanted = zlib.crc32(part, checksum), wanted - len(part)
        if checksum != self.checksum:
            raise FileFormatError(f"{self._path} is damaged: its checksum is not the one recorded with it.")
