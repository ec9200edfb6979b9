"""What doses cost: a log density with its gradient of a model with many doses, and of one with the same steps and none.

As ratios within one run, of solvers in native and in array code.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from gradient import timer

import gpnode as gn
from gpnode.problem.density import Problem
from gpnode.problem.grid import with_steps

COUNT, STEPS, ROUNDS = 100, 4, 15
"""Doses, steps between two of them, and how often all are measured by turns."""


def _problem(solver: gn.Native | gn.FixedGrid, doses: int) -> Problem:
    """A drug in gut and blood, measured at the time of each dose."""
    times = np.arange(1.0, COUNT + 1.0)
    form = gn.KnownForm(
        ["gut", "blood"],
        lambda t, x, p: {"gut": -p.ka * x.gut, "blood": p.ka * x.gut - p.ke * x.blood},
        {"ka": gn.LogNormal(0.0, 0.5), "ke": gn.LogNormal(-1.0, 0.5)},
    )
    model = gn.Model(form, initial={"gut": 3.0, "blood": 1.0}, kernel=None, noise=gn.Noise(std=0.1), solver=solver)
    data = gn.Observations({"blood": (times, 2.0 + np.sin(times))}, start=0.0)
    if doses:
        data = data.with_experiments(gn.Experiment(doses=[gn.Dose("gut", 1.0, time=1.0, every=1.0, count=doses)]))
    problem = gn.bind(model, data)
    return with_steps(problem, np.where(np.diff(problem.measured_times, axis=1) > 0, STEPS, 1))


def run() -> dict[str, dict[str, float]]:
    """Measure and print. All take turns, so that a machine slow for a while is slow for all."""
    results: dict[str, dict[str, float]] = {}
    print(f"{'solver':<24}{'no dose, µs':>14}{f'{COUNT} doses, µs':>16}{'ratio':>8}")
    for name, solver in (("native", gn.Native()), ("array code, fixed grid", gn.FixedGrid())):
        measures = {}
        for doses in (0, COUNT - 1):  # one at the very end would do nothing
            problem = _problem(solver, doses)
            at = jnp.zeros(problem.size)
            measures[doses] = timer(lambda u, problem=problem: problem.value_and_grad(u)[1], at)
        rounds = [{doses: measure() for doses, measure in measures.items()} for _ in range(ROUNDS)]
        none, many = (1e6 * min(r[doses] for r in rounds) for doses in measures)
        results[name] = {"none_us": none, "doses_us": many, "ratio": many / none}
        print(f"{name:<24}{none:>14.0f}{many:>16.0f}{many / none:>8.2f}", flush=True)
    return results


if __name__ == "__main__":
    run()
