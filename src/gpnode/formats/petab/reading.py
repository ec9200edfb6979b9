"""PEtab problems, from their YAML file to a model and its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpnode.data.observations import Observations
from gpnode.errors import FileFormatError
from gpnode.formats.petab.building import Built, build
from gpnode.formats.petab.evaluation import Evaluated, evaluate_problem
from gpnode.formats.petab.statement import Statement
from gpnode.formats.petab.tables import read_yaml
from gpnode.formats.petab.version1 import read_version1
from gpnode.formats.petab.version2 import read_version2
from gpnode.formats.sbml.reading import read_system
from gpnode.model.model import Model


@dataclass(frozen=True)
class PetabProblem:
    """A PEtab problem, version 1 or 2: what it states, and the model and data made of that.

    >>> problem = gn.PetabProblem.read("problem.yaml")  # doctest: +SKIP
    >>> problem.evaluate({"k1": 0.3}).log_likelihood  # doctest: +SKIP
    """

    statement: Statement
    built: Built

    @classmethod
    def read(cls, path: str | Path) -> PetabProblem:
        """The problem in the YAML file at ``path``."""
        path = Path(path)
        content = read_yaml(path)
        version = str(content.get("format_version", ""))
        if version.startswith("1"):
            statement = read_version1(path, content)
        elif version.startswith("2"):
            statement = read_version2(path, content)
        else:
            raise FileFormatError(f"{path.name} has the format version {version!r:.60}; gpnode reads 1 and 2.")
        if not statement.rows:
            raise FileFormatError(f"{path.name} has no measurements.")
        return cls(statement, build(read_system(statement.model), statement))

    @property
    def model(self) -> Model:
        return self.built.model

    @property
    def data(self) -> Observations:
        return self.built.data

    def evaluate(self, values: Mapping[str, float] | None = None) -> Evaluated:
        """Log likelihood, chi2, log priors and simulations at ``values`` by name, or at nominal ones."""
        return evaluate_problem(self.statement, self.built, values)


def read_petab(path: str | Path) -> tuple[Model, Observations]:
    """The model and the data of the PEtab problem (version 1 or 2) in the YAML file at ``path``.

    >>> model, data = gn.read_petab("problem.yaml")  # doctest: +SKIP
    """
    problem = PetabProblem.read(path)
    return problem.model, problem.data
