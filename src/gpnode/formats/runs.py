"""Directories of results, as ``gpnode fit`` writes them."""

from __future__ import annotations

from pathlib import Path

from gpnode.formats.registry import read_kept_problem
from gpnode.results.posterior import Posterior

CHECKPOINT, POSTERIOR = "checkpoint", "posterior.nc"  # names inside the directory


def load_run(folder: str | Path) -> Posterior:
    """The posterior in a directory that ``gpnode fit`` wrote; of a run that has not ended, the draws so far.

    >>> gn.load_run("lynx-hare/fit").equations()  # doctest: +SKIP
    """
    folder = Path(folder)
    problem = read_kept_problem(folder)
    if not (folder / POSTERIOR).exists() and (folder / CHECKPOINT).exists():
        from gpnode.fitting.single import open_checkpoint  # all that fits need, which those that ended do not

        return open_checkpoint(folder / CHECKPOINT, problem.model, problem.data)
    return Posterior.load(folder / POSTERIOR, problem.model, problem.data)
