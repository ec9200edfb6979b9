"""Where chains start, and on which steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpnode.inference.starting.accuracy import solver_errors, with_finer_steps
from gpnode.inference.starting.start import Start
from support.small_problems import coarse


@pytest.mark.parametrize(("modes", "chains", "each"), [(1, 4, 4), (2, 4, 2), (3, 4, 2), (2, 8, 4), (2, 1, 1)])
def test_modes_share_the_chains(modes, chains, each):
    assert Start(None, (None,) * modes, None).chains_each(chains) == each


def test_steps_are_made_finer_where_chains_went(running_apart):
    start, mode = running_apart, running_apart.maxima[0]
    z = 0.5 * np.random.default_rng(0).normal(size=(2, 40, mode.centre.size))
    draws = mode.centre + z @ mode.scale_tril.T
    assert with_finer_steps(start, draws, list(draws[:, -1])) is None
    finer, points = with_finer_steps(replace(start, problem=coarse(start.problem)), draws, list(draws[:, -1]))
    assert finer.problem.solver.step_error < coarse(start.problem).solver.step_error
    assert np.quantile(np.abs(solver_errors(finer.problem, draws.reshape(-1, 4))), 0.9) < 0.1
    assert np.abs(mode.scale_tril @ points[1] + mode.centre - draws[1, -1]).max() < 1e-3
