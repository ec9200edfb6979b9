"""PEtab version 2: its files and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Tree
from gpnode.formats.petab.statement import Parameter, Period, Prior, Row, Seen, Statement
from gpnode.formats.petab.tables import Cells, Table, file_beside

_NOISES = {
    "normal": ("lin", "normal"),
    "laplace": ("lin", "laplace"),
    "log-normal": ("log", "normal"),
    "log-laplace": ("log", "laplace"),
}
_PRIORS = {
    "cauchy": 2,
    "chisquare": 1,
    "exponential": 1,
    "gamma": 2,
    "laplace": 2,
    "log-laplace": 2,
    "log-normal": 2,
    "log-uniform": 2,
    "normal": 2,
    "rayleigh": 1,
    "uniform": 2,
}
_WITHOUT = "all measurements"
"""The name of the experiment of measurements that name none."""


def read_version2(path: Path, content: dict[str, Any]) -> Statement:
    """What a problem of version 2 states."""
    folder = path.parent
    if content.get("extensions"):
        raise FileFormatError(f"{path.name} uses extensions of PEtab, which gpnode does not know.")

    def table(key: str, what: str, needed: list[str]) -> Table:
        named = content.get(key) or []
        if not isinstance(named, list):
            raise FileFormatError(f"{key} in {path.name} must be a list of files.")
        return Table([file_beside(folder, name, f"table of {what}") for name in named], what, needed)

    models = content.get("model_files")
    if not isinstance(models, dict) or len(models) != 1:
        raise FileFormatError(f"{path.name} must name one model under 'model_files'.")
    ((model_name, model),) = models.items()
    if not isinstance(model, dict) or str(model.get("language", "sbml")).lower() != "sbml":
        raise FileFormatError(f"the model {model_name!r:.60} is not SBML, which is all that gpnode reads.")
    changes: dict[str, dict[str, Tree]] = {}
    for cells in table("condition_files", "conditions", ["conditionId", "targetId", "targetValue"]):
        own = changes.setdefault(cells.required("conditionId"), {})
        target = cells.required("targetId")
        if target in own:
            raise FileFormatError(f"{cells.where} sets {target!r:.60} a second time.")
        own[target] = cells.tree("targetValue")
    experiments = _experiments(table("experiment_files", "experiments", ["experimentId", "time"]), changes)
    renamed = {
        cells.required("petabEntityId"): cells.text("modelEntityId")
        for cells in table("mapping_files", "names", ["petabEntityId", "modelEntityId"])
    }
    rows = []
    measurements = table("measurement_files", "measurements", ["observableId", "time", "measurement"])
    for i, cells in enumerate(measurements):
        name = cells.text("experimentId") or _WITHOUT
        if name == _WITHOUT:
            experiments.setdefault(name, (Period(0.0, {}),))
        if name not in experiments:
            raise FileFormatError(f"{cells.where} has the experiment {name!r:.60}, which no table has.")
        rows.append(
            Row(
                i,
                cells.required("observableId"),
                name,
                cells.number("time"),
                cells.number("measurement"),
                cells.trees("observableParameters"),
                cells.trees("noiseParameters"),
            )
        )
    parameters = table("parameter_files", "parameters", ["parameterId", "estimate"])
    observables = table("observable_files", "observables", ["observableId", "observableFormula", "noiseFormula"])
    return Statement(
        version=2,
        path=path,
        model=file_beside(folder, model.get("location"), "model"),
        parameters={one.name: one for one in map(_parameter, parameters)},
        observables={one.name: one for one in map(_observable, observables)},
        rows=tuple(rows),
        experiments=experiments,
        columns={"experiment": "experimentId"},
        renamed={petab: entity for petab, entity in renamed.items() if entity and entity != petab},
    )


def _experiments(table: Table, changes: dict[str, dict[str, Tree]]) -> dict[str, tuple[Period, ...]]:
    """Periods of each experiment, in the order of time; conditions of one time are one period."""
    by_time: dict[str, dict[float, dict[str, Tree]]] = {}
    for cells in table:
        periods = by_time.setdefault(cells.required("experimentId"), {})
        at = periods.setdefault(cells.number("time"), {})
        for name in cells.names("conditionId"):
            if name not in changes:
                raise FileFormatError(f"{cells.where} has the condition {name!r:.60}, which no table has.")
            for target, tree in changes[name].items():
                if target in at:
                    raise FileFormatError(f"{cells.where} sets {target!r:.60} a second time.")
                at[target] = tree
    return {name: tuple(Period(time, periods[time]) for time in sorted(periods)) for name, periods in by_time.items()}


def _parameter(cells: Cells) -> Parameter:
    name, estimate = cells.required("parameterId"), cells.required("estimate").lower()
    if estimate not in ("true", "false"):
        raise FileFormatError(f"{cells.where} must say true or false in 'estimate'; got {estimate!r:.60}.")
    lower = cells.number("lowerBound", float("-inf"))
    upper = cells.number("upperBound", float("inf"))
    nominal = cells.number("nominalValue") if cells.text("nominalValue") else None
    return Parameter(name, "lin", lower, upper, nominal, estimate == "true", _prior(cells))


def _prior(cells: Cells) -> Prior | None:
    kind = cells.text("priorDistribution")
    if not kind:
        return None
    if kind not in _PRIORS:
        raise FileFormatError(f"{cells.where} has the prior {kind!r:.60}; priors are {', '.join(_PRIORS)}.")
    given = cells.text("priorParameters")
    try:
        numbers = tuple(float(part) for part in given.split(";"))
    except ValueError:
        raise FileFormatError(f"{cells.where} needs numbers for its prior, such as 0;1; got {given!r:.60}.") from None
    if len(numbers) != _PRIORS[kind]:
        raise FileFormatError(f"{cells.where} needs {_PRIORS[kind]} numbers for its prior; got {given!r:.60}.")
    return Prior(kind, numbers, bounded=True)


def _observable(cells: Cells) -> Seen:
    name = cells.required("observableId")
    noise = cells.text("noiseDistribution", "normal")
    if noise not in _NOISES:
        raise FileFormatError(f"{cells.where} has the noise {noise!r:.60}; there are {', '.join(_NOISES)}.")
    return Seen(
        name,
        cells.tree("observableFormula"),
        cells.tree("noiseFormula"),
        *_NOISES[noise],
        cells.names("observablePlaceholders"),
        cells.names("noisePlaceholders"),
    )
