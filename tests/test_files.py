"""Files of arrays that are whole, or refused."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest

import gpnode as gn
from gpnode._files import read_arrays, write_arrays


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asarray("text"), "c": np.asfortranarray(np.eye(3)[:2])}
    write_arrays(tmp_path / "file.npz", arrays)
    found = read_arrays(tmp_path / "file.npz")
    assert all(np.array_equal(found[n], a) and found[n].dtype == a.dtype for n, a in arrays.items())


def test_arrays_of_objects_are_refused_unread(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.savez(tmp_path / "trap.npz", a=np.array([Trap()], dtype=object))
    with pytest.raises(gn.FileFormatError, match=r"trap\.npz"):
        read_arrays(tmp_path / "trap.npz")
    assert not (tmp_path / "sprung").exists()


def test_sizes_are_not_believed(tmp_path):
    header = json.dumps({"descr": "<f8", "fortran_order": False, "shape": [0]}).replace("false", "False")
    header = header.replace("[0]", "(1000000000000,)").ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 8
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(gn.FileFormatError, match="does not hold what it says"):
        read_arrays(tmp_path / "huge.npz")
    np.savez_compressed(tmp_path / "small.npz", a=np.zeros(1_000_000))
    with pytest.raises(gn.FileFormatError, match="compressed"):
        read_arrays(tmp_path / "small.npz")
    write_arrays(tmp_path / "fine.npz", {"a": np.zeros(100)})
    with pytest.raises(gn.FileFormatError, match="at most 100"):
        read_arrays(tmp_path / "fine.npz", largest=100)
