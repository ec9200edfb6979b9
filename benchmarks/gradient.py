"""What a log density with its gradient costs, as ratios within one run.

Compares the package's solvers with the paper's formulation: reverse mode through
``jax.experimental.ode.odeint`` and one dense covariance over all variables. Run by ``make bench``;
prints a table and writes ``benchmarks/results.json``.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import Array
from jax.experimental.ode import odeint

import gpnode as gn
from gpnode.inference.start import find_start
from gpnode.problem import Problem
from gpnode.studies import glycolysis, predator_prey

EVALUATIONS, REPEATS = 40, 7


def paper_log_density(problem: Problem, unconstrained: Array) -> Array:
    """The same posterior density, computed the paper's way. One trajectory."""
    values = problem.constrain(unconstrained)
    params = {name: values[name] for name in problem.dynamics.parameter_names}
    x0 = (problem.initial.values(values) / problem.scaling.state_scale)[0]

    def field(x: Array, t: Array, p: dict[str, Array]) -> Array:
        return problem.dynamics.vector_field(t, x, p)

    path = odeint(field, x0, problem.measured_times[0], params)  # at its default tolerances
    blocks = [problem.channels[m.channel] for m in problem.measured]
    residual = jnp.concatenate([m.y - path[m.rows, c.state] for m, c in zip(problem.measured, blocks, strict=True)])
    cov = jsl.block_diag(*(c.noisy_cov(values, m.gp_times) for m, c in zip(problem.measured, blocks, strict=True)))
    factor = jnp.linalg.cholesky(cov)
    white = jsl.solve_triangular(factor, residual, lower=True)
    log_det = jnp.sum(jnp.log(jnp.diag(factor)))
    constant = 0.5 * residual.size * jnp.log(2.0 * jnp.pi)
    return problem.log_prior(unconstrained) - 0.5 * white @ white - log_det - constant


def seconds(gradient: Callable[[Array], Array], at: Array) -> float:
    """Median time of one evaluation inside a compiled loop, so that dispatch from Python does not count."""

    @jax.jit
    def loop(u: Array) -> Array:
        return jax.lax.fori_loop(0, EVALUATIONS, lambda i, v: v + 1e-14 * gradient(v), u)

    jax.block_until_ready(loop(at))
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        jax.block_until_ready(loop(at))
        times.append((time.perf_counter() - begun) / EVALUATIONS)
    return float(np.median(times))


def measure(model: gn.Model, data: gn.Observations) -> dict[str, float]:
    """Seconds per evaluation at the mode, by formulation; all must agree on the value."""
    start = find_start(gn.bind(model, data), jax.random.key(0), lambda what: None)
    at = jnp.asarray(start.modes[0].centre)
    adaptive = gn.bind(dataclasses.replace(model, solver=gn.Adaptive(rtol=1e-6, atol=1e-6)), data)

    def paper(u: Array) -> Array:
        return paper_log_density(adaptive, u)

    exact = float(eqx.filter_jit(start.problem.log_density)(at)[0])
    assert abs(float(jax.jit(paper)(at)) - exact) < 0.1, "the formulations must agree"
    return {
        "paper": seconds(jax.grad(paper), at),
        "adaptive": seconds(lambda u: adaptive.value_and_grad(u)[1], at),
        "native": seconds(lambda u: start.problem.value_and_grad(u)[1], at),
    }


def main() -> None:
    """Measure, print, write."""
    studies = {
        "predator-prey dictionary": (predator_prey.dictionary(), predator_prey.simulate(0)),
        "glycolysis": (glycolysis.model(), glycolysis.simulate(0)),
    }
    results = {}
    print(f"{'log density + gradient':<28}{'formulation':<14}{'ms':>8}{'times faster than the paper':>30}")
    for name, (model, data) in studies.items():
        found = measure(model, data)
        results[name] = {kind: {"ms": 1e3 * s, "speedup": found["paper"] / s} for kind, s in found.items()}
        for kind, numbers in results[name].items():
            print(f"{name:<28}{kind:<14}{numbers['ms']:>8.3f}{numbers['speedup']:>30.1f}")
    path = Path(__file__).with_name("results.json")
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {path.parent.name}/{path.name}")


if __name__ == "__main__":
    main()
