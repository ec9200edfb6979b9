"""SINDy on the predator–prey problem: the paper's five cases, at the paper's settings and at better ones.

Needs ``pysindy``, which is a development dependency. SINDy knows no unknown start, so it gets
the true one, and needs both species at the same times.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import odeint
from threadpoolctl import threadpool_limits

from gpnode.studies import predator_prey as problem

THRESHOLDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
WINDOWS = (5, 7, 11, 21)  # points smoothed together before differences are taken
HALF_WIDTHS = (0.5, 1.0, 2.0, 3.0)  # of the weak form's test functions, in time
_BOUND = 1e3


@dataclass(frozen=True)
class Case:
    """One of the paper's set-ups: times of both species, and whether noise is added."""

    name: str
    times: np.ndarray
    noisy: bool


def cases() -> list[Case]:
    """The paper's five: scarce with a gap, dense with a gap, dense without noise, scarce without gap, dense without."""
    gap, end = 1.5, problem.END

    def with_gap(step: float) -> np.ndarray:
        return np.concatenate([[0.0], np.arange(gap, end + 0.5 * step, step)])

    return [
        Case("case 1: gap, step 0.3", with_gap(0.3), True),
        Case("case 2: gap, step 0.0023", with_gap(0.00234375), True),
        Case("case 3: gap, step 0.0023, no noise", with_gap(0.00234375), False),
        Case("case 4: no gap, step 0.3", np.arange(0.0, end + 0.15, 0.3), True),
        Case("case 5: no gap, step 0.0375", np.arange(0.0, end + 0.01, 0.0375), True),
    ]


def measure(case: Case, seed: int) -> np.ndarray:
    """Both species (times, 2) with the noise of the study."""
    noise = np.random.default_rng(seed).normal(size=(case.times.size, 2)) * problem.noise_std()
    return problem.true_path(case.times) + (noise if case.noisy else 0.0)


def variants(t: np.ndarray, x: np.ndarray) -> dict[str, Iterator[np.ndarray]]:
    """Ways to run SINDy on values (times, 2): for each, coefficients (2, 7) over a grid of its settings."""
    import pysindy as ps

    library = ps.CustomLibrary(
        library_functions=[lambda x: x, lambda x, y: x * y, lambda x: x**2, lambda x: x**3],
        function_names=[lambda x: x, lambda x, y: f"{x} {y}", lambda x: f"{x}^2", lambda x: f"{x}^3"],
    )
    even_t, even_x = _even(t, x)

    def smooth(window: int) -> Any:
        return ps.SmoothedFiniteDifference(smoother_kws={"window_length": window})

    def plain(thresholds: Iterable[float]) -> Iterator[np.ndarray]:
        for threshold in thresholds:
            model = ps.SINDy(optimizer=ps.STLSQ(threshold=threshold), feature_library=library)
            yield model.fit(x, t=t).coefficients()

    def smoothed() -> Iterator[np.ndarray]:
        for threshold, window in itertools.product(THRESHOLDS, WINDOWS):
            model = ps.SINDy(ps.STLSQ(threshold=threshold), library, smooth(window))
            yield model.fit(even_x, t=even_t).coefficients()

    def ensemble() -> Iterator[np.ndarray]:
        for threshold, window in itertools.product(THRESHOLDS[::2], WINDOWS):
            np.random.seed(0)  # noqa: NPY002  pysindy draws from the global generator
            optimizer = ps.EnsembleOptimizer(opt=ps.STLSQ(threshold=threshold), bagging=True, n_models=20)
            ps.SINDy(optimizer, library, smooth(window)).fit(even_x, t=even_t)
            yield np.median(np.array(optimizer.coef_list), axis=0)

    def weak() -> Iterator[np.ndarray]:
        for width in HALF_WIDTHS:
            np.random.seed(0)  # noqa: NPY002
            form = ps.WeakPDELibrary(function_library=library, spatiotemporal_grid=even_t, K=300, H_xt=[width])
            measured = ps.AxesArray(even_x, {"ax_time": 0, "ax_coord": 1})
            terms, slopes = form.fit_transform([measured])[0], form.convert_u_dot_integral(measured)
            for threshold in THRESHOLDS:  # as pysindy's own model does, but integrals are taken once
                yield ps.STLSQ(threshold=threshold).fit(terms, slopes).coef_

    return {
        "paper's settings": plain([0.1]),
        "plain": plain(THRESHOLDS),
        "smoothed differences": smoothed(),
        "ensemble": ensemble(),
        "weak form": weak(),
    }


def _even(t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The evenly spaced part: without the start where a gap follows it."""
    return (t[1:], x[1:]) if t[1] - t[0] > 1.5 * (t[2] - t[1]) else (t, x)


def path(coefficients: np.ndarray, times: np.ndarray, tolerance: float = 1e-8) -> np.ndarray:
    """The path (times, 2) from the true start at the first of ``times``; infinite from where it runs away."""

    def field(state: np.ndarray, t: float) -> np.ndarray:
        x, y = state
        if max(abs(x), abs(y)) > _BOUND:
            return np.zeros(2)
        return coefficients @ np.array([x, y, x * y, x * x, y * y, x**3, y**3])

    states, report = odeint(
        field, problem.START, times, rtol=tolerance, atol=tolerance, mxstep=10_000, full_output=True
    )
    lost = np.abs(states).max(axis=1) > _BOUND
    if report["message"] != "Integration successful.":
        lost[1:] = True
    states[np.logical_or.accumulate(lost)] = np.inf
    return states


@threadpool_limits.wrap(limits=1, user_api="blas")  # more would only wait for each other: matrices are small
def run(seed: int, times: np.ndarray) -> list[dict[str, object]]:
    """Every case and variant: coefficients, and the error of the path over ``times`` against the truth.

    The paper's settings are the plain variant at a threshold of 0.1; elsewhere the settings are those
    whose path has the best Bayesian information criterion on the data.
    """
    truth = problem.true_path(times)
    rows: list[dict[str, object]] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases():
            x = measure(case, seed)
            for name, tried in variants(case.times, x).items():
                coefficients = min(tried, key=lambda c: _criterion(c, case.times, x))
                error = np.sqrt(np.mean((path(coefficients, times) - truth) ** 2, axis=0))
                rows.append({"case": case.name, "variant": name, "coefficients": coefficients, "rmse": error})
    return rows


def _criterion(coefficients: np.ndarray, times: np.ndarray, x: np.ndarray) -> float:
    # Evaluating the path at every tenth of many points is enough to tell good from bad, and ten times faster.
    every = max(1, times.size // 500)
    times, x = times[::every], x[::every]
    misfit = np.sum((path(coefficients, times, 1e-6) - x) ** 2)
    if not np.isfinite(misfit):
        return np.inf
    return float(x.size * np.log(misfit / x.size) + np.count_nonzero(coefficients) * np.log(x.size))
