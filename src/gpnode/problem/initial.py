"""Where paths start: values that are known, and those that are inferred."""

from __future__ import annotations

import equinox as eqx
from jax import Array

from gpnode.model.priors.parameters import Independent, Values


class InitialStates(eqx.Module):
    """Initial values: ``known`` (experiments, states) in user units, unknown ones by name.

    ``unknown`` lists (experiment, state, parameter name).
    """

    block: Independent
    known: Array
    unknown: tuple[tuple[int, int, str], ...] = eqx.field(static=True)

    @property
    def free_states(self) -> tuple[int, ...]:
        """States whose initial value is unknown in some experiment."""
        return tuple(sorted({d for _, d, _ in self.unknown}))

    def values(self, values: Values) -> Array:
        """Initial values (experiments, states) in user units."""
        initial = self.known
        for r, d, name in self.unknown:
            initial = initial.at[r, d].set(values[name])
        return initial
