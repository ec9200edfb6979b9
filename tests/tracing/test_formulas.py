"""Formulas of traced functions have the values of the functions they were made from."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from gpnode.tracing.formulas import number, write_formulas
from gpnode.tracing.interpreter import Unsupported

X, Y = sympy.symbols("x y", real=True)

FUNCTIONS = {
    "arrays": lambda x, y: [jnp.sum(jnp.stack([x, y, 2.0]) * jnp.arange(3.0)), jnp.max(jnp.stack([x, y]))],
    "products": lambda x, y: [jnp.dot(jnp.stack([x, y]), jnp.array([[1.0, 2.0], [3.0, 4.0]])) @ jnp.stack([y, x])],
    "cases": lambda x, y: [jnp.where((x > y) | ~(y <= 0.0), x * y, jnp.abs(x)), jax.nn.relu(y)],
    "truths": lambda x, y: [(x > 0.5).astype(float) * y, jnp.clip(x, 0.1, 0.5)],
    "indices": lambda x, y: [jnp.zeros(3).at[1].set(x)[::-1][1] + jnp.concatenate([y[None], x[None]])[0]],
    "functions": lambda x, y: [jnp.cbrt(x) + jnp.exp2(y), jax.lax.rsqrt(x) + jnp.arctan2(x, y) - jnp.sign(y)],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_formulas_have_the_values_of_the_function(name):
    found = write_formulas(FUNCTIONS[name], [X, Y])
    for x, y in [(0.3, 0.7), (1.2, -0.4)]:
        values = [float(formula.subs({X: x, Y: y})) for formula in found]
        assert np.allclose(values, FUNCTIONS[name](jnp.asarray(x), jnp.asarray(y)), rtol=1e-12)


def test_choices_become_piecewise_and_numbers_stay_exact():
    case, root = write_formulas(lambda x: [jnp.where(x > 1.0, 2.0 * x, 0.0), jnp.sqrt(2.0) * x], [X])
    assert case == sympy.Piecewise((2 * X, X > 1), (0, True))
    assert root == sympy.sqrt(2) * X
    assert write_formulas(lambda x, k: [k * x], [X, number(3.0)]) == [3 * X]


def test_what_has_no_formula_is_refused_with_the_reason():
    with pytest.raises(Unsupported, match="sort"):
        write_formulas(lambda x: [jnp.sort(jnp.stack([x, 1.0]))[0]], [X])
    with pytest.raises(Unsupported, match="returns an array"):
        write_formulas(lambda x: [jnp.stack([x, x])], [X])
    with pytest.raises(Unsupported, match="index that depends on the state"):
        write_formulas(lambda x, y: [jnp.stack([x, y])[(x > 0.0).astype(int)]], [X, Y])


def test_native_code_needs_no_sympy():
    program = "import sys, gpnode as gn; gn.fit, gn.bind, gn.Native; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
