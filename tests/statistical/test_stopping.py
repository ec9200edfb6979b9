"""What the rule for stopping keeps is worth what the verdict says, and rules that would not be are told by that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import lfilter

from gpnode.inference.stopping.agreement import find_agreement
from gpnode.inference.stopping.schedule import Stopping
from gpnode.inference.stopping.statistics import ESS_LIMIT, RHAT_LIMIT, rank_rhat
from support.draws import as_chains

RULE = Stopping(first_goal=125)
RUNS, MOST = 80, 8000


def run(seed: int, correlation: float) -> np.ndarray:
    """Chains (4, draws) that forget slowly, with a standard normal distribution, from starts that lie far apart."""
    rng = np.random.default_rng(seed)
    steps = np.sqrt(1.0 - correlation**2) * rng.normal(size=(4, MOST))
    steps[:, 0] = 3.0 * rng.normal(size=4)
    return lfilter([1.0], [1.0, -correlation], steps, axis=1)


def kept(draws: np.ndarray) -> np.ndarray:
    """What a run keeps (4, draws) of ``draws`` (4, draws) that it might make."""
    rows = as_chains(draws[:, :, None], -0.5 * draws**2)
    for goal in RULE.goals(None):
        agreement = find_agreement([goal.rows(chain) for chain in rows], RULE)
        if agreement.reached:
            return np.stack([chain["draw"][:, 0] for chain in agreement.rows])
    raise AssertionError("these chains agree in time")


def kept_at_the_first_good_look(draws: np.ndarray) -> np.ndarray:
    """Planted: chains are looked at every fifty draws, and left out is whatever makes them agree."""
    for goal in range(50, MOST + 1, 50):
        for left_out in (0.0, 0.125, 0.25, 0.5):
            late = draws[:, int(left_out * goal) : goal]
            if rank_rhat(late) <= RHAT_LIMIT:
                return late
    return draws


def kept_with_the_way_there(draws: np.ndarray) -> np.ndarray:
    """Planted: what is judged is the second half, what is kept all."""
    late = kept(draws)
    return draws[:, : 2 * late.shape[1]] if late.shape[1] > RULE.first_goal else late


def relative_error(rule: Callable[[np.ndarray], np.ndarray], correlation: float) -> float:
    """Of means of what is kept, in units of the error that as many independent draws have as the verdict wants."""
    errors = [rule(run(seed, correlation)).mean() * np.sqrt(ESS_LIMIT) for seed in range(RUNS)]
    return float(np.sqrt(np.mean(np.square(errors))))


LIMIT = 1.0 + 2.0 / np.sqrt(2.0 * RUNS)  # two Monte Carlo errors above what the verdict promises


@pytest.mark.parametrize("correlation", [0.5, 0.8])
def test_what_is_kept_is_worth_what_the_verdict_says(correlation):
    assert relative_error(kept, correlation) < LIMIT


def test_stopping_at_the_first_good_look_is_caught():
    assert relative_error(kept_at_the_first_good_look, 0.5) > 1.5 * LIMIT


def far_from(draws: np.ndarray) -> np.ndarray:
    """The same chains, that began so far off that it takes a while to come."""
    return draws + 400.0 * 0.98 ** np.arange(draws.shape[1])


@pytest.mark.parametrize(("rule", "biased"), [(kept, False), (kept_with_the_way_there, True)])
def test_what_was_drawn_on_the_way_is_not_kept(rule, biased):
    assert (relative_error(lambda draws: rule(far_from(draws)), 0.5) > LIMIT) == biased
