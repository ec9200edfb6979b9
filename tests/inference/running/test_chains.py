"""Chains: the same bits however they are cut, failures counted, interruption without loss."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.fitting.assembly import from_chains
from gpnode.fitting.single import _inactive, _rows_so_far
from gpnode.inference.maximum import find_maximum
from gpnode.inference.running.chains import chunk, run_chains, start_chains
from gpnode.inference.running.traces import MemoryTrace
from gpnode.inference.samplers import nuts
from gpnode.inference.samplers.lifted import sampler as gibbs
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.starting.ladder import Start, disperse, find_start, whitenings_of
from gpnode.inference.starting.search import search
from gpnode.inference.stopping import agreement as enough
from gpnode.inference.stopping.agreement import find_agreement, goals, thin_to_equal_length
from gpnode.inference.whitening import Whitening
from gpnode.solvers import Status
from gpnode.studies import glycolysis, predator_prey
from support.small_problems import decay_data, decay_model

SETTINGS = NUTS(warmup=40, draws=30, chains=2)


@pytest.fixture(scope="module")
def data():
    t = np.linspace(0.0, 5.0, 15)
    return gn.Observations({"x": (t, 8.0 * np.exp(-0.5 * t) + 0.2 * np.random.default_rng(0).normal(size=t.size))})


@pytest.fixture(scope="module")
def start(data):
    return find_start(gn.bind(decay_model(), data), jax.random.key(0), lambda what: None)


def chains_of(start, settings=SETTINGS):
    points = disperse(start, settings.chains, jax.random.key(1))
    return start_chains(start.problem, whitenings_of(start, settings.chains), points, jax.random.key(2), settings)


class Inline(Executor):
    """Runs chunks at once in this thread, and can be told to interrupt."""

    def __init__(self, interrupt_after: int | None = None):
        self.count, self.interrupt_after = 0, interrupt_after

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        if self.interrupt_after is not None and self.count > self.interrupt_after:
            raise KeyboardInterrupt
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_bits_do_not_depend_on_chunks_or_executor(start, monkeypatch):
    def run(executor=None):
        chains = chains_of(start)
        run_chains(start.problem, chains, SETTINGS, SETTINGS.warmup + SETTINGS.draws, lambda c: None, executor)
        return [c.trace.read() for c in chains]

    one = run()
    monkeypatch.setattr("gpnode.inference.running.chains._FIRST", 7)
    monkeypatch.setattr("gpnode.inference.running.chains._SECONDS", 0.001)
    two = run(Inline())
    for a, b in zip(one, two, strict=True):
        assert len(a) == SETTINGS.draws
        assert np.array_equal(a, b)
    assert not np.array_equal(one[0]["draw"], one[1]["draw"])


def test_interruption_keeps_what_there_is(start, monkeypatch):
    monkeypatch.setattr("gpnode.inference.running.chains._SECONDS", 1e-9)  # one step a chunk
    chains = chains_of(start)
    with pytest.raises(KeyboardInterrupt):
        run_chains(
            start.problem,
            chains,
            SETTINGS,
            SETTINGS.warmup + SETTINGS.draws,
            lambda c: None,
            Inline(interrupt_after=90),
        )
    assert all(0 < c.done < 70 for c in chains)
    whole = chains_of(start)
    run_chains(start.problem, whole, SETTINGS, SETTINGS.warmup + SETTINGS.draws, lambda c: None)
    kept = chains[0].trace.count
    assert kept > 0
    assert np.array_equal(chains[0].trace.read(), whole[0].trace.read()[:kept])


def test_same_seed_same_bits(data):
    one, two = (gn.fit(decay_model(), data, method=SETTINGS, seed=5, progress=False) for _ in range(2))
    other = gn.fit(decay_model(), data, method=SETTINGS, seed=6, progress=False)
    assert np.array_equal(one.unconstrained, two.unconstrained)
    assert not np.array_equal(one.unconstrained, other.unconstrained)


def test_failed_solves_are_counted_by_cause(data):
    """Growth that can explode in finite time, with a prior that likes to."""
    dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2 - 0.5 * x.x}, {"rate": gn.Normal(0.0, 0.3)})
    problem = gn.bind(gn.Model(dynamics, initial={"x": 8.0}, kernel=None), data)
    whitening = Whitening(jnp.zeros(problem.size), jnp.eye(problem.size), jnp.eye(problem.size))
    settings = NUTS(warmup=20, draws=4, chains=1)
    state = nuts.init(problem, whitening, jnp.array([-0.5, 4.0]), jax.random.key(3), settings)
    state = state._replace(adapt=state.adapt._replace(step_size=jnp.asarray(3.0)))
    _, kept = chunk(problem, whitening, state, jnp.asarray(20), settings, 20)
    failed = np.asarray(kept.failure)
    assert (failed == Status.BLOW_UP).any()
    assert np.all(np.asarray(kept.diverging)[failed != 0])
    assert np.isfinite(kept.log_density).all()


_METHODS = [pytest.param(NUTS(warmup=100, draws=1000), marks=pytest.mark.slow), gn.Lifted(warmup=100, draws=1000)]


@pytest.mark.parametrize("method", _METHODS, ids=["nuts", "lifted"])
def test_chains_on_a_normal_density_are_right(method):
    """A path linear in its parameters: both samplers against the exact mean and spread."""
    t = np.linspace(0.0, 3.0, 10)
    y = 1.0 + 2.0 * t + 0.3 * np.random.default_rng(1).normal(size=t.size)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": p.a}, {"a": gn.Normal(0.0, 5.0)}),
        initial={"x": 1.0},
        kernel=None,
        noise=gn.Noise(std=0.3, relative=False),
    )
    posterior = gn.fit(model, gn.Observations({"x": (t, y)}), method=method, progress=False)
    var = 1.0 / (1 / 25 + (t**2).sum() / 0.09)
    mean = var * (t * (y - 1.0)).sum() / 0.09
    draws = posterior.draws["a"].to_numpy()
    assert draws.mean() == pytest.approx(mean, abs=4 * np.sqrt(var / 800))
    assert draws.std() == pytest.approx(np.sqrt(var), rel=0.1)


def test_mode_is_a_maximum_and_its_spread_the_curvature(start):
    mode = find_maximum(start.problem, start.modes[0].centre + 0.3)
    assert mode.log_density == pytest.approx(start.modes[0].log_density, abs=1e-6)
    cov = mode.scale_tril @ mode.scale_tril.T
    hessian = jax.hessian(lambda u: _dense_log_density(start.problem, u))(jnp.asarray(mode.centre))
    assert np.allclose(cov @ -np.asarray(hessian), np.eye(len(cov)), atol=2e-3)


def _dense_log_density(problem, u):
    """Without custom derivative rules, so that JAX can differentiate twice."""
    values = problem.constrain(u)
    problem = eqx.tree_at(lambda p: p.solver, problem, gn.FixedGrid())
    residuals, _ = problem.residuals(problem.solve_until(values, jnp.asarray(1.0)))
    blocks = zip(problem.measured, residuals, strict=True)
    return problem.log_prior(u) + sum(problem.observables[b.observable].log_density(values, b, r) for b, r in blocks)


def test_hopeless_problems_say_what_to_do(data):
    dynamics = gn.KnownForm(["x"], lambda t, x, p: {"x": p.rate * x.x**2}, {"rate": gn.Uniform(50.0, 60.0)})
    with pytest.raises(gn.StartError, match="Narrow the priors"):
        gn.fit(gn.Model(dynamics, initial={"x": 8.0}), data, method=gn.Laplace(), progress=False)


@pytest.mark.parametrize("wrong", [{"draws": 1}, {"chains": 0}, {"target_accept": 1.5}, {"warmup": 3}])
def test_impossible_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NUTS(**wrong)


# -- the start ladder over many data sets ------------------------------------------------------


def misses(study, model, seeds):
    """Data seeds whose best candidate strays from the true path by more than twice the noise."""
    missed = []
    for seed in seeds:
        data = study.simulate(seed)
        problem = gn.bind(model, data)
        best = search(problem, jax.random.key(seed), lambda what: None).candidates[0]
        paths = problem.solve(problem.constrain(jnp.asarray(best.unconstrained)))
        for block in problem.measured:
            observable = problem.observables[block.observable]
            times = np.asarray(problem.scaling.user_time(problem.nodes[0][block.rows]))
            path = np.asarray(paths.xs[0, block.rows, observable.state] * problem.scaling.state_scale[observable.state])
            truth = study.true_path(np.clip(times, 0.0, study.END))[:, observable.state]
            if np.sqrt(np.mean((path - truth) ** 2)) > 2.0 * study.noise_std()[observable.state]:
                missed.append((seed, observable.variable))
    return missed


LADDERS = [(predator_prey, predator_prey.dictionary), (glycolysis, glycolysis.model)]


def test_start_ladder_finds_the_basin():
    assert misses(predator_prey, predator_prey.dictionary(), range(1)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("study", "model"), LADDERS, ids=["dictionary", "glycolysis"])
def test_start_ladder_finds_the_basin_19_times_in_20(study, model):
    missed = misses(study, model(), range(20))
    assert len({seed for seed, _ in missed}) <= 1, missed


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


# -- how long to sample ------------------------------------------------------------------------


@pytest.mark.parametrize(("modes", "chains", "each"), [(1, 4, 4), (2, 4, 2), (3, 4, 2), (2, 8, 4), (2, 1, 1)])
def test_modes_share_the_chains(modes, chains, each):
    assert Start(None, (None,) * modes, None).chains_a_mode(chains) == each


def shifted(shift, draws=2000, size=3):
    """Independent draws (4, draws, size), the first coordinate of each chain moved by ``shift`` (4, draws)."""
    found = np.random.default_rng(0).normal(size=(4, draws, size))
    found[:, :, 0] += shift
    return found


def as_chains(draws, log_density):
    """Rows (draws,) of each chain, numbered by ``number``."""
    fields = [("draw", float, draws.shape[2:]), ("log_density", float), ("number", int)]
    rows = np.zeros(draws.shape[:2], dtype=fields)
    rows["draw"], rows["log_density"], rows["number"] = draws, log_density, np.arange(draws.shape[1])
    return list(rows)


def kept_from(shift, first_goal, lower=0.0):
    """Where to begin with chains of which the first coordinate is shifted; the density is lower by ``lower`` there."""
    found = find_agreement(as_chains(shifted(shift), -lower * (shift != 0)), first_goal)
    if not found.agreed:
        return None
    (first,) = {int(own["number"][0]) for own in found.rows}
    return first


def test_chains_that_agree_are_kept_whole():
    assert kept_from(np.zeros((4, 2000)), 2000) == 0


def test_draws_before_chains_forgot_their_start_are_left_out():
    late = np.zeros((4, 2000))
    late[0, :200] = 8.0
    assert kept_from(late, 2000, lower=20.0) == 250


def test_a_mode_that_a_chain_left_is_not_left_out():
    """A chain was as well off there as anywhere, and leaving these draws out would hide it."""
    late = np.zeros((4, 2000))
    late[0, :900] = 8.0
    assert kept_from(late, 2000, lower=20.0) == 1000
    assert kept_from(late, 2000, lower=0.5) is None
    assert kept_from(late, 200, lower=0.5) == 0  # two modes, and each is known well


def test_a_mode_visited_once_is_not_left_out():
    """Chains agree once the beginning is left out, and with it all that was seen of a mode."""
    late = np.zeros((4, 2000))
    late[0, 30:230] = 8.0
    assert kept_from(late, 200, lower=0.5) == 0
    draws = shifted(late)
    draws[1:3, :240, 1] += np.linspace(3.0, 0.0, 240)  # another reason to leave the beginning out
    assert not find_agreement(as_chains(draws, -0.5 * (late != 0)), 200).agreed


def test_chains_that_never_meet_go_on_until_they_can_be_called_modes():
    apart = np.repeat([0.0, 0.0, 9.0, 9.0], 2000).reshape(4, 2000)
    assert kept_from(apart, 2000) is None
    assert kept_from(apart, 200) == 0
    apart[0] += np.linspace(0.0, 3.0, 2000)  # one of them has not climbed
    assert kept_from(apart, 200) is None


def apart_and_one_unsettled():
    """Chains 0 and 2 in one mode, 1 and 3 in another, of which one has not climbed."""
    apart = np.repeat([0.0, 9.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[1] += np.linspace(0.0, 3.0, 2000)
    return shifted(apart)


def test_chains_whose_mode_is_known_well_rest_while_others_go_on():
    """They share no mode with the others, so what these find changes nothing for them."""
    rows = as_chains(apart_and_one_unsettled(), np.zeros((4, 2000)))
    found = find_agreement(rows, 200)
    assert not found.agreed
    assert found.inactive == {0, 2}
    # Twice as long, the second half climbed: that is what is kept of these two, and all of those that rested.
    longer = as_chains(shifted(np.full((4, 4000), 9.0), draws=4000), np.zeros((4, 4000)))
    longer[1]["draw"][:2000] = rows[1]["draw"]
    found = find_agreement([rows[0], longer[1], rows[2], longer[3]], 200)
    assert found.agreed
    assert [int(own["number"][0]) for own in found.rows] == [0, 2000, 0, 2000]
    assert [len(own) for own in found.rows] == [2000] * 4


def test_draws_before_a_chain_forgot_its_start_are_left_out_though_others_do_not_agree():
    draws = apart_and_one_unsettled()
    draws[0, :240, 1] += np.linspace(3.0, 0.0, 240)
    found = find_agreement(as_chains(draws, np.zeros((4, 2000))), 200)
    assert not found.agreed
    assert found.inactive == {0, 2}
    assert [int(own["number"][0]) for own in found.rows] == [250, 0, 250, 0]


def test_a_chain_that_has_just_come_elsewhere_does_not_rest():
    """Whether it stays there, nobody knows; its partner waits for it."""
    draws = apart_and_one_unsettled()
    draws[0, -60:, 2] += 9.0
    assert find_agreement(as_chains(draws, np.zeros((4, 2000))), 200).inactive == frozenset()


def test_chains_that_share_a_mode_do_not_rest_before_each_other():
    """One of the first three went to the other's mode, which is not climbed."""
    apart = np.repeat([0.0, 0.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[0, 1000:] = 9.0
    apart[3] += np.linspace(0.0, 3.0, 2000)
    found = find_agreement(as_chains(shifted(apart), np.zeros((4, 2000))), 200)
    assert not found.agreed
    assert found.inactive == frozenset()


def test_rows_of_longer_chains_are_spread_over_them():
    short, long = np.arange(10), np.arange(25)
    assert [own.tolist() for own in thin_to_equal_length([short, long])] == [
        list(range(10)),
        [0, 2, 5, 7, 10, 12, 15, 17, 20, 22],
    ]


def memory(count, level=0.0):
    """A trace of independent draws around ``level``."""
    trace = MemoryTrace()
    trace.append(as_chains(np.random.default_rng(count).normal(level, size=(1, count, 2)), np.zeros((1, count)))[0])
    return trace


@pytest.mark.parametrize(
    ("counts", "inactive", "stops"),
    [
        ((700, 900), (), (700, 700)),  # on their way to a goal
        ((2000, 2100, 2400), (0,), (2000, 2100, 2100)),
        ((5000, 5000), (), (4000, 4000)),  # more than is asked for
    ],
)
def test_rows_so_far_are_equally_many_but_for_chains_that_rest(counts, inactive, stops):
    rows = _rows_so_far([memory(count) for count in counts], frozenset(inactive), 4000)
    assert tuple(map(len, rows)) == stops


def test_who_rests_is_told_from_what_there_was_at_the_last_goal():
    ends = (200, 2000, 2400, 2800)
    unsettled = memory(2300)
    unsettled.read()["draw"][:, 0] += np.linspace(9.0, 12.0, 2300)
    assert _inactive([memory(2000), memory(2000, 0.0), unsettled], ends) == {0, 1}
    assert _inactive([memory(2000), memory(2200, 0.0), memory(2300)], ends) == frozenset()  # the first is slow
    assert _inactive([memory(150), memory(100)], ends) == frozenset()


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


def untuned() -> gibbs.State:
    """Before the first round; of eight unknowns."""
    nowhere, none = jnp.asarray(-jnp.inf), jnp.asarray(0)
    return gibbs.State(jnp.zeros(8), *[None] * 6, none, nowhere, nowhere, jnp.zeros(()), none)


def test_a_chain_that_diverges_in_a_narrower_place_finds_its_step_sizes_anew():
    """But only three times, and not for a rare divergence."""
    state, begun = untuned(), []
    rng = np.random.default_rng(0)
    for i in range(4000):
        often = 0.2 if i > 2000 else 0.002
        state = state.after_round(jnp.asarray(rng.normal()), jnp.asarray(rng.random() < often), 100)
        begun += [i] if state.step == 0 else []
    assert len(begun) == int(state.retuned) == 3
    assert 2000 < begun[0] < 2040
    assert begun[1] > begun[0] + 100


def test_the_spread_of_the_rest_is_learned():
    """Of two correlated unknowns, from a start that knows neither their widths nor that they belong together."""
    root = np.array([[3.0, 0.0], [0.2, 0.02]])
    points = np.random.default_rng(0).normal(size=(200, 2)) @ root.T
    moments = gibbs._no_moments(2)
    for point in points:
        moments = moments.with_point(jnp.asarray(point))
    spread = moments.scale_tril(0.02 * jnp.eye(2))
    assert np.allclose(moments.mean, points.mean(axis=0))
    white = np.linalg.solve(np.asarray(spread), root)
    assert np.linalg.eigvalsh(white @ white.T) == pytest.approx(np.ones(2), abs=0.3)


def test_a_chain_that_climbs_finds_its_step_sizes_anew():
    """Up from -100 to 0, it warms up a second time, and only that: then it just fluctuates."""
    state = untuned()
    noise = np.random.default_rng(0).normal(0.0, 2.0, 4000)  # of the log density of eight normal variables
    begun = []
    for i, log_density in enumerate(np.where(np.arange(4000) < 500, -100.0, 0.0) + noise):
        state = state.after_round(jnp.asarray(log_density), jnp.asarray(False), 100)
        begun += [i] if state.step == 0 else []
    assert begun
    assert 500 < begun[0] < 520
    assert len(begun) <= 3  # the level goes on rising for a while as it forgets
    assert begun[-1] < 1000
    assert float(state.tuned_at) == pytest.approx(0.0, abs=2.0)


def test_a_run_goes_on_until_its_chains_agree(tmp_path, monkeypatch):
    """100 draws of two chains cannot have 400 independent ones; where it ends does not depend on interruptions."""
    monkeypatch.setattr(enough, "FIRST_GOAL", 100)
    settings = gn.Lifted(warmup=40, chains=2)
    assert goals(settings)[:5] == (100, 120, 140, 170, 200)
    assert goals(settings)[-1] == 4000
    assert goals(gn.Lifted(draws=70)) == (70,)
    whole = gn.fit(decay_model(), decay_data(), method=settings, progress=False)
    assert 200 <= whole.unconstrained.shape[1] <= 4000
    assert not whole.record["interrupted"]
    kept = gn.fit(decay_model(), decay_data(), method=settings, progress=False, checkpoint=tmp_path)
    opened = gn.open_checkpoint(tmp_path, decay_model(), decay_data())
    for other in (kept, opened):
        assert np.array_equal(whole.unconstrained, other.unconstrained)
        assert not other.record["interrupted"]
