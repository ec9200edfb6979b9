"""One process at a time works in a directory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpnode.errors import CheckpointError, StorageError
from gpnode.inference.running.checkpoint import _lock

HOLD = """
import sys, pathlib, time
from gpnode.inference.running.checkpoint import _lock
held = _lock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_directory_is_held_until_it_is_released(tmp_path):
    held = _lock(tmp_path)
    with pytest.raises(CheckpointError, match="another process"):
        _lock(tmp_path)
    held.release()
    _lock(tmp_path).release()


def test_the_system_lets_go_when_the_holder_dies(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(CheckpointError, match="another process"):
                _lock(tmp_path)
        finally:
            holder.kill()
    _lock(tmp_path).release()


def test_a_directory_that_cannot_be_written(tmp_path):
    with pytest.raises(StorageError, match="cannot write"):
        _lock(tmp_path / "missing")
