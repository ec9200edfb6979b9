"""Whether the equations explain the data, on problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.model.observation import kernels
from gpnode.results.diagnostics.explaining import _Parts, adequacy
from support.linear import NOISE, SD

DECAY = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)})
DEFAULT, BARE = gn.Model(DECAY), gn.Model(DECAY, kernel=None, noise=gn.Noise())
TIMES = np.linspace(0.0, 5.0, 120)  # the same for all, so that little is compiled
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=TIMES.size)
PATH = 3.0 * np.exp(-0.6 * TIMES)


def judged(values, model=DEFAULT):
    """What an approximate fit of a decay explains, the verdict, and its failed checks of the model."""
    data = gn.Observations({"x": (TIMES, values)})
    fitted = gn.fit(model, data, method=gn.Laplace(draws=300), progress=False)
    verdict = fitted.diagnose()
    return adequacy(fitted)["x"], verdict, {c.name for c in verdict.failed if c.half == "model"}


def test_the_right_equations_explain_the_data():
    found, verdict, failed = judged(PATH + 0.1 * NORMAL)
    assert failed == set()
    assert verdict.explains
    assert found.ode > 0.9
    assert abs(found.autocorrelation) < 0.3
    assert found.ode + found.process + found.noise == pytest.approx(1.0, abs=0.1)
    assert np.allclose(found.times, TIMES)


def test_a_process_that_takes_over_is_told(linear):
    wrong = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": 0.0 * x.x}, {}),
        initial={"x": gn.Normal(1.0, SD)},
        kernel=kernels.SquaredExponential(variance=0.5, length_scale=0.5),
        noise=gn.Noise(std=NOISE),
    )
    fitted = gn.fit(wrong, linear[0].data, method=gn.Laplace(draws=200), progress=False)
    verdict = fitted.diagnose()
    assert adequacy(fitted)["x"].process > 0.5
    assert not verdict.explains
    assert "the Gaussian process explains x, not the equations" in verdict.headline


def test_a_motion_that_the_equations_miss_is_told():
    """A decay with an oscillation on top, twice as large as the noise."""
    found, verdict, failed = judged(PATH + 0.15 * np.sin(5.0 * TIMES) + 0.05 * NORMAL, BARE)
    assert found.autocorrelation > 0.5
    assert "x left over" in failed
    assert not verdict.recommended


def test_noise_of_another_kind_is_told():
    """Errors that are large one time in five, where the model has one size for all."""
    size = np.where(np.arange(TIMES.size) % 5 == 0, 1.0, 0.02)
    _, _, failed = judged(PATH + size * NORMAL, BARE)
    assert "x predicted" in failed


@pytest.mark.slow
def test_data_that_hardly_move_explain_nothing():
    found, verdict, failed = judged(3.0 + 0.1 * NORMAL)
    assert found.ode < 0.5
    assert "x explained" in failed
    assert not verdict.recommended


def test_equations_that_stand_for_no_draw_are_told():
    """Numbers three times too large in the equations as written, and right ones in the draws."""
    data = gn.Observations({"x": (TIMES, PATH + 0.1 * NORMAL)})
    fitted = gn.fit(BARE, data, method=gn.Laplace(draws=300), progress=False)
    assert {c.name for c in fitted.diagnose().failed if c.half == "model"} == set()
    wrong = {name: 3.0 * value for name, value in fitted.equations().representative.values.items()}
    fitted.equations().representative.values.update(wrong)
    assert "x as written" in {c.name for c in fitted.diagnose().failed}


def test_residuals_far_below_the_spread_of_a_variable_do_not_count():
    """Values decay to a hundred-thousandth, with noise in proportion; what the equations miss there is no motion."""
    level = np.exp(-np.linspace(0.0, 11.0, 40))
    noise_var = np.tile((0.05 * level) ** 2, (3, 1))
    missed = np.where(level < 1e-4, 0.2 * level, 0.0)
    sums = np.full((3, 3), 40 * 0.2**2)
    part = _Parts(sums, np.tile(missed, (3, 1)), noise_var, noise_var, noise_var)
    assert np.abs(part.mean_residuals).max() < 0.2
    seen = _Parts(sums, np.tile(0.2 * level, (3, 1)), noise_var, noise_var, noise_var)
    assert seen.mean_residuals[:10].min() > 3.0
