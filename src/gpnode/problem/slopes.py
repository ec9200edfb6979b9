"""How residuals change with what predictions depend on."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.problem.observables import Reading


def residual_slopes(problem: Problem, xs: Array, jacobian: Array, inputs: Array) -> list[Array]:
    """Derivatives (n, columns) of every block's residuals by its experiment's ``inputs``, along paths ``xs``."""
    slopes = []
    for block in problem.measured:
        observable = problem.observables[block.observable]
        along, by_input = xs[block.experiment, block.rows], jacobian[block.experiment, block.rows]
        if observable.reading is None:
            outer = jax.vmap(jax.grad(observable.transform.forward))(along[:, observable.state])
            slopes.append(-outer[:, None] * by_input[:, observable.state])
            continue

        rows = block.rows if block.previous is None else jnp.append(block.rows, 0)  # the start comes last
        along, by_input = xs[block.experiment, rows], jacobian[block.experiment, rows]
        ts, columns = problem.nodes[block.experiment, rows], inputs[block.experiment]
        given = problem.given_along(block.experiment, ts) | block.beside(ts.size)
        predict = partial(_predicted, problem, observable.reading)
        differentiate = jax.vmap(jax.value_and_grad(predict, (1, 2)), (0, 0, None, 0))
        value, (by_state, direct) = differentiate(ts, along, columns, given)
        slope = jnp.einsum("ns,nsc->nc", by_state, by_input) + direct
        if block.previous is not None:
            value, slope = (block.since_last(one[:-1], one[-1]) for one in (value, slope))
        outer = jax.vmap(jax.grad(observable.transform.forward))(value)
        slopes.append(-outer[:, None] * slope)
    return slopes


def _predicted(problem: Problem, reading: Reading, t: Array, x: Array, columns: Array, given: Values) -> Array:
    """What is read off a scaled state ``x`` (states,), of one experiment's inputs (columns,)."""
    return reading(t, x, _parameters_in(problem, columns, given))


def _parameters_in(problem: Problem, columns: Array, given: Values) -> Values:
    """What readings may use, of one experiment's :meth:`Problem.path_inputs` (columns,) and what it gives."""
    shapes = {p.name: jnp.zeros(p.shape) for block in problem.dynamics.blocks for p in block.parameters()}
    shapes |= dict.fromkeys(problem.individual_names, jnp.zeros(()))
    flat, unravel = ravel_pytree({name: shapes[name] for name in problem.dynamics.parameter_names})
    own = problem.own_names
    values = unravel(columns[: flat.size]) | dict(zip(own, columns[columns.size - len(own) :], strict=True))
    return problem.reading_parameters(values | given)
