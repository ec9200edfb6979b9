"""Stiff systems by native code."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gpnode.solvers import NativeStiff, Status, Stiff
from gpnode.solvers.native import implicit
from support.oscillator import TIMES


def robertson(t, x, p):
    """Three reactions, ten orders of magnitude apart in speed."""
    slow, fast, faster = 0.04 * x[0], p["fast"] * x[1] * x[2], p["faster"] * x[1] ** 2
    return jnp.stack([fast - slow, slow - fast - faster, faster])


def test_implicit_tableau_is_of_fourth_order_and_its_embedded_one_of_third():
    a, b, c = implicit.COUPLING, implicit.COUPLING[-1], implicit.NODES
    conditions = [
        (lambda w: w.sum(), 1.0),
        (lambda w: w @ c, 1 / 2),
        (lambda w: w @ c**2, 1 / 3),
        (lambda w: w @ a @ c, 1 / 6),
        (lambda w: w @ c**3, 1 / 4),
        (lambda w: (w * c) @ a @ c, 1 / 8),
        (lambda w: w @ a @ c**2, 1 / 12),
        (lambda w: w @ a @ a @ c, 1 / 24),
    ]
    assert np.allclose(a.sum(axis=1), c, atol=1e-14)
    assert np.allclose([of(b) for of, _ in conditions], [right for _, right in conditions], atol=1e-14)
    off = np.array([of(b - implicit.ERROR) - right for of, right in conditions])
    assert np.abs(off[:4]).max() < 1e-14 < np.abs(off[4:]).max()


def test_stiff_solvers_agree_with_each_other_and_with_differences():
    ts, x0 = jnp.concatenate([jnp.zeros(1), jnp.geomspace(1e-3, 1e3, 12)]), jnp.array([1.0, 0.0, 0.0])
    params = {"fast": jnp.asarray(1e4), "faster": jnp.asarray(3e7)}
    native, by_native = NativeStiff(rtol=1e-9, atol=1e-12).solve_with_jacobian(robertson, params, x0, ts, (0,))
    general, by_general = Stiff(rtol=1e-9, atol=1e-12).solve_with_jacobian(robertson, params, x0, ts, (0,))
    assert int(native.status) == int(general.status) == Status.OK
    assert int(native.num_steps) < 4000  # an explicit method would need millions
    assert np.allclose(native.xs, general.xs, atol=1e-7)
    assert np.allclose(by_native[0] * 1e4, by_general[0] * 1e4, atol=1e-6)
    assert np.allclose(by_native[1] * 3e7, by_general[1] * 3e7, atol=1e-6)
    assert np.allclose(by_native[2], by_general[2], atol=1e-6)


def test_a_field_without_a_value_on_the_way_is_named_as_such():
    found = NativeStiff().solve(lambda t, x, p: -(2.0 + jnp.sqrt(x)), {"w": jnp.asarray(1.0)}, jnp.array([1.0]), TIMES)
    assert int(found.status) == Status.NOT_FINITE
