"""The one least-squares climber: a trust-region method on residuals that may fail to exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize

IMPOSSIBLE = 1e10
"""A finite stand-in for the misfit of what cannot be solved."""

System = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Residuals (m,) and their Jacobian (m, n) at a point (n,); residuals are infinite where there are none."""


def climb(
    system: System, start: np.ndarray, most_evaluations: int, least_gain: float = 0.0
) -> tuple[np.ndarray, float] | None:
    """The point of least squares that is reached from ``start`` (n,), and its misfit, half the sum of squares.

    It ends early where a step gains less than about ``least_gain`` nats. None if there are no residuals at ``start``.
    """
    cached = _Cached(system)
    if cached.failed(start):
        return None
    misfit = 0.5 * float(np.sum(cached.residuals(start) ** 2))
    result = scipy.optimize.least_squares(
        cached.residuals,
        start,
        cached.jacobian,
        max_nfev=most_evaluations,
        x_scale="jac",
        ftol=max(1e-8, least_gain / max(misfit, 1.0)),
    )
    return result.x, float(result.cost)


def climb_from_first(
    system: System, starts: Sequence[np.ndarray], most_evaluations: int
) -> tuple[np.ndarray, float] | None:
    """As :func:`climb`, from the first of ``starts`` that has residuals; None if none has."""
    for start in starts:
        reached = climb(system, start, most_evaluations)
        if reached is not None:
            return reached
    return None


class _Cached:
    """Residuals and Jacobian come from one evaluation; scipy asks for them separately."""

    def __init__(self, evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
        self._evaluate = evaluate
        self._at: np.ndarray | None = None
        self._last: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros((0, 0)))

    def _get(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._at is None or not np.array_equal(theta, self._at):
            residuals, jacobian = self._evaluate(theta)
            self._last = (np.nan_to_num(residuals, nan=np.inf, posinf=np.inf, neginf=np.inf), np.nan_to_num(jacobian))
            self._at = theta.copy()
        return self._last

    def failed(self, theta: np.ndarray) -> bool:
        """Whether there is no usable path at ``theta``."""
        return bool(np.abs(self.residuals(theta)).max(initial=0.0) >= IMPOSSIBLE)

    def residuals(self, theta: np.ndarray) -> np.ndarray:
        return self._get(theta)[0]

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        return self._get(theta)[1]
