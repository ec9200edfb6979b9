"""Whether XLA can call native code here: tried once for each version of what takes part, and remembered.

XLA's call frame is read by positions (:mod:`.ffi`). Should a future version lay it out otherwise, the trial crashes in
a process of its own, and models are solved by array code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jaxlib
import numba

from gpnode._config import cache_directory
from gpnode._files import write_text
from gpnode.errors import StorageError
from gpnode.solvers.native.ffi import LAYOUT, register

_COMMAND = ("-P", "-m", "gpnode.solvers.native.probe")  # without the folder one happens to be in
_LONGEST = 300.0  # seconds; usually it takes about five
_WORKS, _FAILS = "works", "fails"
_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE")
_CRASHES = [-getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
_VERDICTS = {0: _WORKS, 3: _FAILS, **dict.fromkeys(_CRASHES, _FAILS)}  # other exit codes tell nothing about XLA


@functools.cache
def why_unavailable() -> str | None:
    """Why XLA cannot call native code, or ``None`` if it can."""
    if getattr(sys, "frozen", False) or not sys.executable:
        return None  # there is no interpreter to try it with
    remembered = _verdict_file()
    verdict = _read(remembered)
    if verdict is None:
        try:
            code = _run_probe()
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"whether XLA can call native code could not be tried ({error})"
        verdict = _VERDICTS.get(code)
        if verdict is None:
            return f"whether XLA can call native code could not be tried (exit code {code})"
        if remembered is not None:
            with suppress(StorageError):
                write_text(remembered, verdict)
    if verdict == _WORKS:
        return None
    return f"this version of XLA calls native code in a way gpnode does not know (jaxlib {jaxlib.__version__})"


def serve_under(name: str, serve: Callable[[int], int]) -> None:
    """Let XLA call ``serve(frame)`` under ``name``, see :func:`.ffi.register`; refused where that might crash."""
    reason = why_unavailable()
    if reason is not None:
        raise RuntimeError(f"native code cannot be used: {reason}. Choose a solver in array code, such as Adaptive().")
    register(name, serve)


def _run_probe() -> int:
    """Exit code of the trial, which imports what this process would and runs on the CPU."""
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, *_COMMAND], env=environment, capture_output=True, timeout=_LONGEST, check=False
    )
    return done.returncode


def _verdict_file() -> Path | None:
    """Where the verdict on the versions here is kept, if anywhere."""
    directory = cache_directory()
    versions = (jaxlib.__version__, numba.__version__, sys.version, sys.platform, platform.machine(), LAYOUT)
    digest = hashlib.sha256(repr(versions).encode()).hexdigest()[:16]
    return None if directory is None else directory / f"native-calls-{digest}.txt"


def _read(path: Path | None) -> str | None:
    try:
        text = "" if path is None else path.read_text()
    except OSError:
        return None
    return text if text in (_WORKS, _FAILS) else None
