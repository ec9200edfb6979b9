"""What a log density with its gradient costs, as ratios within one run.

Compares the package's backends with the paper's formulation (reverse mode through
``jax.experimental.ode.odeint`` and one dense covariance over all variables), with XLA as it comes and with
the flags gpnode sets, and with plain C where there is a compiler. ``07_02.amc`` adds human motion: ``--amc FILE``.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array
from jax.experimental.ode import odeint
from threadpoolctl import threadpool_limits

import gpnode as gn
from gpnode.inference.starting.ladder import find_start
from gpnode.problem.density import Problem
from gpnode.problem.grid import with_steps_for
from gpnode.studies import glycolysis, human_motion, predator_prey

EVALUATIONS, ROUNDS = 40, 25
HERE = Path(__file__).parent


def paper_log_density(problem: Problem, unconstrained: Array) -> Array:
    """The same posterior density, computed the paper's way. One experiment."""
    values = problem.constrain(unconstrained)
    params = {name: values[name] for name in problem.dynamics.parameter_names}
    x0 = (problem.initial.values(values) / problem.scaling.state_scale)[0]

    def field(x: Array, t: Array, p: dict[str, Array]) -> Array:
        return problem.dynamics.vector_field(t, x, p)

    path = odeint(field, x0, problem.measured_times[0], params)  # at its default tolerances
    blocks = [problem.observables[m.observable] for m in problem.measured]
    residual = jnp.concatenate([m.y - path[m.rows, c.state] for m, c in zip(problem.measured, blocks, strict=True)])
    cov = jsl.block_diag(*(c.noisy_cov(values, m) for m, c in zip(problem.measured, blocks, strict=True)))
    factor = jnp.linalg.cholesky(cov)
    white = jsl.solve_triangular(factor, residual, lower=True)
    log_det = jnp.sum(jnp.log(jnp.diag(factor)))
    constant = 0.5 * residual.size * jnp.log(2.0 * jnp.pi)
    return problem.log_prior(unconstrained) - 0.5 * white @ white - log_det - constant


def timer(gradient: Callable[[Array], Array], at: Array) -> Callable[[], float]:
    """Measures one evaluation, in seconds, inside a compiled loop: dispatch from Python does not count."""

    @jax.jit
    def loop(u: Array) -> Array:
        return jax.lax.fori_loop(0, EVALUATIONS, lambda i, v: v + 1e-14 * gradient(v), u)

    def measure() -> float:
        begun = time.perf_counter()
        jax.block_until_ready(loop(at))
        return (time.perf_counter() - begun) / EVALUATIONS

    measure()  # compiles
    return measure


def studies(amc: Path | None) -> dict[str, tuple[gn.Model, gn.Observations]]:
    """The paper's problems."""
    found = {
        "predator-prey": (predator_prey.dictionary(), predator_prey.simulate(0)),
        "glycolysis": (glycolysis.model(), glycolysis.simulate(0)),
    }
    if amc is not None:
        recording = human_motion.record(amc)
        found["human motion A"] = (human_motion.model(recording, "A"), recording.observations())
    return found


def timers(model: gn.Model, data: gn.Observations, at: Array) -> dict[str, Callable[[], float]]:
    """What measures an evaluation at ``at``, by formulation; all must agree on the value."""
    start = with_steps_for(gn.bind(model, data), at)
    array, adaptive = (
        with_steps_for(gn.bind(dataclasses.replace(model, solver=s), data), at)
        for s in (gn.FixedGrid(), gn.Adaptive(rtol=1e-6, atol=1e-6))
    )
    exact = float(jax.jit(lambda u: start.log_density(u)[0])(at))
    assert abs(float(jax.jit(lambda u: paper_log_density(adaptive, u))(at)) - exact) < 0.5, "formulations must agree"
    return {
        "paper, with gpnode's XLA flags": timer(jax.grad(lambda u: paper_log_density(adaptive, u)), at),
        "diffrax, adaptive": timer(lambda u: adaptive.value_and_grad(u)[1], at),
        "array code, fixed grid": timer(lambda u: array.value_and_grad(u)[1], at),
        "native": timer(lambda u: start.value_and_grad(u)[1], at),
    }


class PaperAsItComes:
    """The paper's formulation in a process of its own, without the flags gpnode sets."""

    def __init__(self, amc: Path | None, maxima: dict[str, list[float]]) -> None:
        command = [sys.executable, __file__, "--only-paper", json.dumps(maxima), *(["--amc", str(amc)] if amc else [])]
        # Flags of the user's own keep gpnode from setting its own.
        environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"}
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def timer(self, study: str) -> Callable[[], float]:
        def measure() -> float:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            print(study, file=self._process.stdin, flush=True)
            return float(self._process.stdout.readline())

        measure()  # compiles
        return measure

    def end(self) -> None:
        self._process.communicate()


def only_paper(maxima: dict[str, list[float]], amc: Path | None) -> None:
    """Answer every name of a study on standard input with the seconds one evaluation takes in this process."""
    cases, known = studies(amc), {}
    for name in map(str.strip, sys.stdin):
        if name not in known:
            problem = gn.bind(dataclasses.replace(cases[name][0], solver=gn.Adaptive()), cases[name][1])
            gradient = jax.grad(functools.partial(paper_log_density, problem))
            known[name] = timer(gradient, jnp.asarray(maxima[name]))
        print(known[name](), flush=True)


def plain_c(folder: Path) -> Callable[[], float] | None:
    """Measures an evaluation of ``lower_bound.c``; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program, source = str(folder / "lower_bound"), str(HERE / "lower_bound.c")
    subprocess.run([compiler, "-O3", "-march=native", "-ffast-math", source, "-o", program, "-lm"], check=True)
    return lambda: 1e-6 * float(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


def run(amc: Path | None) -> dict[str, dict[str, dict[str, float]]]:
    """Measure and print. Formulations take turns, so that a machine slow for a while is slow for all."""
    cases = studies(amc)
    starts = {
        n: find_start(gn.bind(m, d), jax.random.key(0), gn.Laplace(), lambda what: None) for n, (m, d) in cases.items()
    }
    maxima = {n: s.maxima[0].centre.tolist() for n, s in starts.items()}
    results: dict[str, dict[str, dict[str, float]]] = {}
    paper = PaperAsItComes(amc, maxima)
    print(f"{'study':<18}{'formulation':<34}{'µs':>8}{'times faster':>14}")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        bound = plain_c(Path(folder))
        for name, (model, data) in cases.items():
            rows = {"paper": paper.timer(name), **timers(model, data, jnp.asarray(maxima[name]))}
            if bound is not None and name == "predator-prey":
                rows["plain C"] = bound
            rounds = [{kind: measure() for kind, measure in rows.items()} for _ in range(ROUNDS)]
            # The fastest round of each is the one that other work on the machine disturbed least.
            best = {kind: min(r[kind] for r in rounds) for kind in rows}
            results[name] = {k: {"us": 1e6 * s, "times_faster": best["paper"] / s} for k, s in best.items()}
            for kind, numbers in results[name].items():
                print(f"{name:<18}{kind:<34}{numbers['us']:>8.0f}{numbers['times_faster']:>14.1f}", flush=True)
    paper.end()
    return results


def main() -> None:
    """The table, or for a process that it starts the paper's rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amc", type=Path, help="motion capture file 07_02.amc, for human motion")
    parser.add_argument("--only-paper", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_paper:
        only_paper(json.loads(arguments.only_paper), arguments.amc)
    else:
        run(arguments.amc)


if __name__ == "__main__":
    main()
