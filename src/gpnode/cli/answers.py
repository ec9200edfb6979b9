"""What commands say of a fit that has ended, kept beside it, so that what was worked out once is there at once.

An answer is that of one posterior, one problem and one state of the software. Where any of these is another one now, it
is worked out again. Nothing here loads what computing needs before it is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpnode
from gpnode._files import make_folder, write_text
from gpnode.cli.exits import NOT_CONVERGED, NOT_EXPLAINED, OK
from gpnode.errors import StorageError

if TYPE_CHECKING:
    from gpnode.results.diagnostics.verdict import Verdict
    from gpnode.results.posterior import Posterior

FOLDER = "answers"
_POSTERIOR = "posterior.nc"
_MADE_FROM_THE_REST = {FOLDER, "checkpoint", "report.html", "equations.txt"}


class Answers:
    """Answers about the fit in the directory ``run``, whose ``posterior`` is loaded if nobody has it."""

    def __init__(self, run: Path, posterior: Posterior | None = None) -> None:
        self._run = run
        self._given = posterior

    @cached_property
    def posterior(self) -> Posterior:
        """What all answers are made from."""
        if self._given is not None:
            return self._given
        from gpnode.formats.runs import load_run

        return load_run(self._run)

    def get(self, name: str, make: Callable[[Posterior], str]) -> str:
        """The answer that was kept under ``name``, or else what ``make`` says now."""
        if self._digest is None:
            return make(self.posterior)
        path = self._run / FOLDER / name
        with suppress(OSError, UnicodeDecodeError):
            made_from, _, answer = path.read_text(encoding="utf-8").partition("\n")
            if made_from == self._digest:
                return answer
        answer = make(self.posterior)
        with suppress(StorageError):  # where nothing can be written, there is nothing kept
            make_folder(path.parent)
            write_text(path, f"{self._digest}\n{answer}")
        return answer

    def verdict(self) -> dict[str, Any]:
        """The verdict as ``text``, as ``content`` for JSON, and as ``exit_code``."""
        said: dict[str, Any] = json.loads(self.get("verdict.json", lambda p: json.dumps(_in_words(p.diagnose()))))
        return said

    def equations(self, kind: str) -> str:
        """The equations as ``latex``, ``python`` or ``sympy``."""
        return self.get(f"equations.{kind}", _WRITERS[kind])

    def report(self) -> str:
        """The page of the report."""
        return self.get("report.html", _report)

    @cached_property
    def _digest(self) -> str | None:
        """Of the posterior, what stands beside it and the software; None if the run has not ended."""
        if not (self._run / _POSTERIOR).is_file():
            return None
        digest = hashlib.sha256(gpnode.__version__.encode())
        package = Path(gpnode.__file__).parent
        for source in sorted(package.rglob("*.py")):
            state = source.stat()
            digest.update(f"{source.relative_to(package)}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
        for path in sorted(self._run.rglob("*")):
            parts = path.relative_to(self._run).parts
            if path.is_file() and parts[0] not in _MADE_FROM_THE_REST and not path.name.startswith("."):
                with path.open("rb") as file:
                    digest.update(f"{'/'.join(parts)}\0".encode() + hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()


def _in_words(verdict: Verdict) -> dict[str, Any]:
    content = {
        "headline": verdict.headline,
        "converged": verdict.converged,
        "explains": verdict.explains,
        "recommended": verdict.recommended,
        "checks": [
            {"half": c.half, "name": c.name, "passed": c.passed, "finding": c.finding, "remedy": c.remedy}
            for c in verdict.checks
        ],
    }
    exit_code = NOT_CONVERGED if not verdict.converged else OK if verdict.explains else NOT_EXPLAINED
    return {"text": str(verdict), "content": content, "exit_code": exit_code}


def _sympy(posterior: Posterior) -> str:
    return "".join(f"{state}: {right!r}\n" for state, right in posterior.equations().expressions().items())


def _report(posterior: Posterior) -> str:
    import matplotlib.pyplot as plt

    from gpnode.render.report.page import build

    plt.switch_backend("Agg")
    return build(posterior)


_WRITERS: dict[str, Callable[[Posterior], str]] = {
    "latex": lambda posterior: f"{posterior.equations().latex()}\n",
    "python": lambda posterior: f"{posterior.equations().python(start=posterior.first_values())}\n",
    "sympy": _sympy,
}
EQUATIONS = tuple(_WRITERS)
"""Ways in which equations are written."""
