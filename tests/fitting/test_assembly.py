"""What a posterior records of how it was made."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.fitting.assembly import _accuracy
from gpnode.inference.sampled import from_chains
from gpnode.solvers import Status


def test_mixing_of_the_energy_is_told_from_all_draws():
    """Successive ones of a thinned chain would look all but independent."""
    rng = np.random.default_rng(0)
    energy = np.zeros(8000)
    for i in range(1, energy.size):
        energy[i] = 0.95 * energy[i - 1] + rng.normal()
    fields = [("draw", float, (1,)), ("energy", float), ("failure", int)]
    chains = [np.zeros(size, dtype=fields) for size in (1000, 8000)]
    chains[0]["energy"], chains[1]["energy"] = rng.normal(size=1000), energy
    sampled = from_chains(chains, [1000, 8000], np.zeros(len(Status), dtype=int), interrupted=False)
    assert sampled.stats["energy"].shape == (2, 1000)
    assert sampled.details["e_bfmi"] == pytest.approx(0.1, abs=0.02)


def test_what_coarse_steps_can_do_is_told(posterior, monkeypatch):
    """Half of the draws ought to have twice the weight: at most, a mean is the difference of the two halves off."""
    errors = np.where(np.arange(100) < 50, 0.0, np.log(2.0))
    monkeypatch.setattr("gpnode.fitting.assembly.solver_errors", lambda problem, points: errors)
    found = _accuracy(posterior.problem, posterior.unconstrained)
    values = np.where(np.arange(100) < 50, -1.0, 1.0)
    assert found.largest_shift == pytest.approx(np.average(values, weights=np.exp(errors)) / values.std())
    assert found.largest_error == pytest.approx(np.log(2.0))
    errors[0] = 30.0  # one draw that ought to have all the weight
    assert _accuracy(posterior.problem, posterior.unconstrained).largest_shift == pytest.approx(np.sqrt(99))
