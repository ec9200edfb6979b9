"""Multiple shooting: where a path from its start forgets the data."""

from __future__ import annotations

import jax
import numpy as np
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.inference.starting.search import find_candidates
from gpnode.inference.starting.settings import Search
from gpnode.inference.starting.slopes import slope_data, smoothed_path
from gpnode.inference.starting.targets import draw_starts, guess_hyper, make_target, noise_levels
from gpnode.problem.smoothing import smooth


def spikes():
    """Predators and prey that nearly die out between short outbreaks, from few noisy measurements."""
    t = np.sort(np.random.default_rng(3).uniform(0.0, 20.0, 90))
    t[0] = 0.0
    field = lambda t, x: [2.0 * x[0] - x[0] * x[1], 0.8 * x[0] * x[1] - 1.5 * x[1]]
    path = solve_ivp(field, (0.0, 20.0), [8.0, 1.0], "LSODA", t, rtol=1e-9, atol=1e-9).y
    noisy = path * (1.0 + 0.05 * np.random.default_rng(4).normal(size=path.shape))
    return gn.Observations({"x": (t, noisy[0]), "y": (t, noisy[1])})


def target_of(problem):
    smooths = [smooth(np.asarray(m.gp_times), np.asarray(m.y)) for m in problem.measured]
    noise_std = noise_levels(problem, smooths)
    keys = jax.random.split(jax.random.key(0), 64)
    draws = np.asarray(draw_starts(problem, guess_hyper(problem, noise_std), keys))
    return make_target(problem, noise_std, draws), smooths


def test_the_first_guess_is_the_smoothed_data():
    problem = gn.bind(gn.Model(gn.Dictionary(["x", "y"], gn.polynomial(degree=2))), spikes())
    _, smooths = target_of(problem)
    guess = smoothed_path(problem, smooths)
    assert guess.shape == (*problem.nodes.shape, 2)
    (block, _) = problem.measured
    assert np.abs(guess[0, np.asarray(block.rows), 0] - np.asarray(block.y)).max() < 0.5 * np.ptp(block.y)


def test_outbreaks_are_followed_where_ways_from_the_start_fail():
    problem = gn.bind(gn.Model(gn.Dictionary(["x", "y"], gn.polynomial(degree=2))), spikes())
    size = sum(m.y.size for m in problem.measured)
    by_shooting = find_candidates(problem, jax.random.key(0), Search(ways_up=(), prior_starts=0), lambda what: None)
    assert by_shooting.candidates[0].misfit < 1.5 * size
    assert by_shooting.candidates[0].origin.startswith("shooting")


def test_a_latent_state_has_no_guess():
    form = gn.KnownForm(["x", "y"], lambda t, x, p: {"x": x.y, "y": -p.k * x.x}, {"k": gn.LogNormal(0, 1)})
    model = gn.Model(form, initial={"y": gn.Normal(0.0, 1.0)})
    t = np.linspace(0.0, 5.0, 12)
    problem = gn.bind(model, gn.Observations({"x": (t, np.cos(t))}))
    _, smooths = target_of(problem)
    assert slope_data(problem, smooths, 50) is None
    assert smoothed_path(problem, smooths) is None
