"""Whether the equations explain the data: the half of a verdict that convergence knows nothing of.

Chains can agree perfectly on equations that explain nothing, because a Gaussian process or the noise takes their place.
What is looked at, for each measured variable: how its variation divides between equations, process and noise; whether
the equations as they are written explain as much; whether what the equations leave over is independent from one
measurement to the next; and whether measurements that are left out one at a time fall where the others predict them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import kolmogorov, ndtr

from gpnode._config import computing
from gpnode.inference.checks import Check
from gpnode.inference.sampled import pick_evenly
from gpnode.inference.stopping.statistics import smooth_weights
from gpnode.model.priors.parameters import Values
from gpnode.problem.density import Problem
from gpnode.results.posterior import Posterior
from gpnode.solvers import Status

_JUDGED_DRAWS = 200
LEAST_EXPLAINED = 0.5
"""Part of a variable's variation that the equations must explain."""
ABSORBED = 0.1
"""With more of a variable's variation than this in the Gaussian process, the equations are not the whole story."""
LOST = 0.1
"""Part of a variable's variation that draws explain and equations as written may miss."""
CORRELATED, SIGNIFICANT_CORRELATION = 0.3, 3.0
"""Of neighbouring residuals: how large, and how many standard errors from zero."""
NEGLIGIBLE = 1e-3
"""Of a variable's standard deviation: residuals below that are no motion that equations should have had."""
SIGNIFICANT_MISFIT = 1e-3
"""Chance of measurements as far from their predictions as these, if the model is right."""


@dataclass(frozen=True)
class Adequacy:
    """Of one measured variable: how well equations, process and noise account for it.

    ``ode``, ``process`` and ``noise`` are parts of its variation, medians over draws; a path that misses the data has
    a negative ``ode``. ``written`` is the part that the equations as written explain, minus infinity if they cannot be
    solved. ``times`` (n,) and ``residuals`` (n,) are those of the equations alone in units of the noise,
    averaged over draws, experiment after experiment; ``autocorrelation`` is that of neighbours among them. ``pit``
    (n,) tells where each measurement falls in its prediction from all others: uniform on [0, 1] if all is well.
    """

    variable: str
    ode: float
    process: float
    noise: float
    written: float
    times: np.ndarray
    residuals: np.ndarray
    autocorrelation: float
    pit: np.ndarray

    @property
    def is_correlated(self) -> bool:
        """Whether neighbouring residuals of the equations are alike, beyond chance and by much."""
        errors = self.autocorrelation * np.sqrt(self.residuals.size)
        return self.autocorrelation > CORRELATED and errors > SIGNIFICANT_CORRELATION

    @property
    def misfit(self) -> float:
        """Chance of measurements as far from their predictions as these (Kolmogorov and Smirnov)."""
        n, ordered = self.pit.size, np.sort(self.pit)
        farthest = max((np.arange(1, n + 1) / n - ordered).max(), (ordered - np.arange(n) / n).max())
        # Kolmogorov and Smirnov's test, with Stephens' correction for few measurements.
        return float(kolmogorov((np.sqrt(n) + 0.12 + 0.11 / np.sqrt(n)) * farthest))


@computing()
def adequacy(posterior: Posterior) -> dict[str, Adequacy]:
    """How well each measured variable is accounted for; empty without the model, or without a draw."""
    problem = posterior.problem
    if problem is None:
        return {}
    chosen = pick_evenly(posterior.solved.unconstrained, _JUDGED_DRAWS)
    if not len(chosen):
        return {}
    parts = [_Parts(*map(np.asarray, part)) for part in _compare(problem, jnp.asarray(chosen))]
    missed = np.asarray(_missed(problem, posterior.equations().representative.values))
    return {
        observable.variable: _judge(
            observable.variable,
            [(b.gp_times, p, m) for b, p, m in zip(problem.measured, parts, missed, strict=True) if b.observable == c],
            problem,
        )
        for c, observable in enumerate(problem.observables)
    }


class _Parts(eqx.Module):
    """Of one block, for each draw: sums of squares (draws, 3) of data about their mean, about the path, and about path
    and process; residuals (draws, n) and variances of their noise; and left out one at a time (draws, n), in units of
    their prediction's width, with the log densities of that prediction."""

    sums: np.ndarray
    residuals: np.ndarray
    noise_var: np.ndarray
    surprises: np.ndarray
    log_densities: np.ndarray

    @property
    def mean_residuals(self) -> np.ndarray:
        """Residuals (n,) in units of the noise, or of what is negligible where noise is less."""
        # Averages first, then their ratio: some draws leave next to nothing to noise where values are small.
        negligible = NEGLIGIBLE**2 * self.sums[0, 0] / self.residuals.shape[1]
        return self.residuals.mean(axis=0) / np.sqrt(self.noise_var.mean(axis=0) + negligible)


@eqx.filter_jit
def _compare(problem: Problem, draws: Array) -> Any:
    def one(u: Array) -> Any:
        values = problem.constrain(u)
        paths = problem.solve(values)
        residuals, _ = problem.residuals(paths, values)
        found = []
        for block, residual, std in zip(problem.measured, residuals, problem.noise_stds(values, paths), strict=True):
            observable = problem.observables[block.observable]
            noise_var = observable.noise_var(values, block.level, std)
            places, log_densities, left = observable.left_out(values, block, residual, std)
            centred = block.y - jnp.mean(block.y)
            residual = block.broken(residual)
            sums = jnp.stack([centred @ centred, residual @ residual, left @ left])
            found.append((sums, residual, noise_var, places, log_densities))
        return found

    return jax.lax.map(one, draws)


