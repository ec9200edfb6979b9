"""Systems that are acted on: inputs, jumps and their derivatives, against pieces solved by scipy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode.solvers import differentiate_jacobian, solve_from_guess, solve_with_gradient
from gpnode.solvers.base import CorrectsGuess
from gpnode.solvers.driven import Driven

# Two jumps, at 1 and at 2.5; an action is an input, then what a jump adds, then whether it halves the second state.
BREAKS = np.array([0.0, 1.0, 1.0, 1.7, 2.5, 2.5, 4.0])
ROWS = np.array([[0.3, 0, 0], [0, 0.8, 0], [1.1, 0, 0], [0.2, 0, 0], [0, 0.1, 1.0], [0.6, 0, 0]])
PARAMS = {"a": jnp.asarray(0.7), "b": jnp.asarray([0.4, 0.3])}
START = jnp.asarray([0.9, 0.2])
FREE = (0, 1)


def slopes(t, x, p, action):
    a, (b, c), u = p["a"], p["b"], action[0]
    return jnp.stack([u - a * x[0] * x[1] + 0.1 * jnp.sin(t), b * x[0] - c * x[1] ** 2])


def jumped(t, x, p, action):
    return jnp.stack([x[0] + p["a"] * action[1] * x[1], x[1] * (1.0 - 0.5 * action[2] * p["b"][0]) + action[1]])


def nodes(per_interval):
    """Times and actions with steps inside the intervals that have a length, and steps without length at the end."""
    times, actions = [], []
    for begin, end, row in zip(BREAKS[:-1], BREAKS[1:], ROWS, strict=True):
        count = per_interval if end > begin else 1
        times.extend(begin + (end - begin) * np.arange(count) / count)
        actions.extend([row] * count)
    return np.array([*times, 4.0, 4.0, 4.0]), np.array([*actions, [0.0] * 3, [0.0] * 3])


def reference(theta, times):
    """The path at ``times`` (n,), at a jump just before it, piece by piece."""
    _, unravel = ravel_pytree(PARAMS)
    p = jax.tree.map(np.asarray, unravel(jnp.asarray(theta[:3])))
    x, found = np.asarray(theta[3:]), {0.0: np.asarray(theta[3:])}
    for begin, end, row in zip(BREAKS[:-1], BREAKS[1:], ROWS, strict=True):
        if begin == end:
            a, (b, _) = p["a"], p["b"]
            x = np.array([x[0] + a * row[1] * x[1], x[1] * (1.0 - 0.5 * row[2] * b) + row[1]])
            continue
        inner = times[(times > begin) & (times <= end)]

        def field(t, x, u=row[0]):
            return [u - p["a"] * x[0] * x[1] + 0.1 * np.sin(t), p["b"][0] * x[0] - p["b"][1] * x[1] ** 2]

        path = solve_ivp(field, (begin, end), x, t_eval=np.union1d(inner, [end]), rtol=1e-11, atol=1e-12).y.T
        found |= dict(zip(np.union1d(inner, [end]), path, strict=True))
        x = path[-1]
    return np.stack([found[t] for t in times])


SOLVERS = {
    "fixed-grid": gn.FixedGrid(),
    "native": gn.Native(tolerance=1e-9),
    "native-stiff": gn.NativeStiff(rtol=1e-9, atol=1e-9),
    "adaptive": gn.Adaptive(rtol=1e-9, atol=1e-9),
    "stiff": gn.Stiff(rtol=1e-9, atol=1e-9),
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("adaptive", "stiff")]  # to compile
QUICK_AND_SLOW = ["fixed-grid", "native", "native-stiff", *SLOW]


@pytest.fixture(scope="module")
def expected():
    """Rows of nodes to compare, the path there, and its derivatives by differences."""
    ts, _ = nodes(12)
    _, first = np.unique(ts, return_index=True)
    theta = np.concatenate([np.asarray(ravel_pytree(PARAMS)[0]), START])
    step = 1e-5
    columns = [
        (reference(theta + step * e, ts[first]) - reference(theta - step * e, ts[first])) / (2 * step)
        for e in np.eye(theta.size)
    ]
    return first, reference(theta, ts[first]), np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_paths_and_derivatives_are_those_of_the_pieces(name, expected):
    ts, actions = nodes(12)
    system = Driven(slopes, jumped, jnp.asarray(actions))
    first, path, derivatives = expected
    solution, jacobian = SOLVERS[name].solve_with_jacobian(system, PARAMS, START, jnp.asarray(ts), FREE)
    assert int(solution.status) == 0
    assert np.allclose(solution.xs[first], path, atol=2e-6)
    assert np.allclose(jacobian[first], derivatives, atol=1e-5)
    assert np.allclose(solution.xs[-1], solution.xs[-3])  # nothing happens after the end


@pytest.mark.parametrize("name", QUICK_AND_SLOW)
@pytest.mark.parametrize("limit", [0, 64])
def test_gradients_forward_and_backward(name, limit, expected):
    ts, actions = nodes(12)
    first, _, derivatives = expected
    weights = np.zeros((ts.size, 2))
    weights[first] = np.random.default_rng(0).normal(size=(first.size, 2))
    flat, unravel = ravel_pytree(PARAMS)

    def weighed(theta, actions):
        system = Driven(slopes, jumped, actions)
        x0, p = theta[3:], unravel(theta[:3])
        path = solve_with_gradient(SOLVERS[name], system, p, x0, jnp.asarray(ts), FREE, limit)
        return jnp.sum(jnp.asarray(weights) * path.xs)

    gradient = jax.jit(jax.grad(weighed))(jnp.concatenate([flat, START]), jnp.asarray(actions))
    assert np.allclose(gradient, np.einsum("td,tdp->p", weights[first], derivatives), atol=2e-4)


@pytest.mark.parametrize("name", ["fixed-grid", "native"])
def test_a_guess_is_corrected_through_jumps(name):
    solver = SOLVERS[name]
    assert isinstance(solver, CorrectsGuess)
    ts, actions = map(jnp.asarray, nodes(12))
    system = Driven(slopes, jumped, actions)
    exact, jacobian = solver.solve_with_jacobian(system, PARAMS, START, ts, FREE)
    guess = exact.xs + 1e-4 * jnp.asarray(np.random.default_rng(1).normal(size=exact.xs.shape))
    corrected, slopes_there = solve_from_guess(solver, system, PARAMS, START, ts, FREE, guess)
    assert np.allclose(corrected.xs, exact.xs, atol=1e-6)
    assert np.allclose(slopes_there, jacobian, atol=1e-2)


def test_second_derivatives_go_through_jumps():
    solver = gn.Native(tolerance=1e-9)
    ts, actions = map(jnp.asarray, nodes(24))
    system = Driven(slopes, jumped, actions)
    weights = jnp.asarray(np.random.default_rng(2).normal(size=(ts.size, 2, 5)))
    flat, unravel = ravel_pytree(PARAMS)

    def weighed(theta):
        _, jacobian = solver.solve_with_jacobian(system, unravel(theta[:3]), theta[3:], ts, FREE)
        return float(jnp.sum(weights * jacobian))

    theta, step = jnp.concatenate([flat, START]), 1e-5
    expected = [(weighed(theta + step * e) - weighed(theta - step * e)) / (2 * step) for e in jnp.eye(5)]
    path, jacobian = solver.solve_with_jacobian(system, PARAMS, START, ts, FREE)
    found = differentiate_jacobian(solver, system, PARAMS, ts, path.xs, jacobian, weights, FREE)
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_batches_have_actions_of_their_own(name):
    ts, actions = nodes(6)
    several = jnp.asarray(np.stack([actions, 0.5 * actions, 0.0 * actions]))

    def last(actions):
        return SOLVERS[name].solve(Driven(slopes, jumped, actions), PARAMS, START, jnp.asarray(ts)).xs[-1]

    together = jax.vmap(last)(several)
    assert np.allclose(together, np.stack([last(a) for a in several]), atol=1e-12)
    assert not np.allclose(together[0], together[1])
