"""Weights of the modes of fits that chains never leave, where symmetry tells the true ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.fitting.assembly import assemble
from gpnode.inference.maximum import find_maximum
from gpnode.inference.running.progress import Display
from gpnode.inference.running.sessions import LiveSession
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.start import Start, disperse

pytestmark = pytest.mark.slow


def data() -> gn.Observations:
    t = np.linspace(0.0, 3.0, 25)
    return gn.Observations({"x": (t, 2.0 * np.exp(-t) + 0.05 * np.random.default_rng(0).normal(size=t.size))})


@pytest.mark.parametrize("centre", [0.0, 0.3, 1.0, 2.3])
def test_signs_that_the_data_cannot_tell_weigh_as_their_prior_says(centre):
    """Only the square of a parameter matters, and its prior prefers one of the signs: by 1 : 1 to 1 : 100."""
    form = gn.KnownForm(["x"], lambda t, x, p: {"x": -(p.a**2) * x.x}, {"a": gn.Normal(centre, 1.0)})
    model = gn.Model(form, initial={"x": gn.Normal(2.0, 1.0)})
    problem = gn.bind(model, data())
    found = find_start(problem, jax.random.key(0), gn.Laplace(), lambda what: None)
    best = found.maxima[0].centre
    values = problem.constrain(jnp.asarray(best))
    mirrored = np.asarray(problem.layout.unconstrain({**values, "a": -values["a"]}))
    start = Start(found.problem, (found.maxima[0], find_maximum(found.problem, mirrored)), found.search)
    method = gn.Lifted(draws=1000)
    points = disperse(start, method.chains, jax.random.key(1))
    with Display(False) as display:
        start, sampled = method.draw(start, points, jax.random.key(2), LiveSession(display, None, None))
        posterior = assemble(model, data(), method, 0, start, sampled, 1.0)
    assert posterior.visits.count == 2
    size = np.abs(posterior.draws["a"].to_numpy())
    positive = posterior.draws["a"].to_numpy() > 0
    # Of any two points that differ by the sign alone, the density's ratio is known.
    odds = np.exp(-2.0 * centre * size[positive]).mean()
    truth = np.array([1.0, odds]) / (1.0 + odds)
    first_is_positive = bool(positive[posterior.visits.labels == 0].mean() > 0.5)
    weights = posterior.mode_weights
    truth = truth if first_is_positive else truth[::-1]
    assert weights.errors.max() < 0.02
    assert (np.abs(weights.values - truth) < 2.5 * weights.errors).all()
    assert "weights of modes" not in {check.name for check in posterior.diagnose().failed}
