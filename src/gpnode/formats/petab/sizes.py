"""How large states are, before anything is solved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from gpnode.formats.formula import Name
from gpnode.formats.petab.formulas import Formulas
from gpnode.formats.petab.statement import Parameter, Statement
from gpnode.formats.petab.targets import Conditioned
from gpnode.formats.sbml.naming import at_start
from gpnode.formats.sbml.system import System

_NOTHING = 1e-3  # of what is usual: a start that small says nothing of how large a state becomes


def typical_sizes(
    conditioned: Conditioned,
    system: System,
    statement: Statement,
    constants: Mapping[str, float],
    experiments: Iterable[str],
) -> dict[str, float]:
    """How large states are at the start; those that begin with next to nothing, as large as others typically are."""
    nominal = {name: _typical(one) for name, one in statement.parameters.items() if one.is_estimated}
    largest = dict.fromkeys(system.states, 0.0)
    for name in experiments:
        values = dict(nominal)
        for number, (first, periods) in conditioned.inputs[name].items():
            found = Formulas(system, {"value": periods[0] if first is None else first}, constants)
            values[number] = float(found(0.0, {}, values)["value"])
        starts = {state: Name(at_start(state)) for state in system.states}
        at = Formulas(system.with_starts(conditioned.starts[name]), starts, constants)(0.0, {}, values)
        for state in system.states:
            value = abs(float(at[state]))
            largest[state] = max(largest[state], value if math.isfinite(value) else 0.0)
    sizes = [size for size in largest.values() if size > 0]
    usual = float(np.median(sizes)) if sizes else 1.0
    return {state: size if size > _NOTHING * usual else usual for state, size in largest.items()}


def _typical(parameter: Parameter) -> float:
    """A value of an estimated parameter: its nominal one, or the middle of its bounds."""
    if parameter.nominal is not None:
        return float(parameter.nominal)
    if parameter.scale != "lin":
        return math.sqrt(parameter.lower * parameter.upper)
    middle = 0.5 * (parameter.lower + parameter.upper)
    return middle if math.isfinite(middle) else 1.0
