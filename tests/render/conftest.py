"""A posterior with names that tests of what readers see must escape."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from support.markup import EVIL, NAME


@pytest.fixture(scope="session")
def hostile():
    """A posterior in which everything the user can name tries to be markup."""
    t = np.linspace(0.0, 4.0, 10)
    measured = {NAME: (t, np.exp(-t) + 0.01 * np.sin(9 * t)), "y": (t, 1 - np.exp(-t) + 0.01 * np.cos(8 * t))}
    data = gn.Observations(measured, time_unit=EVIL)
    library = gn.polynomial(1, constant=False) + gn.term(EVIL, lambda x: x[NAME] ** 2)
    model = gn.Model(gn.Dictionary([NAME, "y"], library), kernel=None)
    return gn.fit(model, data, method=gn.Laplace(draws=100), progress=False)
