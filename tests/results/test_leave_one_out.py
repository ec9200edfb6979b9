"""Leave-one-out from plain log densities, against numbers that arviz 0.23.4 gave and against exact refits."""

import numpy as np
import pytest

from gpnode.errors import ModelError
from gpnode.results.comparison import leave_one_out, rank_models, stacking_weights


def log_densities(spread, offset, chains=4, draws=250, measurements=12):
    """Without a random number generator (chains, draws, measurements)."""
    c, d, m = np.ogrid[:chains, :draws, :measurements]
    residual = 0.3 * np.sin(1.7 * d + 2.1 * c + m) + spread * np.cos(2.3 * m)
    return -0.5 * residual**2 - offset


def models():
    return {"a": log_densities(1.0, 1.0), "b": log_densities(1.5, 0.9), "c": log_densities(1.2, 1.05)}


def test_numbers_are_those_of_arviz_0_23():
    found = leave_one_out(models()["b"])
    assert found.elpd_loo == pytest.approx(-18.611202159742632, rel=1e-6)
    assert found.se == pytest.approx(1.4877265127306833, rel=1e-6)
    assert found.p_loo == pytest.approx(0.6459770852166749, rel=1e-6)
    assert found.pareto_k.max() == pytest.approx(-1.4476588305540956, rel=1e-6)
    assert not found.warning
    assert (found.n_samples, found.n_data_points) == (1000, 12)


def test_a_known_normal_posterior_gives_its_exact_answer():
    y = np.array([-1.2, -0.4, 0.1, 0.3, 0.9, 1.6])
    # Flat prior on the mean of unit normals: the posterior is normal, and so is what the others say of one.
    rng = np.random.default_rng(0)
    mean = rng.normal(y.mean(), 1 / np.sqrt(len(y)), (4, 2000, 1))
    found = leave_one_out(-0.5 * (y - mean) ** 2 - 0.5 * np.log(2 * np.pi))
    others = (y.sum() - y) / (len(y) - 1)
    variance = 1.0 + 1.0 / (len(y) - 1)
    exact = -0.5 * (y - others) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    assert np.allclose(found.loo_i, exact, atol=0.02)


def test_table_has_the_best_first_and_differences_behind_it():
    table = rank_models({name: leave_one_out(values) for name, values in models().items()})
    assert list(table.index) == ["a", "c", "b"]
    assert list(table["rank"]) == [0, 1, 2]
    assert table["elpd_diff"].to_numpy() == pytest.approx(table["elpd_loo"].iloc[0] - table["elpd_loo"].to_numpy())
    assert table.loc["b", "dse"] == pytest.approx(0.8263074249658461, rel=1e-6)
    assert table["weight"].sum() == pytest.approx(1.0)


def test_stacking_finds_the_best_mixture():
    log_density = np.log(np.array([[0.9, 0.2], [0.8, 0.1], [0.1, 0.7]]))
    grid = np.linspace(0, 1, 100_001)[:, None]
    scores = np.log(grid * np.exp(log_density[:, 0]) + (1 - grid) * np.exp(log_density[:, 1])).sum(axis=1)
    assert stacking_weights(log_density)[0] == pytest.approx(grid[scores.argmax(), 0], abs=1e-4)


def test_weights_that_cannot_be_trusted_are_said():
    values = models()["a"]
    values[0, 0, 3] = -2000.0
    found = leave_one_out(values)
    assert found.warning
    assert found.pareto_k[3] == np.inf
    assert "for 1 of them" in str(found)


def test_one_model_alone_is_not_compared():
    with pytest.raises(ModelError, match="two models"):
        rank_models({"a": leave_one_out(models()["a"])})
