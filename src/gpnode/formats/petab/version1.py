"""PEtab version 1: its files and tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Tree, names_in
from gpnode.formats.petab.statement import BEFORE, Parameter, Period, Prior, Row, Seen, Statement
from gpnode.formats.petab.tables import Cells, Table, file_beside

_SCALES = ("lin", "log", "log10")
_PRIORS = {
    "uniform": ("uniform", "lin"),
    "normal": ("normal", "lin"),
    "laplace": ("laplace", "lin"),
    "logNormal": ("log-normal", "lin"),
    "logLaplace": ("log-laplace", "lin"),
    "parameterScaleUniform": ("uniform", "scaled"),
    "parameterScaleNormal": ("normal", "scaled"),
    "parameterScaleLaplace": ("laplace", "scaled"),
}


def read_version1(path: Path, content: dict[str, Any]) -> Statement:
    """What a problem of version 1 states."""
    problems = content.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise FileFormatError(f"{path.name} must have exactly one entry under 'problems'.")
    problem, folder = problems[0], path.parent
    if content.get("extensions") or problem.get("extensions"):
        raise FileFormatError(f"{path.name} uses extensions of PEtab, which gpnode does not know.")
    if problem.get("mapping_files"):
        raise FileFormatError(f"{path.name} has mapping files, which gpnode reads in version 2 alone.")

    def files(key: str, what: str) -> list[Path]:
        named = problem.get(key) or []
        if not isinstance(named, list):
            raise FileFormatError(f"{key} in {path.name} must be a list of files.")
        return [file_beside(folder, name, what) for name in named]

    listed = content.get("parameter_file")
    parameter_files = [
        file_beside(folder, n, "table of parameters") for n in (listed if isinstance(listed, list) else [listed])
    ]
    models = files("sbml_files", "model")
    if len(models) != 1:
        raise FileFormatError(f"{path.name} must name one SBML file; it names {len(models)}.")
    parameters = Table(parameter_files, "parameters", ["parameterId", "parameterScale", "estimate"])
    conditions = Table(files("condition_files", "table of conditions"), "conditions", ["conditionId"])
    observables = Table(
        files("observable_files", "table of observables"),
        "observables",
        ["observableId", "observableFormula", "noiseFormula"],
    )
    measurements = Table(
        files("measurement_files", "table of measurements"),
        "measurements",
        ["observableId", "simulationConditionId", "measurement", "time"],
    )
    changes = {}
    for cells in conditions:
        name = cells.required("conditionId")
        if name in changes:
            raise FileFormatError(f"there are two conditions {name!r:.60}.")
        columns = [c for c in conditions.columns if c not in ("conditionId", "conditionName") and cells.text(c)]
        changes[name] = {column: cells.tree(column) for column in columns}
    experiments: dict[str, tuple[Period, ...]] = {}
    rows = []
    simulated = {(c.text("preequilibrationConditionId"), c.required("simulationConditionId")) for c in measurements}
    for i, cells in enumerate(measurements):
        pair = (cells.text("preequilibrationConditionId"), cells.required("simulationConditionId"))
        alone = sum(later == pair[1] for _, later in simulated) == 1
        name = pair[1] if alone else f"{pair[1]} after {pair[0]}" if pair[0] else f"{pair[1]} alone"
        if name not in experiments:
            for one in pair:
                if one and one not in changes:
                    raise FileFormatError(f"{cells.where} has the condition {one!r:.60}, which no table has.")
            periods = [Period(BEFORE, changes[pair[0]])] if pair[0] else []
            experiments[name] = (*periods, Period(0.0, changes[pair[1]]))
        rows.append(_row(i, cells, name))
    return Statement(
        version=1,
        path=path,
        model=models[0],
        parameters={one.name: one for one in map(_parameter, parameters)},
        observables={one.name: one for one in map(_observable, observables)},
        rows=tuple(rows),
        experiments=experiments,
        columns={"experiment": "simulationConditionId"},
        renamed={},
    )


def _row(i: int, cells: Cells, experiment: str) -> Row:
    return Row(
        i,
        cells.required("observableId"),
        experiment,
        cells.number("time"),
        cells.number("measurement"),
        cells.trees("observableParameters"),
        cells.trees("noiseParameters"),
    )


def _parameter(cells: Cells) -> Parameter:
    name = cells.required("parameterId")
    scale = cells.text("parameterScale", "lin")
    if scale not in _SCALES:
        raise FileFormatError(f"{cells.where} has the scale {scale!r:.60}; scales are {', '.join(_SCALES)}.")
    is_estimated = cells.number("estimate") != 0
    lower = cells.number("lowerBound", float("-inf"))
    upper = cells.number("upperBound", float("inf"))
    nominal = cells.number("nominalValue") if cells.text("nominalValue") else None
    return Parameter(name, scale, lower, upper, nominal, is_estimated, _prior(cells, scale) if is_estimated else None)


def _prior(cells: Cells, scale: str) -> Prior | None:
    kind = cells.text("objectivePriorType")
    if not kind:
        return None
    if kind not in _PRIORS:
        raise FileFormatError(f"{cells.where} has the prior {kind!r:.60}; priors are {', '.join(_PRIORS)}.")
    given = cells.text("objectivePriorParameters")
    if not given and kind == "parameterScaleUniform":
        return None
    try:
        numbers = tuple(float(part) for part in given.split(";"))
    except ValueError:
        raise FileFormatError(f"{cells.where} needs numbers for its prior, such as 0;1; got {given!r:.60}.") from None
    if len(numbers) != 2:
        raise FileFormatError(f"{cells.where} needs two numbers for its prior; got {given!r:.60}.")
    name, on = _PRIORS[kind]
    return Prior(name, numbers, scale if on == "scaled" else "lin")


def _observable(cells: Cells) -> Seen:
    name = cells.required("observableId")
    transform = cells.text("observableTransformation", "lin")
    shape = cells.text("noiseDistribution", "normal")
    if transform not in _SCALES or shape not in ("normal", "laplace"):
        raise FileFormatError(
            f"{cells.where} has the transformation {transform!r:.60} and the noise {shape!r:.60}; there are "
            f"{', '.join(_SCALES)}, and normal and laplace."
        )
    formula, noise = cells.tree("observableFormula"), cells.tree("noiseFormula")
    return Seen(
        name,
        formula,
        noise,
        transform,
        shape,
        _placeholders("observable", name, formula, noise),
        _placeholders("noise", name, formula, noise),
    )


def _placeholders(kind: str, name: str, *formulas: Tree) -> tuple[str, ...]:
    """Placeholders of one kind that formulas use, in the order in which measurements say what they are."""
    pattern = re.compile(rf"{kind}Parameter(\d+)_{re.escape(name)}\Z")
    used = {int(found[1]) for formula in formulas for n in names_in(formula) if (found := pattern.match(n))}
    return tuple(f"{kind}Parameter{i}_{name}" for i in range(1, max(used, default=0) + 1))
