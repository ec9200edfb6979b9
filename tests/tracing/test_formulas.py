"""Formulas of traced functions."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import sympy

from gpnode.tracing import formulas as symbolic


def test_functions_without_a_formula_are_refused_by_name():
    with pytest.raises(symbolic.NoExpression):
        symbolic.write_formulas(lambda x: [jnp.sort(jnp.stack([x, 1.0]))[0]], [sympy.Symbol("x")])
