"""Densities of whole problems by native code and by diffrax."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.starting.ladder import find_start
from gpnode.inference.starting.start import Start
from gpnode.problem.density import Problem
from gpnode.solvers import Native, Status
from gpnode.solvers.adaptive import _Diffrax
from gpnode.studies import glycolysis, human_motion, predator_prey
from support import SHARED

AMC = SHARED / "human_motion" / "07_02.amc"


@eqx.filter_jit
def _values(problem: Problem, points):
    return jax.lax.map(problem.value_and_grad, points)


class Eighth(_Diffrax):
    """Eighth order, for tolerances near rounding: a tenth of the time that a fifth-order method takes."""

    rtol: float = eqx.field(static=True, default=1e-12)
    atol: float = eqx.field(static=True, default=1e-12)
    max_steps: int = eqx.field(static=True, default=20_000)

    def _method(self):
        return diffrax.Dopri8()


def scattered(start: Start, widths: np.ndarray) -> np.ndarray:
    """Points about the best mode, each with the width of its scatter in standard deviations.

    Covariances stay within three: farther out they are so nearly singular that a change of a point's last bit changes
    the gradient by more than is allowed here, with one and the same solver.
    """
    mode, rng, wide = start.maxima[0], np.random.default_rng(0), widths[:, None]
    points = mode.centre + wide * rng.normal(size=(wide.size, mode.centre.size)) @ mode.scale_tril.T
    rest = start.problem.hyper_positions
    own = np.sqrt(np.sum(mode.scale_tril[rest] ** 2, axis=1))
    points[:, rest] = mode.centre[rest] + np.minimum(wide, 3.0) * rng.normal(size=(wide.size, rest.size)) * own
    return points


def both_ways(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Log densities and gradients by native code, and by diffrax."""
    native, usual, patient = (
        problem.with_solver(solver)
        for solver in (Native(tolerance=1e-12, max_steps=400_000), Eighth(), Eighth(max_steps=200_000))
    )
    (a, by_a, _), (b, by_b, status) = ([np.array(v) for v in _values(p, jnp.asarray(points))] for p in (native, usual))
    for i in np.nonzero((status == Status.TOO_MANY_STEPS) & np.isfinite(a))[0]:
        b[i], by_b[i], _ = (np.asarray(v)[0] for v in _values(patient, jnp.asarray(points[i : i + 1])))
    return a, by_a, b, by_b


def human_motion_case(case):
    if not AMC.exists():
        pytest.skip("the motion capture file 07_02.amc is not here")
    recording = human_motion.record(AMC)
    return human_motion.model(recording, case), recording.observations()


CASES = {
    "predator-prey": lambda: (predator_prey.dictionary(), predator_prey.simulate(0)),
    "glycolysis": lambda: (glycolysis.model(), glycolysis.simulate(0)),
    "human motion A": lambda: human_motion_case("A"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_native_and_diffrax_agree_at_a_thousand_points(case):
    start = find_start(gn.bind(*CASES[case]()), jax.random.key(0), gn.Laplace(), lambda what: None)
    a, by_a, b, by_b = both_ways(start.problem, scattered(start, np.geomspace(0.1, 3.0, 1000)))
    sound = np.isfinite(a)
    assert np.array_equal(sound, np.isfinite(b))
    assert (np.abs(a[sound] - b[sound]) / np.abs(b[sound])).max() < 1e-6
    assert (np.abs(by_a - by_b).max(axis=1)[sound] / np.abs(by_b).max(axis=1)[sound]).max() < 1e-6
    assert not np.any(by_a[~sound])
    assert not np.any(by_b[~sound])
    # Farther out some paths are stiff: explicit methods still find them, but not always their derivatives, and
    # which method gives up first is a matter of limits.
    a, _, b, _ = both_ways(start.problem, scattered(start, np.geomspace(3.0, 30.0, 300)))
    far = np.isfinite(a) & np.isfinite(b)
    assert np.mean(np.isfinite(a) != np.isfinite(b)) <= 0.01
    assert (np.abs(a[far] - b[far]) / np.abs(b[far])).max() < 1e-6
    assert (not sound.all() and not far.all()) == (case != "glycolysis")  # it has no path that runs away
