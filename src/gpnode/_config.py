"""What gpnode sets for the whole process: here, and nowhere else.

When it is imported, until the process ends:

- ``jax_enable_x64``: statistics here need double precision. Other JAX code in the process gets float64 by default, too.
- the environment variable ``XLA_FLAGS``, unless it mentions ``xla_cpu_multi_thread_eigen``: each computation runs on
  one thread, because equal bits for equal seeds need that, and small loops are compiled in one piece. XLA reads the
  flags once, when the first computation runs, so importing gpnode before that is enough. Processes started later
  inherit them.

While it computes, and put back afterwards (:func:`computing`):

- JAX's compilation cache is in gpnode's own directory (:func:`cache_directory`), unless the user has chosen one. What
  other threads compile meanwhile is kept there as well.
- the linear algebra library below NumPy and SciPy runs on one thread.

Machine code of the native solvers is kept in the same directory. A fit in the main thread takes note of Ctrl-C while it
lasts (:mod:`gpnode.inference.running.interrupts`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

# The second flag compiles the solver's loop as one piece instead of one dispatch per operation: gradients are faster.
_CPU_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000"
)


P = ParamSpec("P")
T = TypeVar("T")

_MOST_KEPT = 500_000_000  # bytes of XLA's compiled code; beyond, what was used least recently is deleted
_WORTH_KEEPING = 0.2  # seconds of compiling


def configure_jax() -> None:
    """Switch on float64 and single-threaded XLA computations."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_CPU_FLAGS}".strip()
    os.environ["JAX_ENABLE_X64"] = "1"  # read when JAX is imported, which takes longer than all else here
    if "jax" in sys.modules:
        _jax().config.update("jax_enable_x64", True)


def _jax() -> Any:
    import jax

    return jax


_lock = threading.Lock()
_computing = 0
_undo = ExitStack()


@contextmanager
def computing() -> Iterator[None]:
    """Keep compiled code between runs, and linear algebra on one thread, while anyone in this process computes.

    A second thread would only wait, at full speed, for the next small matrix, and slow the first down many times over.
    Also a decorator.
    """
    global _computing, _undo
    with _lock:
        if _computing == 0:
            with ExitStack() as stack:
                stack.enter_context(_one_blas_thread())
                stack.enter_context(_compilation_cache())
                _undo = stack.pop_all()
        _computing += 1
    try:
        yield
    finally:
        with _lock:
            _computing -= 1
            if _computing == 0:
                _undo.close()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


@contextmanager
def _compilation_cache() -> Iterator[None]:
    directory = cache_directory() if _setting("jax_compilation_cache_dir") is None else None
    if directory is None:
        yield
        return
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    ours = {
        "jax_compilation_cache_dir": str(directory / f"xla-{_processor()}"),
        "jax_compilation_cache_max_size": _MOST_KEPT,
        "jax_persistent_cache_min_compile_time_secs": _WORTH_KEEPING,
    }
    before = {name: _setting(name) for name in ours}
    for name, value in ours.items():
        _jax().config.update(name, value)
    reset_cache()  # JAX opens a directory once, and would go on with it
    try:
        yield
    finally:
        for name, value in ours.items():
            if _setting(name) == value:  # not if someone has chosen another one meanwhile
                _jax().config.update(name, before[name])
        reset_cache()


def _setting(name: str) -> str | int | float | None:
    value: str | int | float | None = getattr(_jax().config, name)
    return value


def compiled_for_few_calls(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator for what is called so seldom that code which is quickly made is better than quick code."""
    return compiled(function, xla_backend_optimization_level=0, xla_cpu_use_fusion_emitters=False)


def compiled(function: Callable[P, T], **options: int | bool) -> Callable[P, T]:
    """The function, compiled with XLA's ``options`` beyond the usual ones; what ``XLA_FLAGS`` says is not changed."""
    flags = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in options.items() if name not in flags and name not in _gone_options()}
    import equinox as eqx  # who compiles has it loaded; who only imports gpnode need not wait for it

    return eqx.filter_jit(function, compiler_options=options)  # type: ignore[call-overload]


@functools.cache
def _gone_options() -> frozenset[str]:
    """Options of which the installed XLA would say that it knows them no more."""
    return frozenset({"xla_cpu_use_fusion_emitters"} if _jax().__version_info__ >= (0, 11, 1) else ())


@functools.cache
def _processor() -> str:
    """A name for the kind of processor: a home directory may be shared by machines that differ."""
    from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

    features = f"{get_host_cpu_name()} {get_host_cpu_features().flatten()}"
    return hashlib.sha256(features.encode()).hexdigest()[:12]


def cache_directory() -> Path | None:
    """Where compiled code is kept between runs; ``GPNODE_CACHE`` overrides, ``None`` if nowhere is writable."""
    chosen = os.environ.get("GPNODE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    root = Path(chosen) if chosen else Path.home() / ".cache"
    directory = root / "gpnode"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        return None


def require_float64() -> None:
    """Refuse to compute if something switched double precision off again."""
    if not _jax().config.jax_enable_x64:
        raise RuntimeError(
            "gpnode needs double precision, but jax_enable_x64 is off. "
            "Remove the line that switches it off, or call "
            "jax.config.update('jax_enable_x64', True) before fitting."
        )
