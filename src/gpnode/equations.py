"""The equations of motion in the user's units, as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from .dynamics import Dictionary, Dynamics, KnownForm, Sum
from .errors import ModelError
from .posterior import Posterior

ACTIVE_SIZE = 0.15
"""A scaled coefficient larger than this moves its state noticeably; its term counts as active."""


@dataclass(frozen=True)
class TermEstimate:
    """One term of one equation, in the user's units. ``probability`` is None for fixed coefficients."""

    term: str
    mean: float
    low: float
    high: float
    probability: float | None


@dataclass(frozen=True)
class Equation:
    """Right-hand side of one state: terms of a dictionary and, for a known form, an expression."""

    state: str
    terms: tuple[TermEstimate, ...]
    known: sympy.Expr | None


@dataclass(frozen=True)
class Equations:
    """All equations, and the parameters of known forms as (name, mean, low, high)."""

    equations: tuple[Equation, ...]
    parameters: tuple[tuple[str, float, float, float], ...]

    def __str__(self) -> str:
        lines = ["Equations of motion (mean, with 95 % intervals):", ""]
        for equation in self.equations:
            lines += _equation_lines(equation)
        if self.parameters:
            lines.append("with")
            width = max(len(name) for name, *_ in self.parameters)
            lines += [f"  {name:<{width}} = {m:.4g}  [{a:.4g}, {b:.4g}]" for name, m, a, b in self.parameters]
        return "\n".join(lines).rstrip()


def equations(posterior: Posterior) -> Equations:
    """The equations of a posterior that knows its model."""
    if posterior.model is None or posterior.problem is None:
        raise ModelError("equations need the model: load the posterior with Posterior.load(path, model=...).")
    dynamics, states = posterior.model.dynamics, posterior.model.states
    terms: dict[str, list[TermEstimate]] = {s: [] for s in states}
    known: dict[str, sympy.Expr] = {}
    parameters: list[tuple[str, float, float, float]] = []
    for prefix, part in _parts(dynamics, ""):
        if isinstance(part, Dictionary):
            for state, found in _dictionary_terms(part, prefix, posterior).items():
                terms[state] += found
        elif isinstance(part, KnownForm):
            for state, expression in _symbolic(part, prefix, states).items():
                known[state] = known.get(state, sympy.Integer(0)) + expression
            parameters += [_interval(prefix + n, posterior.draws[prefix + n]) for n in part.unknown]
    return Equations(
        tuple(Equation(s, tuple(terms[s]), known.get(s)) for s in states),
        tuple(parameters),
    )


def _parts(dynamics: Dynamics, prefix: str) -> list[tuple[str, Dynamics]]:
    if isinstance(dynamics, Sum):
        return [p for name, part in dynamics.parts.items() for p in _parts(part, f"{prefix}{name}.")]
    return [(prefix, dynamics)]


