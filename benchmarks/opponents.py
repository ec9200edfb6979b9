"""Two opponents for the sampler: numpyro's NUTS with its defaults, on our posterior and on the paper's.

Both begin at the best parameters that our search finds, which costs them nothing, and run two chains side by side, one
for each core, for as long as they are allowed. Solves are in array code, as users of numpyro write them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.experimental.ode import odeint
from numpyro.infer import NUTS
from numpyro.infer.util import initialize_model

import gpnode as gn
from gpnode.model.priors.sparsity import HorseshoeBlock
from gpnode.problem.density import Problem

CHAINS, WARMUP = 2, 300

Draws = dict[str, np.ndarray]
"""By name (chains, draws, ...)."""


def ours_by_nuts(model: gn.Model, data: gn.Observations, start: Draws, seconds: float) -> Draws:
    """The posterior as we write it, local scales integrated out, with steps of a fixed grid."""
    problem = gn.bind(_with_array_code(model), data)

    def potential(u: Any) -> Any:
        return -problem.log_density(u)[0]

    first = problem.layout.unconstrain({name: jnp.asarray(value) for name, value in start.items()})
    positions = _race(lambda: NUTS(potential_fn=potential), first, seconds)
    values = jax.vmap(jax.vmap(problem.constrain))(jnp.asarray(positions))
    return {name: np.asarray(v) for name, v in values.items()}


def papers_by_nuts(model: gn.Model, data: gn.Observations, start: Draws, seconds: float) -> Draws:
    """The paper's way: explicit horseshoe scales, ``odeint`` in reverse, one dense covariance of all measurements."""
    problem = gn.bind(_with_array_code(gn.paper_priors(model)), data)
    known = {name: jnp.asarray(value) for name, value in start.items()}
    described = initialize_model(jax.random.key(0), paper_model, model_args=(problem,), dynamic_args=False)
    potential, constrain = described.potential_fn, described.postprocess_fn
    values = {site: known.get(site, described.param_info.z[site]) for site in described.param_info.z}
    sites = numpyro.infer.util.unconstrain_fn(paper_model, (problem,), {}, _inside(problem, values))
    positions = _race(lambda: NUTS(potential_fn=potential), sites, seconds)
    return {n: np.asarray(v) for n, v in jax.vmap(jax.vmap(constrain))(positions).items()}


def paper_model(problem: Problem) -> None:
    """The paper's posterior in its own parameterisation."""
    values: dict[str, Any] = {}
    for block in problem.path_blocks:
        if isinstance(block, HorseshoeBlock):
            values |= _explicit_horseshoe(block)
        else:
            values |= {name: numpyro.sample(name, prior) for name, prior in _priors(block).items()}
    hyper = problem.hyper_block
    values |= {name: numpyro.sample(name, prior) for name, prior in _priors(hyper).items()}
    x0, params = problem.start_and_params(values)
    residuals, covariances = [], []
    for experiment in range(len(problem.experiments)):
        path = odeint(
            lambda x, t: problem.dynamics.vector_field(t, x, params), x0[experiment], problem.nodes[experiment]
        )
        for block in problem.measured:
            if block.experiment == experiment:
                observable = problem.observables[block.observable]
                residuals.append(block.y - observable.transform.forward(path[block.rows, observable.state]))
                covariances.append(observable.noisy_cov(values, block))
    residual = jnp.concatenate(residuals)
    sound = jnp.all(jnp.isfinite(residual))
    covariance = jax.scipy.linalg.block_diag(*covariances)
    density = dist.MultivariateNormal(jnp.zeros(residual.size), covariance).log_prob(jnp.where(sound, residual, 0.0))
    numpyro.factor("data", jnp.where(sound, density, -jnp.inf))


def _explicit_horseshoe(block: HorseshoeBlock) -> dict[str, Any]:
    """Coefficients (M,) centred about zero, given local, global and slab scales."""
    tau = numpyro.sample(f"{block.name}.tau", block.tau_prior)
    local = numpyro.sample(f"{block.name}.local", dist.HalfCauchy(jnp.ones(len(block.groups))))
    width = tau[jnp.asarray(block.groups)] * local
    values = {f"{block.name}.tau": tau}
    if block.slab_prior is not None:
        slab = numpyro.sample(f"{block.name}.slab_var", block.slab_prior)
        values[f"{block.name}.slab_var"] = slab
        width = width * jnp.sqrt(slab / (slab + width**2))
    values[block.name] = numpyro.sample(block.name, dist.Normal(jnp.zeros(width.size), width))
    return values


def _priors(block: Any) -> dict[str, Any]:
    return dict(zip(block.names, block.dists, strict=True))


def _with_array_code(model: gn.Model) -> gn.Model:
    from dataclasses import replace

    return replace(model, solver=gn.FixedGrid())


def _inside(problem: Problem, values: dict[str, Any]) -> dict[str, Any]:
    """Values of all sites, scales among them of a size that suits the coefficients they begin with."""
    found = dict(values)
    for block in problem.path_blocks:
        if isinstance(block, HorseshoeBlock):
            coef = jnp.asarray(found[block.name])
            found |= {
                block.name: coef,
                f"{block.name}.tau": jnp.full(block.tau_prior.batch_shape, 0.1),
                f"{block.name}.local": jnp.maximum(10.0 * jnp.abs(coef), 0.1),
            }
            if block.slab_prior is not None:
                found[f"{block.name}.slab_var"] = jnp.ones(())
    return found


def _race(make: Callable[[], NUTS], first: Any, seconds: float) -> Any:
    """Positions (chains, draws, ...) after the warm-up, of chains that run for so long; none where it did not end."""
    begun = time.perf_counter()
    kernel = make()
    states = [kernel.init(jax.random.key(i), WARMUP, first, model_args=(), model_kwargs={}) for i in range(CHAINS)]
    step = jax.jit(lambda state: kernel.sample(state, (), {}))

    def run(state: Any) -> list[Any]:
        positions = []
        while time.perf_counter() - begun < seconds:
            state = jax.block_until_ready(step(state))
            if int(state.i) > WARMUP:
                positions.append(jax.tree.map(np.asarray, state.z))
        return positions

    with ThreadPoolExecutor(CHAINS) as pool:
        chains = list(pool.map(run, states))
    fewest = min(map(len, chains))
    blank = jax.tree.map(lambda leaf: np.zeros((CHAINS, 0, *np.shape(leaf))), first)
    if not fewest:
        return blank
    return jax.tree.map(
        lambda *leaves: np.stack(leaves).reshape(CHAINS, fewest, *np.shape(leaves[0])),
        *[draw for chain in chains for draw in chain[:fewest]],
    )
