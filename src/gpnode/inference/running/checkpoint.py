"""A run on disk: everything needed to go on after each chunk of each chain, and nothing that can be half there.

    run.json        what is run: fingerprint of model and data, seed, sampler, versions
    start.npz       what the search found: grid, maxima, first points of the chains
    chain-0.npz     state of a chain after its last complete chunk, with the checksum of its draws
    chain-0.draws   its draws, one row after the other

Rows are added to a chain's draws first; the state that counts them follows, by a rename. Whatever happens in
between, the state on disk and the rows it counts belong together.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from filelock import BaseFileLock, FileLock, Timeout

from gpnode._files import cannot_write, make_folder, read_arrays, write_arrays, write_text
from gpnode._versions import installed_versions
from gpnode.data.observations import Observations
from gpnode.data.scaling import Scaling
from gpnode.errors import CheckpointError, FileFormatError
from gpnode.inference.maximum import Maximum
from gpnode.inference.running.chains import Chain
from gpnode.inference.running.traces import FileTrace
from gpnode.inference.samplers.base import Method
from gpnode.inference.samplers.registry import METHODS
from gpnode.inference.starting.search import Candidate, SearchResult
from gpnode.inference.starting.start import Start
from gpnode.model.model import Model
from gpnode.problem.binding import bind
from gpnode.problem.grid import on_nodes

FORMAT = 4
_SCALES = ("state_scale", "time_origin", "time_unit", "record_length")  # fields of a scaling
_LARGEST_JSON = 1_000_000
_NUMBERS = "fiub"  # kinds of NumPy types a row may have


@dataclasses.dataclass(frozen=True)
class Run:
    """What a directory is the checkpoint of."""

    fingerprint: str
    seed: int
    method: Method
    versions: Mapping[str, str]


def read_run(folder: Path) -> Run | None:
    """What is run in ``folder``; None if nothing is."""
    path = folder / "run.json"
    if not path.exists():
        return None
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise ValueError("it is too large")
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, and this version of gpnode reads {FORMAT}")
        method = METHODS[content["method"]].from_settings(content["settings"])
        return Run(str(content["fingerprint"]), int(content["seed"]), method, dict(content["versions"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a checkpoint of gpnode's, or is damaged ({error}).") from error


def check_same(folder: Path, run: Run) -> None:
    """Refuse to go on with the checkpoint of another run. Only the number of draws may differ."""
    before = read_run(folder)
    if before is None:
        return
    if before.fingerprint != run.fingerprint:
        what = "another model or other data"
    elif before.seed != run.seed:
        what = f"seed {before.seed}, not {run.seed}"
    elif not before.method.same_but_for_length(run.method):
        what = f"another sampler, {before.method}"
    else:
        return
    raise CheckpointError(
        f"{folder} holds the checkpoint of a run with {what}. Choose another directory, or delete this one to begin "
        "anew."
    )


class Checkpoint:
    """The directory of a run, held by this process alone while the context lasts."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self._run = folder, run
        self._lock: BaseFileLock | None = None

    def __enter__(self) -> Checkpoint:
        make_folder(self.folder)
        self._lock = _lock(self.folder)
        check_same(self.folder, self._run)
        before = read_run(self.folder)
        if before is not None and before.versions != self._run.versions:
            warnings.warn(
                f"{self.folder} was begun with other versions of Python or libraries: draws are sound, but not to the "
                "last bit those of a run without interruption.",
                stacklevel=2,
            )
        if before is None or before.method != self._run.method:
            self._write_run()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def _write_run(self) -> None:
        method = self._run.method
        content = {
            "format": FORMAT,
            "fingerprint": self._run.fingerprint,
            "seed": self._run.seed,
            "method": method.name,
            "settings": method.describe(),
            "versions": dict(self._run.versions),
        }
        write_text(self.folder / "run.json", json.dumps(content, indent=1))

    # -- the start ------------------------------------------------------------------------

    def save_start(self, start: Start, points: list[np.ndarray]) -> None:
        """Keep what the search found, and where chains begin in the coordinates of their whitenings."""
        problem, search = start.problem, start.search
        described = {
            "solver": {"kind": type(problem.solver).__name__, **vars(problem.solver)},
            "failed_solves": search.failed_solves,
            "origins": [c.origin for c in search.candidates],
            "piloted": start.piloted,
        }
        arrays = {
            "description": json.dumps(described),
            "nodes": problem.nodes,
            **{name: getattr(problem.scaling, name) for name in _SCALES},
            "centres": [m.centre for m in start.maxima],
            "scale_trils": [m.scale_tril for m in start.maxima],
            "log_densities": [m.log_density for m in start.maxima],
            "candidates": [c.unconstrained for c in search.candidates],
            "misfits": [c.misfit for c in search.candidates],
            "points": np.reshape(points, (len(points), problem.size)),
        }
        write_arrays(self.folder / "start.npz", arrays)

    def begin_again(self, start: Start, points: list[np.ndarray]) -> None:
        """Forget the chains, and keep another start. Cut short in between, the run comes to this place again."""
        for path in (kept(index) for index in range(len(points)) for kept in (self._state, self._draws)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise cannot_write(path, error) from error
        self.save_start(start, points)

    def load_start(self, model: Model, data: Observations) -> tuple[Start, list[np.ndarray]] | None:
        """What :meth:`save_start` kept; None if the search has not ended yet."""
        return load_start(self.folder, model, data)

    # -- chains ---------------------------------------------------------------------------

    def restore(self, chain: Chain) -> None:
        """Bring a chain that stands at its start to where it was, and let its draws go to disk from now on."""
        chain.trace = FileTrace(self._draws(chain.index))
        found = read_chain(self.folder, chain.index)
        if found is not None:
            arrays, chain.trace = found
            chain.state = _unpack(arrays, chain.state, self._state(chain.index))
            chain.warmup_failures = arrays["warmup_failures"].copy()
            chain.divergences = int(arrays["divergences"])
            chain.done, chain.seconds = int(arrays["done"]), float(arrays["seconds"])
            chain.warm, chain.settled = int(arrays["warm"]), int(arrays["settled"])

    def keep(self, chain: Chain) -> None:
        """Record where a chain is, after its draws have been written."""
        trace = chain.trace
        assert isinstance(trace, FileTrace)
        arrays = _pack(chain.state) | {
            "done": chain.done,
            "warm": chain.warm,
            "kept": trace.count,
            "settled": chain.settled,
            "seconds": chain.seconds,
            "divergences": chain.divergences,
            "warmup_failures": chain.warmup_failures,
            "checksum": trace.checksum,
            "row": json.dumps([] if trace.dtype is None else trace.dtype.descr),
        }
        write_arrays(self._state(chain.index), arrays)

    def _state(self, index: int) -> Path:
        return self.folder / f"chain-{index}.npz"

    def _draws(self, index: int) -> Path:
        return self.folder / f"chain-{index}.draws"


def load_start(folder: Path, model: Model, data: Observations) -> tuple[Start, list[np.ndarray]] | None:
    """The start kept in ``folder`` on the very same grid and in the same units; None if there is none yet."""
    path = folder / "start.npz"
    if not path.exists():
        return None
    arrays = read_arrays(path)
    try:
        described = json.loads(str(arrays["description"]))
        solver = dict(described["solver"])
        kind = solver.pop("kind")
        problem = bind(model, data, scaling=Scaling(*(jnp.asarray(arrays[name]) for name in _SCALES)))
        if type(problem.solver).__name__ != kind:
            raise CheckpointError(
                f"{folder} was begun with the solver {kind}, and this machine would use "
                f"{type(problem.solver).__name__}: the draws would not fit together. Begin anew in another directory."
            )
        problem = on_nodes(problem, arrays["nodes"], solver)
        size = problem.size
        maxima = tuple(
            Maximum(c.reshape(size), s.reshape(size, size), float(d))
            for c, s, d in zip(arrays["centres"], arrays["scale_trils"], arrays["log_densities"], strict=True)
        )
        candidates = tuple(
            Candidate(u, float(m), str(o))
            for u, m, o in zip(arrays["candidates"], arrays["misfits"], described["origins"], strict=True)
        )
        search = SearchResult(candidates, int(described["failed_solves"]))
        return Start(problem, maxima, search, bool(described.get("piloted", False))), [
            p.reshape(size) for p in arrays["points"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise FileFormatError(f"{path} does not fit this run ({error}). Delete {folder} to begin anew.") from error


def read_chain(folder: Path, index: int) -> tuple[dict[str, np.ndarray], FileTrace] | None:
    """What is kept of a chain, and its draws; None before its first chunk."""
    path = folder / f"chain-{index}.npz"
    if not path.exists():
        return None
    arrays = read_arrays(path)
    try:
        count, checksum = (int(arrays[name]) for name in ("kept", "checksum"))
        fields = json.loads(str(arrays["row"]))
        dtype = np.dtype([(str(n), str(t), tuple(map(int, shape[0])) if shape else ()) for n, t, *shape in fields])
        if any(dtype[name].base.kind not in _NUMBERS for name in dtype.names or ()):
            raise ValueError("rows hold something else than numbers")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise FileFormatError(f"{path} is not the state of a chain ({error}).") from error
    if count and not {"draw", "diverging", "failure", "warming"} <= set(dtype.names or ()):
        raise FileFormatError(f"{path} is not the state of a chain: its rows have no draws.")
    trace = FileTrace(folder / f"chain-{index}.draws", dtype if count else None, count, checksum)
    trace.check()
    return arrays, trace


def _pack(state: Any) -> dict[str, np.ndarray]:
    """Leaves of a state as arrays; of random keys, their words."""
    leaves = jax.tree.leaves(state)
    words = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]
    return {f"state-{i}": np.asarray(w) for i, w in enumerate(words)}


def _unpack(arrays: Mapping[str, np.ndarray], like: Any, path: Path) -> Any:
    """The state kept in ``arrays``, which must have the shapes and types of ``like``."""
    leaves, tree = jax.tree.flatten(like)
    restored = []
    for i, leaf in enumerate(leaves):
        words = arrays.get(f"state-{i}")
        wanted = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        if words is None or words.shape != wanted.shape or words.dtype != wanted.dtype:
            raise FileFormatError(f"{path} is the state of a chain of another run. Delete it to begin the chain anew.")
        restored.append(jax.random.wrap_key_data(jnp.asarray(words)) if _is_key(leaf) else jnp.asarray(words))
    return jax.tree.unflatten(tree, restored)


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _lock(folder: Path) -> BaseFileLock:
    """Hold ``folder`` for this process. The system lets go when the process ends, however it ends."""
    path = folder / "lock"
    try:
        path.touch()
    except OSError as error:
        raise cannot_write(path, error) from error
    lock = FileLock(path, thread_local=False)  # whoever ends the context may be another thread
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise CheckpointError(
            f"another process is at work in {folder}. Wait for it, or choose another directory."
        ) from None
    except (OSError, NotImplementedError):  # file systems without locks
        pass
    return lock


def new_run(fingerprint: str, seed: int, method: Method) -> Run:
    """What is to be run, with the versions of now."""
    return Run(fingerprint, seed, method, installed_versions())
