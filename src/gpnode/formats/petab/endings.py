"""Measurements after an infinite time: of experiments of their own, which begin at rest."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from gpnode.errors import FileFormatError
from gpnode.formats.petab.statement import BEFORE, Period, Statement
from gpnode.formats.petab.targets import number_of
from gpnode.formats.sbml.system import System


def split_endings(system: System, statement: Statement) -> tuple[Statement, Collection[str]]:
    """The same problem, with experiments for what is measured at rest, and the names of these."""
    ending = {row.experiment for row in statement.rows if row.time == math.inf}
    if not ending:
        return statement, ()
    names = {name: f"{name} at rest" for name in ending}
    experiments = dict(statement.experiments)
    for name in sorted(ending):
        experiments[names[name]] = _rest_of(name, system, statement)
    rows = tuple(
        replace(row, experiment=names[row.experiment], time=0.0) if row.time == math.inf else row
        for row in statement.rows
    )
    return replace(statement, experiments=experiments, rows=rows), tuple(names.values())


def _rest_of(name: str, system: System, statement: Statement) -> tuple[Period, ...]:
    """Periods of an experiment that begins where another one ends."""
    first, *later = statement.experiments[name]
    if system.happenings:
        raise FileFormatError(f"{name!r:.60} is measured at rest, and the model has events on the way there.")
    for period in later:
        if any(first.changes.get(target) != tree for target, tree in period.changes.items()):
            raise FileFormatError(
                f"{name!r:.60} is measured at rest, and changes on the way there: where it comes to rest may depend on "
                "both. gpnode takes such measurements of experiments with one condition."
            )
    held = {t: tree for t, tree in first.changes.items() if number_of(system, statement.renamed.get(t, t)) is not None}
    return Period(BEFORE, first.changes), Period(0.0, held)
