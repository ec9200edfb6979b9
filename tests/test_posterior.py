"""What a posterior says, keeps, and refuses."""

from __future__ import annotations

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gpnode as gn
from gpnode.fitting.assembly import _accuracy
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.stopping.modes import find_modes
from gpnode.inference.stopping.statistics import bulk_ess, pareto_k, rank_rhat
from gpnode.results.forecasts import conditional


def growth(t, x, p):
    return {"x": p.r * x.x * (1 - x.x / p.K)}


MODEL = gn.Model(
    gn.KnownForm(["x"], growth, {"r": gn.LogNormal(0.0, 1.0), "K": gn.LogNormal(4.0, 1.0)}),
    initial={"x": gn.LogNormal(1.0, 1.0)},
    transform=gn.Log(),
)


SETTINGS = NUTS(warmup=100, draws=60, chains=2)


@pytest.fixture(scope="module")
def posterior(positive_data):
    return gn.fit(MODEL, positive_data, method=SETTINGS, progress=False)


@pytest.fixture(scope="module")
def sparse(decay_data):
    dynamics = gn.Dictionary(["x", "y"], gn.polynomial(1), fixed={("x", "x"): -0.2}, forbidden=[("y", "1")])
    model = gn.Model(dynamics, initial={"y": 0.0}, kernel=None)
    return gn.fit(model, decay_data, method=gn.Laplace(draws=300), progress=False)


