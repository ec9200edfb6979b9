"""Pilot chains: they set out where equations cannot follow the data, and lead to where the mass is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.maximum import Maximum
from gpnode.inference.running.budget import Budget
from gpnode.inference.running.chains import Chain, run_chains, start_chains
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.pilots import Pilots, Place, _by_place, pinned, run_pilots
from gpnode.inference.starting.search import Candidate
from gpnode.inference.starting.settings import Piloting
from gpnode.inference.starting.start import disperse
from gpnode.problem.evaluation import log_density
from gpnode.problem.grid import with_steps


@pytest.fixture(scope="module")
def unexplained() -> gn.Observations:
    """Something that goes to and fro, which no equation in one state can do by itself."""
    t = np.linspace(0.0, 12.0, 30)
    return gn.Observations({"x": (t, np.sin(t) + 0.05 * np.random.default_rng(0).normal(size=t.size))})


@pytest.fixture
def short():
    return gn.Lifted(warmup=20, chains=3, piloting=Piloting(block=20, most_blocks=2))


@pytest.mark.slow
def test_chains_begin_where_pilots_ended(unexplained, short):
    model = gn.Model(gn.Dictionary(["x"], gn.polynomial(degree=2)), initial={"x": 0.0})
    said: list[str] = []
    start = find_start(gn.bind(model, unexplained), jax.random.key(0), short, said.append)
    assert start.piloted
    assert any("pilot chains" in what for what in said)
    points, whitenings = disperse(start, 3, jax.random.key(1)), start.whitenings(3)
    assert len(points) == len(whitenings) == 3
    values = [
        float(log_density(start.problem, f.point(jnp.asarray(z)))[0]) for f, z in zip(whitenings, points, strict=True)
    ]
    assert np.allclose(values, [m.log_density for m in start.maxima])
    assert max(values) - min(values) < 3.0 * start.problem.size


@pytest.mark.slow
def test_without_time_for_pilots_there_is_one_maximum_that_no_checkpoint_keeps(unexplained, short, tmp_path):
    model = gn.Model(gn.Dictionary(["x"], gn.polynomial(degree=2)), initial={"x": 0.0})
    said: list[str] = []
    start = find_start(gn.bind(model, unexplained), jax.random.key(0), short, said.append, Budget(1e-9))
    assert start.hurried
    assert not start.piloted
    assert len(start.maxima) == 1
    assert any("time is up" in what for what in said)
    found = gn.fit(model, unexplained, method=short, budget=1e-9, checkpoint=tmp_path, progress=False)
    assert "with no draw" in str(found.diagnose())
    with pytest.raises(gn.CheckpointError, match="no draws yet"):
        gn.open_checkpoint(tmp_path, model, unexplained)


def test_a_start_far_below_the_others_is_left_behind(unexplained, short, monkeypatch):
    """Two starts that cannot move: one of them with a hundred times the noise there is."""
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": p.speed * jnp.cos(t)}, {"speed": gn.Normal(1.0, 0.01)}),
        initial={"x": 0.0},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-3.0, 1.0)),
    )
    problem = gn.bind(model, unexplained)
    monkeypatch.setattr("gpnode.inference.starting.pilots.alternate", lambda problem, start, key: start)
    monkeypatch.setattr("gpnode.inference.starting.pilots.run_chains", _stand_still)
    good, bad = np.array([1.0, -3.0]), np.array([1.0, 1.6])
    starts = [Candidate(u, 0.0, "") for u in (bad, good)]
    ((place,),) = run_pilots(problem, starts, short, jax.random.key(0), lambda what: None, Budget())
    assert np.array_equal(place.ends, [good])


@pytest.fixture(scope="module")
def decaying() -> tuple[gn.KnownForm, gn.Observations]:
    """Two variables, each of which may be left to its process."""
    t = np.linspace(0.0, 5.0, 12)
    data = gn.Observations({"x": (t, np.exp(-t)), "y": (t, np.exp(-2 * t))})
    return gn.KnownForm(
        ["x", "y"], lambda t, x, p: {"x": -p.k * x.x, "y": -2.0 * p.k * x.y}, {"k": gn.LogNormal(0, 1)}
    ), data


@pytest.mark.slow
def test_chains_on_problems_of_their_own_run_side_by_side(decaying):
    problem = with_steps(gn.bind(gn.paper_priors(gn.Model(decaying[0])), decaying[1]))
    problems = [pinned(problem, alone, Piloting()) for alone in (0, 1)]
    settings = gn.Lifted(warmup=20, chains=1)
    whitening = Maximum(np.zeros(problem.size), np.eye(problem.size), 0.0).whitening()

    def begun(own):
        return start_chains(own, [whitening], [np.zeros(problem.size)], jax.random.key(0), settings)

    side_by_side = [chain for own in problems for chain in begun(own)]
    run_chains(problems, side_by_side, settings, lambda chain: 25 - chain.done, lambda chains: None)
    for own, chain in zip(problems, side_by_side, strict=True):
        (alone,) = begun(own)
        run_chains(own, [alone], settings, lambda chain: 25 - chain.done, lambda chains: None)
        assert np.array_equal(alone.trace.read()["draw"], chain.trace.read()["draw"])
    assert not np.array_equal(side_by_side[0].trace.read()["draw"], side_by_side[1].trace.read()["draw"])


@pytest.mark.slow
def test_a_pinned_problem_has_another_prior_of_length_scales_alone(decaying):
    field, data = decaying
    problem = gn.bind(gn.paper_priors(gn.Model(field)), data)
    other = pinned(problem, 1, Piloting())
    assert [p.name for p in other.layout.parameters] == [p.name for p in problem.layout.parameters]
    u = np.zeros(problem.size)
    lengths = {n: float(v) for n, v in problem.constrain(jnp.asarray(u)).items() if n.endswith("length_scale")}
    old, new = gn.Gamma(1.0, 0.5), {n: gn.LogNormal(np.log(0.04 if n[0] == "y" else 1.0), 0.25) for n in lengths}
    difference = sum(float(new[n].log_prob(v) - old.log_prob(v)) for n, v in lengths.items())
    assert log_density(other, u)[0] - log_density(problem, u)[0] == pytest.approx(difference)
    known = gn.Model(field, kernel=gn.kernels.SquaredExponential(length_scale=0.3))
    assert pinned(gn.bind(known, data), 1, Piloting()) is None


def _stand_still(problem, chains, settings, steps, on_progress):
    for chain in chains:
        value, _ = log_density(problem, chain.state.unconstrained)
        chain.state = chain.state._replace(level=value)


def _chains_around(*centres: float) -> list[Chain]:
    rng = np.random.default_rng(0)
    chains = []
    for index, centre in enumerate(centres):
        rows = np.zeros(200, dtype=[("draw", float, 3), ("log_density", float)])
        rows["draw"] = rng.normal(np.array([0.0, centre, 0.0]), size=(200, 3))
        chain = Chain(index, None, None)
        chain.trace.append(rows)
        chains.append(chain)
    return chains


def _places(chains: list[Chain]) -> list[list[int]]:
    return [[chain.index for chain in place] for place in _by_place(chains, Piloting())]


def test_chains_in_one_mode_are_one_place():
    chains = _chains_around(50.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0)
    first, second = _places(chains)
    assert (set(first), second[0], set(second)) == ({0, 6}, 1, {1, 2, 3, 4, 5})
    (side_by_side,) = _places(chains[1:6])
    assert set(side_by_side) == {1, 2, 3, 4, 5}


def test_of_many_places_those_far_apart_are_kept():
    """A place that is far away is not lost because others are a little apart from the best one."""
    assert [set(own) for own in _places(_chains_around(0.0, 5.0, -5.0, 1.0, 40.0))] == [{0, 2, 3}, {4}, {1}]


def test_chains_begin_at_the_leader_of_a_place():
    """Or, in the first, at the most central ones; the one of highest density comes first among the chains."""
    first, *others = _places(_chains_around(3.0, 0.0, 0.2, -0.2, 40.0, 31.0, 33.0, -40.0))
    assert set(first[:3]) == {1, 2, 3}
    assert first[3] == 0
    assert sorted(others) == [[4, 6, 5], [7]]


def test_places_share_the_chains():
    """Where there are fewer ends than chains, draws of the pilots that ended there are taken, too."""

    def place(*ends):
        return Place([np.array([end]) for end in ends], [np.array([10.0 * end + i]) for end in ends for i in range(4)])

    def begin(places, chains):
        return [float(point[0]) for point in Pilots(places).points(chains)]

    assert begin([place(1.0), place(2.0, 3.0, 4.0)], 4) == [1.0, 10.0, 2.0, 3.0]
    assert begin([place(1.0), place(2.0, 3.0, 4.0)], 5) == [1.0, 10.0, 12.0, 2.0, 3.0]
    assert begin([place(1.0, 2.0, 3.0, 4.0)], 4) == [1.0, 2.0, 3.0, 4.0]
    assert begin([place(1.0), place(2.0), place(3.0)], 4) == [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]  # two for each
    assert begin([place(1.0), place(2.0)], 1) == [1.0, 2.0]


def test_places_that_only_errors_of_the_solver_made_are_left_out(start):
    """Where steps are accurate one of them is far below the others, and one has no density at all."""
    best = start.maxima[0]
    here, there = best.centre, best.centre + 40.0 * best.scale_tril[:, 0]
    nowhere = np.full_like(best.centre, np.nan)
    places = [Place([there], []), Place([here], [here, there, here]), Place([nowhere], [])]
    assert Pilots(places).on(start.problem, Piloting()).places == [places[1]]
    assert Pilots(places[2:]).on(start.problem, Piloting()).places == []
