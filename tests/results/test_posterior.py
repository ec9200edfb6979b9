"""What a posterior says of itself."""

from __future__ import annotations


def test_summary_and_arviz(posterior):
    table = posterior.summary()
    assert {"r", "K", "x.initial.low", "x.initial.high", "x.noise_std"} <= set(table.index)
    assert (table["2.5%"] <= table["50%"]).all()
    idata = posterior.to_arviz()
    assert {"posterior", "sample_stats", "observed_data"} <= set(idata)
    assert idata.sample_stats["lp"].shape == (2, 60)


def test_fixed_coefficients_are_kept_but_not_counted_as_inferred(sparse):
    names = [name for name, _ in sparse.scalars()]
    assert "coef[x, y]" in names
    assert "coef[x, x]" not in names
    assert "coef[y, 1]" not in names
    assert (sparse.draws["coef"].sel({"coef.state": "x", "coef.term": "x"}) == -0.2).all()


def test_short_runs_are_not_called_converged(posterior):
    assert not posterior.diagnose().converged
    assert "NOT CONVERGED" in str(posterior)
