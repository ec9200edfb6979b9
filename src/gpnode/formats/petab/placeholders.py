"""What each measurement says of its observable: as parameters, or as numbers that come with measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Number, Tree
from gpnode.formats.petab.statement import Row


def fill_placeholders(
    names: Sequence[str], rows: Sequence[Row], noise: bool
) -> tuple[dict[str, Tree], dict[str, np.ndarray]]:
    """Formulas to put in the place of placeholders of one observable, and numbers (n,) that come with its ``rows``.

    What is the same for all is put there itself. Different numbers come with measurements. Of different parameters,
    numbers with measurements say which one it is.
    """
    trees: dict[str, Tree] = {}
    columns: dict[str, np.ndarray] = {}
    for k, name in enumerate(names):
        said = []
        for row in rows:
            listed = row.noise_parameters if noise else row.parameters
            if len(listed) != len(names):
                raise FileFormatError(
                    f"row {row.row + 1} of the table of measurements says {len(listed)} "
                    f"{'noise' if noise else 'observable'} parameters of {row.observable!r:.60}, which has "
                    f"{len(names)}."
                )
            said.append(listed[k])
        kinds = list(dict.fromkeys(said))
        if len(kinds) == 1:
            trees[name] = kinds[0]
            continue
        numbers = [one.value if isinstance(one, Number) else 0.0 for one in said]
        formulas = [one for one in kinds if not isinstance(one, Number)]
        if not formulas:
            columns[name] = np.array(numbers)
            continue
        parts: list[Tree] = []
        if any(numbers):
            columns[f"{name}@number"] = np.array(numbers)
            parts.append(Name(f"{name}@number"))
        for i, formula in enumerate(formulas):
            columns[f"{name}@{i}"] = np.array([float(one == formula) for one in said])
            parts.append(Call("times", (Name(f"{name}@{i}"), formula)))
        trees[name] = parts[0] if len(parts) == 1 else Call("plus", tuple(parts))
    return trees, columns
