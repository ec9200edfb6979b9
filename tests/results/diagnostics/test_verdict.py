"""When draws can be used, and what is wrong when they cannot."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr

from gpnode.errors import PosteriorError
from gpnode.inference.stopping.statistics import bulk_ess, pareto_k, rank_rhat
from gpnode.results.record import Accuracy
from support.draws import visits


def with_draws(posterior, values, **stats):
    """The posterior with r replaced, all else independent, and sampler statistics overwritten."""
    chains, draws = values.shape
    rng = np.random.default_rng(3)
    others = {str(name): rng.normal(size=values.shape) for name in posterior.draws.data_vars}
    table = xr.Dataset(
        {name: (("chain", "draw"), v) for name, v in (others | {"r": values}).items()},
        coords={"chain": range(chains), "draw": range(draws)},
    )
    base = {
        "diverging": np.zeros(values.shape, bool),
        "tree_depth": np.full(values.shape, 3),
        "energy": np.random.default_rng(1).normal(size=values.shape),
        "log_density": np.random.default_rng(2).normal(size=values.shape),
    }
    new = xr.Dataset({k: (("chain", "draw"), v) for k, v in {**base, **stats}.items()})
    unconstrained = np.array(np.broadcast_to(posterior.unconstrained[0, 0], (chains, draws, posterior.problem.size)))
    unconstrained[:, :, 0] += 0.01 * values
    return dataclasses.replace(posterior, draws=table, stats=new, unconstrained=unconstrained)


@pytest.fixture
def good():
    return np.random.default_rng(0).normal(size=(4, 1000))


def failed(posterior):
    return {check.name for check in posterior.diagnose().failed}


def test_good_chains_pass(posterior, good):
    verdict = with_draws(posterior, good).diagnose()
    assert verdict.converged
    assert verdict.headline.startswith("CONVERGED")


def test_chains_apart_fail(posterior, good):
    bad = with_draws(posterior, good + np.array([0, 0, 0, 1.0])[:, None])
    assert "chains agree" in failed(bad)
    assert "NOT CONVERGED" in str(bad)
    assert "->" in str(bad.diagnose())


def test_divergences_fail_even_when_r_hat_is_fine(posterior, good):
    diverging = np.zeros(good.shape, bool)
    diverging[:, ::50] = True
    assert failed(with_draws(posterior, good, diverging=diverging)) == {"no region left out"}


def test_nan_and_constant_draws_never_pass(posterior, good):
    holes = good.copy()
    holes[1, 3] = np.nan
    assert failed(with_draws(posterior, holes))
    assert failed(with_draws(posterior, np.ones((4, 1000))))
    assert rank_rhat(holes) == np.inf
    assert bulk_ess(np.ones((4, 100))) == 0.0
    assert pareto_k(np.array([0.0, np.inf])) == np.inf


def test_one_chain_and_few_draws_fail(posterior, good):
    assert "chains agree" in failed(with_draws(posterior, good[:1]))
    assert "enough independent draws" in failed(with_draws(posterior, good[:, :60]))


def test_interrupted_runs_and_coarse_solvers_fail(posterior, good):
    base = with_draws(posterior, good)
    stopped = dataclasses.replace(base, record=dataclasses.replace(base.record, interrupted=True))
    assert failed(stopped) == {"run complete"}
    for shift in (0.2, np.nan):
        coarse = Accuracy(largest_error=9.0, largest_shift=shift, draws=100)
        assert failed(dataclasses.replace(base, record=dataclasses.replace(base.record, accuracy=coarse))) == {
            "solver accurate"
        }


def test_modes_that_chains_never_leave_are_judged_each_by_itself(posterior):
    draws = np.random.default_rng(1).normal(size=(8, 1000))
    assert with_draws(posterior, draws).diagnose().converged
    apart = with_draws(posterior, draws + np.repeat([0.0, 9.0], 4)[:, None])
    assert failed(apart) == {"one mode", "weights of modes"}
    assert "SEVERAL MODES" in str(apart.diagnose())
    assert "no way from one mode to another" in str(apart.diagnose())
    astray = with_draws(posterior, draws + np.array([0.0, 0, 0, 2, 9, 9, 9, 9])[:, None])
    assert {"one mode", "chains agree"} < failed(astray)
    assert "NOT CONVERGED" in str(astray.diagnose())


def test_modes_that_chains_never_leave_have_weights_by_bridge_sampling(posterior):
    draws = np.random.default_rng(1).normal(size=(8, 1000)) + np.repeat([0.0, 9.0], 4)[:, None]
    apart = with_draws(posterior, draws)
    bridged = {"values": [0.9, 0.1], "errors": [0.02, 0.02]}
    apart = dataclasses.replace(apart, record=dataclasses.replace(apart.record, bridged=bridged))
    assert failed(apart) == {"one mode"}
    assert "90.0% ± 2.0%" in str(apart.diagnose())
    low = 0 if apart.visits.labels[0, 0] == 0 else 1  # which of the two is the first
    found = apart.reweighted()
    assert found.draws.sizes["chain"] == 8
    high_part = float((found.draws["r"] > 4.5).mean())
    assert high_part == pytest.approx(0.1 if low == 0 else 0.9, abs=0.02)
    assert 4000 < found.draws.sizes["chain"] * found.draws.sizes["draw"] <= 8000
    unknown = {"values": [0.5, 0.5], "errors": [None, None]}
    apart = dataclasses.replace(apart, record=dataclasses.replace(apart.record, bridged=unknown))
    assert failed(apart) == {"one mode", "weights of modes"}
    with pytest.raises(PosteriorError, match="not known"):
        apart.reweighted()


def test_modes_that_chains_visit_by_turns_have_weights(posterior):
    """A fifth of 40 visits is to the other mode, and no two follow each other."""
    levels = np.tile([0.0, 0.0, 9.0, 0.0, 0.0], (4, 2))
    found = with_draws(posterior, visits(levels, 500))
    assert failed(found) == {"one mode"}
    assert "an estimate" in found.diagnose().headline
    modes = found.visits
    assert modes.count == 2
    assert modes.switches == 16
    assert modes.weights == pytest.approx([0.8, 0.2], abs=0.01)
    assert 0.02 < modes.weight_errors[1] < 0.1
    main, other = found.modes()
    assert float(main.draws["r"].mean()) == pytest.approx(0.0, abs=0.2)
    assert float(other.draws["r"].mean()) == pytest.approx(9.0, abs=0.3)
    assert main.draws.sizes["chain"] * main.draws.sizes["draw"] == pytest.approx(16_000, abs=500)
    assert main.unconstrained.shape[:2] == main.stats["diverging"].shape


def test_places_that_chains_had_to_leave_are_no_modes(posterior):
    levels = [[9.0, 0, 0, 0], [9.0, 0, 0, 0], [0.0, 0, 0, 0], [0.0, 0, 0, 0]]
    values = visits(levels, 1000)
    low = np.where(values > 4.5, -30.0, 0.0)
    found = with_draws(posterior, values, log_density=low)
    assert found.visits.count == 1
    assert "chains agree" in failed(found)
    assert "one mode" not in failed(found)
    found = with_draws(posterior, values)  # they were as well off there
    assert found.visits.count == 2
    assert "one mode" in failed(found)
    assert "not settled" in found.diagnose().headline


def test_a_lifted_chain_that_hardly_moves_fails(posterior, good):
    lifted = dataclasses.replace(posterior, record=dataclasses.replace(posterior.record, method="lifted", settings={}))
    accept = np.full(good.shape, 0.6)
    landed = np.full(good.shape, 0.9)
    assert with_draws(lifted, good, accept_prob=accept, landed=landed).diagnose().converged
    accept[2] = 0.05
    assert failed(with_draws(lifted, good, accept_prob=accept, landed=landed)) == {"moves completed"}
