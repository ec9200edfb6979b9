"""Whether a verdict says what the statistics of a whole fit say."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.samplers.nuts import NUTS
from gpnode.studies import predator_prey


@pytest.mark.slow
def test_dictionary_runs_through_nuts_and_its_verdict_is_honest():
    data = predator_prey.simulate(0)
    posterior = gn.fit(
        predator_prey.dictionary(), data, method=NUTS(warmup=150, draws=100, max_depth=8), progress=False
    )
    table = posterior.summary()
    verdict = posterior.diagnose()
    sound = table["r_hat"].max() <= 1.01 and table[["ess_bulk", "ess_tail"]].min().min() >= 400
    sound = sound and float(posterior.stats["diverging"].mean()) < 0.01
    assert verdict.converged == sound
    assert np.isfinite(table.to_numpy()).all()
    if not sound:
        assert "NOT CONVERGED" in str(posterior)
        assert any(check.remedy for check in verdict.failed)
