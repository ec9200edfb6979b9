"""Cases of the PEtab test suite, run and compared with their solutions; small problems written to a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import gpnode as gn
from support import SHARED

PRIOR_TOLERANCE = 1e-13  # of numbers of the order of two that are written with fourteen digits


def shared_petab(path: str) -> Path:
    """A file or folder of PEtab problems; a test without it is skipped."""
    found = SHARED / "petab" / path
    if not found.exists():
        pytest.skip(f"PEtab problems not found at {found.relative_to(SHARED.parents[1])} beside the clone")
    return found


def differences(folder: Path) -> dict[str, float]:
    """Of one case, by what is compared, in units of its tolerances."""
    solution = yaml.safe_load((folder / f"_{folder.name}_solution.yaml").read_text())
    found = gn.PetabProblem.read(folder / f"_{folder.name}.yaml").evaluate()
    expected = pd.concat([pd.read_csv(folder / name, sep="\t") for name in solution["simulation_files"]])
    apart = {
        "log likelihood": abs(found.log_likelihood - solution["llh"]) / solution["tol_llh"],
        "chi2": abs(found.chi2 - solution["chi2"]) / solution["tol_chi2"],
        "simulations": _simulations(found.simulations, expected) / solution["tol_simulations"],
    }
    for name, value in solution.get("log_prior", {}).items():
        apart[f"log prior of {name}"] = abs(found.log_priors[name] - value) / PRIOR_TOLERANCE
    if "unnorm_log_posterior" in solution:
        away = abs(found.log_posterior - solution["unnorm_log_posterior"])
        apart["log posterior"] = away / solution["tol_unnorm_log_posterior"]
    return apart


def _simulations(found: pd.DataFrame, expected: pd.DataFrame) -> float:
    """The largest difference; rows are in the same order."""
    assert found.observableId.tolist() == expected.observableId.tolist()
    assert np.allclose(found.time, expected.time.astype(float))
    return float(np.abs(found.simulation.to_numpy() - expected.simulation.to_numpy()).max())
