"""Steps of the solver between measurements."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import gpnode as gn
from gpnode.problem.grid import with_steps_for
from support.known import DATA, known


def test_grid_keeps_every_measurement():
    data = gn.Observations({"x": ([0.0, 0.01, 2.0, 9.0], [8.0, 7.9, 3.0, 1.0])})
    problem = gn.bind(gn.Model(known(), kernel=None), data)
    for grid in (
        problem,
        with_steps_for(problem, jnp.zeros(problem.size)),
        with_steps_for(problem, jnp.zeros(problem.size), 1e-12),
    ):
        times = grid.scaling.user_time(grid.nodes[0])[grid.measured[0].rows]
        assert np.allclose(times, [0.0, 0.01, 2.0, 9.0], rtol=0, atol=1e-12)
        assert np.all(np.diff(grid.nodes[0]) > 0)


def test_jumps_do_not_make_the_grid_explode():
    f = lambda t, x, p: {"x": -p.rate * x.x + jnp.where(t < 1.7, 3.0, 0.0)}
    problem = gn.bind(gn.Model(known(f=f), kernel=None), DATA)
    assert with_steps_for(problem, jnp.zeros(problem.size)).nodes.shape[1] < 5000