@eqx.filter_jit
def _missed(problem: Problem, values: Values) -> Array:
    """Sums of squares of each block (blocks,) about the path of these values; infinite if there is none."""
    residuals, status = problem.residuals(problem.solve(values), values)
    broken = [block.broken(residual) for block, residual in zip(problem.measured, residuals, strict=True)]
    sums = jnp.stack([residual @ residual for residual in broken])
    return jnp.where((status == Status.OK) & jnp.isfinite(sums), sums, jnp.inf)


def _judge(variable: str, blocks: list[tuple[Array, _Parts, float]], problem: Problem) -> Adequacy:
    """From times, what was found of the draws, and the sum of squares about the path as written, of each block."""
    total, missed, left = np.sum([part.sums for _, part, _ in blocks], axis=0).T
    written = 1.0 - sum(sums for _, _, sums in blocks) / total[0]
    ode, process, noise = np.median(np.stack([total - missed, missed - left, left]) / total, axis=1)
    residuals = [part.mean_residuals for _, part, _ in blocks]
    products = sum(float(r[:-1] @ r[1:]) for r in residuals)
    squares = sum(float(r @ r) for r in residuals)
    pit = np.concatenate([_leave_one_out_pit(part) for _, part, _ in blocks])
    times = np.concatenate([np.asarray(problem.scaling.user_time_of_process(t)) for t, _, _ in blocks])
    return Adequacy(
        variable,
        float(ode),
        float(process),
        float(noise),
        float(written),
        times,
        np.concatenate(residuals),
        products / squares if squares else 0.0,
        pit,
    )


def _leave_one_out_pit(part: _Parts) -> np.ndarray:
    """Where measurements fall in their predictions, averaged over draws of a posterior that has not seen them."""
    # Importance weights that take a measurement out of the posterior.
    weights = np.exp([smooth_weights(log_weights)[0] for log_weights in -part.log_densities.T]).T
    return (weights * ndtr(part.surprises)).sum(axis=0)


def adequacy_checks(posterior: Posterior) -> list[Check]:
    """The model half of a verdict."""
    checks = []
    for variable, found in adequacy(posterior).items():
        checks += [
            _explained(variable, found),
            _as_written(variable, found),
            _independent(variable, found),
            _predicted(variable, found),
        ]
    return checks


def _explained(variable: str, found: Adequacy) -> Check:
    parts = (
        f"{found.ode:.0%} of the variation of {variable} is in the equations, {found.process:.0%} in the Gaussian "
        f"process, {found.noise:.0%} in noise; limits {LEAST_EXPLAINED:.0%} at least and {ABSORBED:.0%} at most"
    )
    absorbed = found.process > ABSORBED
    reason = f"{variable} is mostly noise to the equations"
    if absorbed and found.process > found.ode:
        reason = f"the Gaussian process explains {variable}, not the equations"
    elif absorbed:
        reason = f"the Gaussian process explains a part of {variable} that the equations do not"
    return Check(
        f"{variable} explained",
        found.ode >= LEAST_EXPLAINED and not absorbed,
        parts,
        "The equations lack a term, a state or an input: look at the residuals, and add what could be missing."
        if absorbed
        else "The data hardly move beyond their noise: measure where the system changes, or more precisely.",
        half="model",
        reason=reason,
    )


def _as_written(variable: str, found: Adequacy) -> Check:
    explained = "cannot be solved" if np.isinf(found.written) else f"explain {found.written:.0%} of its variation"
    return Check(
        f"{variable} as written",
        found.written >= found.ode - LOST and (found.written >= LEAST_EXPLAINED or found.ode < LEAST_EXPLAINED),
        f"the equations as written {explained}; limits {LEAST_EXPLAINED:.0%} at least, and at most {LOST:.0%} less "
        "than draws do",
        "Use forecasts, which follow all draws, rather than one set of equations; the most probable forms say how many "
        "others there are.",
        half="model",
        reason=f"no single set of equations stands for the draws of {variable}",
    )


def _independent(variable: str, found: Adequacy) -> Check:
    return Check(
        f"{variable} left over",
        not found.is_correlated,
        f"neighbouring residuals of the equations have a correlation of {found.autocorrelation:.2f} among "
        f"{found.residuals.size}; limit {CORRELATED:g}, if beyond {SIGNIFICANT_CORRELATION:g} standard errors",
        "The equations miss a motion: add a term, a state or an input, or look for a drift of the instrument.",
        half="model",
        reason=f"what they leave over of {variable} is no noise",
    )


def _predicted(variable: str, found: Adequacy) -> Check:
    return Check(
        f"{variable} predicted",
        found.misfit >= SIGNIFICANT_MISFIT,
        f"measurements left out one at a time fall where the others predict them: chance of a misfit like this "
        f"{found.misfit:.2g}, limit {SIGNIFICANT_MISFIT:g}",
        "Measurements scatter in another way than the model says: look for outliers, or choose another noise.",
        half="model",
        reason=f"{variable} scatters in another way than they say",
    )