def test_save_and_load_give_everything_back(posterior, tmp_path):
    path = tmp_path / "new" / "posterior.nc"
    posterior.save(path)
    again = gn.Posterior.load(path, MODEL)
    assert again.draws.equals(posterior.draws)
    assert again.stats.equals(posterior.stats)
    assert again.record == posterior.record
    assert np.array_equal(again.unconstrained, posterior.unconstrained)
    assert str(again.data) == str(posterior.data)
    assert np.array_equal(again.problem.nodes, posterior.problem.nodes)
    assert str(again) == str(posterior)
    times = np.linspace(0.0, 10.0, 5)
    assert np.array_equal(gn.forecast(again, times).states, gn.forecast(posterior, times).states)
    posterior.save(path)  # over itself
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_readable_without_gpnode(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    with xr.open_dataset(path, group="posterior", engine="h5netcdf") as draws:
        assert draws["r"].shape == (2, 60)
        assert json.loads(draws.attrs["gpnode"])["seed"] == 0


def test_loading_without_the_model_reads_but_does_not_forecast(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    again = gn.Posterior.load(path)
    assert again.summary().equals(posterior.summary())
    with pytest.raises(gn.ModelError, match="model"):
        gn.forecast(again, [1.0])
    with pytest.raises(gn.ModelError, match="model"):
        again.equations()


def test_another_model_is_refused(posterior, tmp_path):
    path = tmp_path / "p.nc"
    posterior.save(path)
    with pytest.raises(gn.ModelError, match="another model"):
        gn.Posterior.load(path, dataclasses.replace(MODEL, kernel=None))
    changed = gn.KnownForm(
        ["x"], lambda t, x, p: {"x": p.r * x.x * (1 - x.x / p.K) + 1e-9}, dict(MODEL.dynamics.priors)
    )
    with pytest.raises(gn.ModelError, match="another model"):
        gn.Posterior.load(path, dataclasses.replace(MODEL, dynamics=changed))


@pytest.mark.parametrize("content", [b"", b"not netcdf", b"\x89HDF\r\n\x1a\n" + b"\0" * 100])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign.nc"
    path.write_bytes(content)
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)


def test_missing_truncated_and_stranger_files(posterior, tmp_path):
    with pytest.raises(gn.FileFormatError, match="no file"):
        gn.Posterior.load(tmp_path / "nowhere.nc")
    path = tmp_path / "p.nc"
    posterior.save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)
    xr.Dataset({"a": ("b", [1.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(gn.FileFormatError):
        gn.Posterior.load(path)


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


# -- the verdict -------------------------------------------------------------------------------


def with_draws(posterior, values, **stats):
    """The posterior with r replaced, and sampler statistics overwritten."""
    chains, draws = values.shape
    table = xr.Dataset({"r": (("chain", "draw"), values)}, coords={"chain": range(chains), "draw": range(draws)})
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
    assert "CONVERGED: the draws can be used" in str(verdict)


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
    stopped = dataclasses.replace(base, record={**base.record, "interrupted": True})
    assert failed(stopped) == {"run complete"}
    for shift in (0.2, np.nan):
        coarse = {"largest_error": 9.0, "largest_shift": shift, "draws": 100}
        assert failed(dataclasses.replace(base, record={**base.record, "accuracy": coarse})) == {"solver accurate"}


def test_what_coarse_steps_can_do_is_told(posterior, monkeypatch):
    """Half of the draws ought to have twice the weight: at most, a mean is the difference of the two halves off."""
    errors = np.where(np.arange(100) < 50, 0.0, np.log(2.0))
    monkeypatch.setattr("gpnode.fitting.assembly.solver_errors", lambda problem, points: errors)
    found = _accuracy(posterior.problem, posterior.unconstrained)
    values = np.where(np.arange(100) < 50, -1.0, 1.0)
    assert found["largest_shift"] == pytest.approx(np.average(values, weights=np.exp(errors)) / values.std())
    assert found["largest_error"] == pytest.approx(np.log(2.0))
    errors[0] = 30.0  # one draw that ought to have all the weight
    assert _accuracy(posterior.problem, posterior.unconstrained)["largest_shift"] == pytest.approx(np.sqrt(99))


def test_modes_that_chains_never_leave_are_judged_each_by_itself(posterior):
    draws = np.random.default_rng(1).normal(size=(8, 1000))
    assert with_draws(posterior, draws).diagnose().converged
    apart = with_draws(posterior, draws + np.repeat([0.0, 9.0], 4)[:, None])
    assert failed(apart) == {"one mode", "weights of modes"}
    assert "SEVERAL MODES" in str(apart.diagnose())
    assert "never went" in str(apart.diagnose())
    astray = with_draws(posterior, draws + np.array([0.0, 0, 0, 2, 9, 9, 9, 9])[:, None])
    assert {"one mode", "chains agree"} < failed(astray)
    assert "NOT CONVERGED" in str(astray.diagnose())


def visits(levels, each: int) -> np.ndarray:
    """Independent draws (chains, draws) about ``levels`` (chains, visits) that change every ``each`` draws."""
    level = np.repeat(np.asarray(levels, dtype=float), each, axis=1)
    return level + np.random.default_rng(2).normal(size=level.shape)


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
    assert "not climbed" in found.diagnose().headline


@pytest.mark.parametrize("length", [4000, 20_000])
@pytest.mark.parametrize("memory", [0.99, 0.999, 0.9995])
def test_one_slow_mode_is_not_taken_for_two(memory, length):
    """Chains move slowly, but a single hill has no two levels."""
    draws = np.random.default_rng(0).normal(size=(4, length, 3))
    for t in range(1, length):
        draws[:, t] = memory * draws[:, t - 1] + np.sqrt(1.0 - memory**2) * draws[:, t]
    assert find_modes(draws, np.zeros((4, length))).count == 1


@pytest.mark.parametrize("length", [1000, 4000])
def test_a_place_left_slowly_is_no_mode(length):
    """Two chains come from a place of low density; on their way, averages go up and down."""
    draws = np.random.default_rng(3).normal(size=(4, length, 3))
    way = 8.0 * np.clip(np.linspace(3.0, -1.0, 200), 0.0, 1.0)
    draws[:2, :200, 0] += way
    assert find_modes(draws, np.where(draws[:, :, 0] > 4.0, -30.0, 0.0)).count == 1


def test_visits_are_seen_though_a_run_is_long():
    """One chain is away every seventh time, for a seventieth of its length, another one twice and longer."""
    levels = np.zeros((4, 70))
    levels[0, 3::7], levels[1, [20, 21, 50, 51, 52]] = 9.0, 9.0
    draws = visits(levels, 300)[:, :, None]
    found = find_modes(draws, np.zeros(draws.shape[:2]))
    assert found.count == 2
    assert found.switches == 2 * 12
    assert np.mean(found.labels == np.repeat(levels > 0, 300, axis=1)) > 0.995


def test_the_way_to_modes_belongs_to_none():
    draws = visits([[20.0, 0, 0, 0], [20.0, 9, 9, 9], [0.0, 0, 9, 9], [9.0, 9, 9, 0]], 1000)[:, :, None]
    found = find_modes(draws, np.where(draws[:, :, 0] > 15.0, -30.0, 0.0))
    assert found.count == 2
    assert 2 <= found.switches <= 3  # averages pass through levels between
    assert (found.labels[:2, :900] == -1).all()
    assert found.weights == pytest.approx([8 / 14, 6 / 14], abs=0.02)
    assert np.mean(found.of(draws, 0) > 15.0) < 0.01


def test_three_modes_are_found():
    levels = np.array([[0.0, 1, 2, 0, 1, 2], [1.0, 0, 2, 1, 0, 2], [2.0, 1, 0, 2, 1, 0], [0.0, 2, 1, 0, 2, 1]])
    draws = np.stack([visits(9.0 * (levels == k), 500) for k in (1, 2)], axis=2)
    found = find_modes(draws, np.zeros(draws.shape[:2]))
    assert found.count == 3
    assert 20 <= found.switches <= 30  # an average over two modes may look like the third
    assert found.weights == pytest.approx(1 / 3, abs=0.02)


def test_a_lifted_chain_that_hardly_moves_fails(posterior, good):
    lifted = dataclasses.replace(posterior, record={**posterior.record, "method": "lifted"})
    accept = np.full(good.shape, 0.6)
    landed = np.full(good.shape, 0.9)
    assert with_draws(lifted, good, accept_prob=accept, landed=landed).diagnose().converged
    accept[2] = 0.05
    assert failed(with_draws(lifted, good, accept_prob=accept, landed=landed)) == {"moves completed"}


def test_short_runs_are_not_called_converged(posterior):
    assert not posterior.diagnose().converged
    assert "NOT CONVERGED" in str(posterior)


# -- equations and forecasts -------------------------------------------------------------------


def test_equations_of_a_known_form(posterior):
    text = str(posterior.equations())
    assert "dx/dt" in text
    assert "r*x" in text
    assert "K = " in text


def test_equations_of_a_dictionary(sparse):
    found = sparse.equations().equations[0]
    assert [t.term for t in found.terms] == ["1", "x", "y"]
    assert found.terms[1].probability is None
    assert all(0 <= t.probability <= 1 for t in found.terms if t.probability is not None)
    assert "fixed" in str(sparse.equations())


def test_forecast_passes_through_the_data_and_from_new_starts(posterior):
    times = np.linspace(0.0, 12.0, 25)
    found = gn.forecast(posterior, times, experiment="high")
    assert found.states.shape == (120, 25, 1)
    assert found.failures == 0
    series = posterior.data.of("x")[1]
    at_data = gn.forecast(posterior, series.times, experiment="high").mean().to_numpy()[:, 0]
    assert np.allclose(at_data, series.values, rtol=0.15)
    fresh = gn.forecast(posterior, times, initial={"x": 1.0})
    assert np.allclose(fresh.states[:, 0], 1.0)
    assert np.allclose(fresh.states, fresh.ode, rtol=1e-12)
    noisy = gn.forecast(posterior, times, initial={"x": 1.0}, noise=True)
    at_start = np.log(noisy.states[:, 0, 0]).std()  # the path is certain there, so this is the noise alone
    assert at_start == pytest.approx(float(posterior.draws["x.noise_std"].mean()), rel=0.4)
    low, high = found.quantile([0.05, 0.95]).to_numpy()
    assert (low <= high).all()


@pytest.mark.parametrize("wrong", [[-1.0, 2.0], [], [np.nan]])
def test_forecast_refuses_impossible_times(posterior, wrong):
    with pytest.raises(gn.ModelError, match="times"):
        gn.forecast(posterior, wrong)


def test_conditional_is_the_textbook_one(posterior):
    problem = posterior.problem
    values = problem.constrain(posterior.unconstrained[0, 0])
    observable, t = problem.observables[0], np.array([0.1, 0.4, 0.8])
    new = np.array([0.2, 0.9])
    residual = np.array([0.3, -0.2, 0.1])
    both = np.concatenate([t, new])
    joint = np.asarray(observable.signal_cov(values, both, both)) + np.diag(
        [float(observable.noise_var(values))] * 3 + [0, 0]
    )
    mean, cov = conditional(observable, values, t, residual, new)
    solved = joint[3:, :3] @ np.linalg.inv(joint[:3, :3])
    assert np.allclose(mean, solved @ residual, rtol=1e-6)
    assert np.allclose(cov, joint[3:, 3:] - solved @ joint[:3, 3:], atol=1e-9)


# -- records, refusals and odd models ----------------------------------------------------------


def test_fingerprints_tell_priors_and_tables_apart(positive_data):
    from gpnode.problem.binding import fingerprint

    def with_prior(prior):
        return gn.Model(gn.KnownForm(["x"], growth, {"r": prior, "K": 50.0}))

    table = np.linspace(0.0, 1.0, 50)

    def forced(values):
        return gn.Model(gn.KnownForm(["x"], lambda t, x, p: {"x": p.r * jnp.interp(t, table, values)}, {"r": 1.0}))

    models = [
        with_prior(gn.TruncatedNormal(1.0, 0.5, low=0.0)),
        with_prior(gn.TruncatedNormal(5.0, 3.0, low=0.0)),
        with_prior(gn.Normal(1.0, 0.5)),
        with_prior(gn.Normal(1.0, 0.6)),
        forced(table),
        forced(table**2),
    ]
    marks = [fingerprint(m, positive_data) for m in models]
    assert len(set(marks)) == len(marks)
    assert marks == [fingerprint(m, positive_data) for m in models]


def test_paths_below_zero_on_the_log_scale_are_counted_not_invented(posterior):
    sinking = gn.KnownForm(["x"], lambda t, x, p: {"x": p.r - 0.0 * x.x}, {"r": gn.Normal(0.0, 5.0)})
    model = gn.Model(sinking, initial={"x": {"low": 2.0, "high": 9.0}}, transform=gn.Log(), kernel=None)
    draws = np.array([[[-1.0, 0.0], [1.0, 0.0]]])
    stats = xr.Dataset({"log_density": (("chain", "draw"), np.array([[0.0, 1.0]]))})
    down = dataclasses.replace(posterior, problem=gn.bind(model, posterior.data), unconstrained=draws, stats=stats)
    paths = gn.forecast(down, [1.0, 5.0])
    assert paths.failures == 1
    assert (paths.states > 0).all()


def test_only_the_noise_may_be_unknown(positive_data):
    model = gn.Model(
        gn.KnownForm(["x"], growth, {"r": 0.8, "K": 50.0}),
        initial={"x": {"low": np.float64(2.0), "high": 9}},
        kernel=None,
        transform=gn.Log(),
    )
    found = gn.fit(model, positive_data, method=gn.Laplace(draws=100), progress=False)
    assert list(found.summary().index) == ["x.noise_std"]
    assert "50" in str(found.equations())


def test_parts_of_a_sum_keep_their_symbols_apart(posterior):
    half = lambda t, x, p: {"x": p.k * x.x}
    model = gn.Model(
        gn.Sum(up=gn.KnownForm(["x"], half, {"k": gn.Normal(1.0, 1.0)}), down=gn.KnownForm(["x"], half, {"k": -0.5})),
        kernel=None,
    )
    draws = xr.Dataset({"up.k": (("chain", "draw"), np.ones((1, 5)))})
    found = dataclasses.replace(posterior, model=model, problem=gn.bind(model, posterior.data), draws=draws)
    text = str(found.equations())
    assert "up.k*x" in text
    assert "0.5*x" in text


def test_plots_draw(posterior, sparse):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    paths = gn.forecast(posterior, np.linspace(0.0, 12.0, 20), experiment="low")
    (ax,) = gn.plots.paths(paths, posterior.data, truth={"x": np.ones(20)})
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["two standard deviations", "mean", "truth", "measured", "forecast"]
    assert len(ax.lines[-1].get_xdata()) == posterior.data.of("x")[0].times.size
    (ax,) = gn.plots.paths(paths, whole_paths=True)
    around = ax.collections[0].get_paths()[0].vertices
    assert ax.collections[0].get_label() == "95 % of whole paths"
    low, high = (end.sel(state="x").to_numpy() for end in paths.envelope())
    for end in (low, high):
        assert all(np.isclose(around[:, 1], value).any() for value in end)
    ax = gn.plots.coefficients(sparse, truth=np.zeros((2, 3)))
    assert [t.get_text() for t in ax.get_yticklabels()][1] == "dx/dt: x"
    assert len(gn.plots.parameters(posterior, ["r", "K"], truth={"r": 0.8})) == 2
    plt.close("all")


def test_progress_speaks_where_there_is_no_terminal(positive_data, capsys, monkeypatch):
    monkeypatch.setattr("gpnode.inference.running.progress._LINE_EVERY", -1.0)
    monkeypatch.setattr("gpnode.inference.running.progress._GUESS_AFTER", 0.0)
    gn.fit(MODEL, positive_data, method=SETTINGS)
    said = capsys.readouterr().err
    assert "smoothing" in said
    assert "warming up: " in said
    assert "s left, 0 divergences" in said
    assert "worst R-hat" in said
