"""Files that are whole or not there: atomic writes, and arrays read without trusting the file."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpnode.errors import FileFormatError, StorageError

LARGEST_ARRAYS = 2**32  # bytes in a file of arrays


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """A path to write to instead of ``path``, which takes its place on disk when the context ends without an error.

    A reader sees the old file or the new one, never a part. What a killed process leaves beside the target is
    overwritten by the next write.
    """
    aside = path.with_name(f".{path.name}.tmp")
    try:
        aside.unlink(missing_ok=True)
        yield aside
        with open(aside, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file, all or nothing, by a function that fills an open one."""
    with whole_or_nothing(path) as aside, open(aside, "wb") as file:
        write(file)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power cut, where the system allows it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_write(path: Path, error: Exception) -> StorageError:
    """The error to raise when the system refuses to write ``path``."""
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return StorageError(
        f"cannot write {path}: {reason}. What was written before is intact. "
        "Make room, or choose a directory you may write to."
    )


def make_folder(folder: Path) -> None:
    """Make a directory with its parents, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, all or nothing."""
    with open(source, "rb") as file:
        write_atomically(target, lambda out: shutil.copyfileobj(file, out))


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, all or nothing."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays of numbers or text as an uncompressed ``.npz`` file, all or nothing."""
    plain: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **plain))


def read_arrays(path: Path, largest: int = LARGEST_ARRAYS) -> dict[str, np.ndarray]:
    """Read what :func:`write_arrays` wrote. No code in the file is run, and no more memory taken than it has bytes."""
    try:
        if path.stat().st_size > largest:
            raise FileFormatError(f"{path} has {path.stat().st_size} bytes; at most {largest} are read.")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > largest for m in members):
                raise ValueError("it is compressed, which gpnode's files are not")
            return {m.filename.removesuffix(".npy"): _read_array(archive, m) for m in members}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not a file of gpnode's, or is damaged ({error}).") from error


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        major, _ = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(file)
        content = file.read()
    if dtype.hasobject or len(content) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError(f"{member.filename} does not hold what it says")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")
