"""An SBML file in the hands of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnode.data.experiments import Experiment
from gpnode.formats.sbml.reading import read_system
from gpnode.formats.sbml.simulation import Simulation
from gpnode.formats.sbml.stating import state_experiment, state_model
from gpnode.formats.sbml.system import System
from gpnode.model.model import Model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class SbmlFile:
    """What an SBML file says; made by :func:`read_sbml`.

    ``system`` holds its formulas, ``priors`` what takes the place of its numbers in a fit.
    """

    name: str
    system: System
    priors: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        system = self.system
        parts = [f"{len(system.states)} states", f"{len(system.numbers)} numbers", f"{len(system.happenings)} events"]
        return f"SbmlFile({self.name}: {', '.join(parts)})"

    @property
    def states(self) -> tuple[str, ...]:
        """What is integrated over time. The amount of a species in a compartment that grows is ``S@amount``."""
        return self.system.states

    @property
    def numbers(self) -> Mapping[str, float]:
        """Parameters and sizes of compartments that nothing changes; ``R@k`` is ``k`` in the rate of reaction ``R``."""
        return self.system.numbers

    def with_priors(self, priors: Mapping[str, Any]) -> SbmlFile:
        """The same file with priors, or other numbers, in the place of its numbers."""
        return replace(self, priors={**self.priors, **priors})

    @property
    def model(self) -> Model:
        """The model that a fit takes: equations, numbers or priors, initial values."""
        return self.model_with()

    def model_with(self, *, measured: Sequence[str] = (), **settings: Any) -> Model:
        """The model with settings of :class:`Model`; by default the solver is :class:`NativeStiff`.

        Anything of the file that is no state is an observable if it is named in ``measured``.
        """
        return state_model(self.system, self.priors, measured, settings)

    @property
    def experiment(self) -> Experiment:
        """What the events of the file do, for ``data.with_experiments``; refused by name if a fit cannot do it."""
        return self.experiment_with()

    def experiment_with(self, *, most: int | None = None) -> Experiment:
        """The same where the state triggers events; each happens at most so many times."""
        return state_experiment(self.system, self.priors, most)

    def simulate(
        self, times: Sequence[float] | np.ndarray, numbers: Mapping[str, float] | None = None, **settings: Any
    ) -> pd.DataFrame:
        """Everything with an identifier at ``times``, as formulas of the file mean it: a row for each time.

        ``numbers`` take the place of those of the file. Settings are those of
        :class:`gpnode.formats.sbml.simulation.Simulation`.
        """
        import pandas as pd

        values = Simulation(**settings).run(self.system, [float(t) for t in times], numbers)
        return pd.DataFrame(values, index=pd.Index(np.asarray(times, dtype=float), name="time"))


def read_sbml(path: str | Path) -> SbmlFile:
    """Read an SBML file, of any level, with all that it defines; what cannot be honoured is refused by name.

    Needs the extra ``gpnode[petab]``.

    Examples
    --------
    A file, here one that is written on the spot, and what becomes of it:

    >>> from pathlib import Path
    >>> _ = Path("growth.xml").write_text(
    ...     '<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"><model>'
    ...     '<listOfParameters><parameter id="x" value="1" constant="false"/>'
    ...     '<parameter id="rate" value="0.5" constant="true"/></listOfParameters>'
    ...     '<listOfRules><rateRule variable="x"><math xmlns="http://www.w3.org/1998/Math/MathML">'
    ...     '<apply><times/><ci>rate</ci><ci>x</ci></apply></math></rateRule></listOfRules></model></sbml>'
    ... )
    >>> file = gn.read_sbml("growth.xml")
    >>> file
    SbmlFile(growth.xml: 1 states, 1 numbers, 0 events)
    >>> file.simulate([0.0, 2.0])["x"].round(3).tolist()
    [1.0, 2.718]
    >>> model = file.with_priors({"rate": gn.LogNormal(0.0, 1.0)}).model_with(kernel=None)
    """
    return SbmlFile(Path(path).name, read_system(path))