def _interval(name: str, draws: Any) -> tuple[str, float, float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return name, float(draws.mean()), float(low), float(high)


def _dictionary_terms(part: Dictionary, prefix: str, posterior: Posterior) -> dict[str, list[TermEstimate]]:
    draws = posterior.draws[f"{prefix}coef"].transpose("chain", "draw", ...).to_numpy()
    unit = _coefficient_unit(part, posterior)
    free, _ = part.masks()
    found: dict[str, list[TermEstimate]] = {}
    for i, state in enumerate(part.states):
        found[state] = []
        for k, term in enumerate(part.terms):
            values = draws[:, :, i, k]
            if not free[i, k] and values.flat[0] == 0:
                continue
            active = float((np.abs(values) > ACTIVE_SIZE * unit[i, k]).mean()) if free[i, k] else None
            _, mean, low, high = _interval(term.name, values)
            found[state].append(TermEstimate(term.name, mean, low, high, active))
    return found


def _coefficient_unit(part: Dictionary, posterior: Posterior) -> np.ndarray:
    """User units of one scaled coefficient (states, terms)."""
    assert posterior.problem is not None
    problem = posterior.problem
    bound = part.bind(problem.states, problem.scaling, posterior.data.size, "")
    return np.asarray(bound.unit)


def _equation_lines(equation: Equation) -> list[str]:
    likely = [t for t in equation.terms if t.probability is None or t.probability >= 0.5]
    pieces = [f"{'-' if t.mean < 0 else '+'} {abs(t.mean):.4g} {_times(t.term)}" for t in likely]
    known = [] if equation.known is None else [f"+ {equation.known}"]
    right = " ".join(known + pieces).removeprefix("+ ") or "0"
    lines = [f"  d{equation.state}/dt = {right}"]
    if equation.terms:
        rows = [(t.term, f"{t.mean:.4g}", f"[{t.low:.4g}, {t.high:.4g}]", _chance(t)) for t in equation.terms]
        term, mean, interval, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines += [f"      {a:<{term}}  {b:>{mean}}  {c:<{interval}}  {d}" for a, b, c, d in rows]
    return [*lines, ""]


def _chance(term: TermEstimate) -> str:
    return "fixed" if term.probability is None else f"active with probability {term.probability:.2f}"


def _times(term: str) -> str:
    return "" if term == "1" else term


# -- known forms: from the traced function to an expression --------------------------------

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "max": lambda a, b: sympy.Max(a, b),
    "min": lambda a, b: sympy.Min(a, b),
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda a: -a,
    "exp": sympy.exp,
    "log": sympy.log,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "tanh": sympy.tanh,
    "sqrt": sympy.sqrt,
    "abs": sympy.Abs,
    "square": lambda a: a**2,
    "convert_element_type": lambda a: a,
    "stop_gradient": lambda a: a,
    "logistic": lambda a: 1 / (1 + sympy.exp(-a)),
    "log1p": lambda a: sympy.log(1 + a),
    "expm1": lambda a: sympy.exp(a) - 1,
}


def _symbolic(part: KnownForm, prefix: str, states: tuple[str, ...]) -> dict[str, sympy.Expr]:
    """The user's function as expressions; a bare symbol ``f_state`` where it cannot be written as one."""
    names = ["t", *states, *part.priors]
    symbols = [sympy.Symbol(n) for n in ("t", *states)]
    symbols += [sympy.Symbol(prefix + n) if n in part.unknown else _number(value) for n, value in part.priors.items()]

    def flat(*values: Any) -> list[Any]:
        t, xs, ps = values[0], values[1 : 1 + len(states)], values[1 + len(states) :]
        slopes = part.slopes(t, dict(zip(states, xs, strict=True)), dict(zip(part.priors, ps, strict=True)))
        return [jnp.asarray(slopes[s], dtype=float) for s in part.states]

    traced = jax.make_jaxpr(flat)(*([jnp.zeros(())] * len(names)))
    try:
        found = _evaluate(traced.jaxpr, traced.consts, symbols)
    except _NoExpression:
        return {s: sympy.Symbol(f"f_{s}") for s in part.states}
    return dict(zip(part.states, found, strict=True))


class _NoExpression(Exception):
    """The traced function does something that has no formula here."""


def _evaluate(jaxpr: Any, consts: list[Any], arguments: list[Any]) -> list[Any]:
    """Run a traced function on symbols; raises :class:`_NoExpression` where there is no counterpart."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_number, consts), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return _number(atom.val) if hasattr(atom, "val") else known[atom]

    for step in jaxpr.eqns:
        name, inputs = step.primitive.name, [read(v) for v in step.invars]
        if name in ("pjit", "jit", "closed_call"):
            inner = step.params["jaxpr"]
            results = _evaluate(inner.jaxpr, inner.consts, inputs)
        elif name == "integer_pow":
            results = [inputs[0] ** step.params["y"]]
        elif name in _BINARY:
            results = [_BINARY[name](*inputs)]
        elif name in _UNARY:
            results = [_UNARY[name](*inputs)]
        else:
            raise _NoExpression(name)
        known |= dict(zip(step.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _number(value: Any) -> Any:
    if np.ndim(value) or not np.isfinite(value):
        raise _NoExpression("an array")
    number = float(value)
    return sympy.Integer(int(number)) if number == int(number) and abs(number) < 1e15 else sympy.Float(number)
