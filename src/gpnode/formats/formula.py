"""Formulas and equations as text, read by a parser that knows a short list of things and nothing else.

Python's own parser makes the tree; every node of it is then looked up in the lists below and anything
not on them is refused. Nothing the user writes is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from gpnode.errors import ModelError

LONGEST = 2000  # characters of one formula
_MOST_NODES = 600
_DEEPEST = 40
_LARGEST_POWER = 12  # whole powers up to this are multiplied out

FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "exp": (jnp.exp, 1),
    "log": (jnp.log, 1),
    "sqrt": (jnp.sqrt, 1),
    "sin": (jnp.sin, 1),
    "cos": (jnp.cos, 1),
    "tan": (jnp.tan, 1),
    "tanh": (jnp.tanh, 1),
    "abs": (jnp.abs, 1),
    "min": (jnp.minimum, 2),
    "max": (jnp.maximum, 2),
}
CONSTANTS = {"pi": math.pi}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: jnp.add,
    ast.Sub: jnp.subtract,
    ast.Mult: jnp.multiply,
    ast.Div: jnp.divide,
}
_LEFT = re.compile(r"\s*d\s*(?P<state>\w+)\s*/\s*dt\s*\Z")


@dataclass(frozen=True)
class Formula:
    """A function of names: call it with a value for each of them."""

    text: str
    names: frozenset[str]
    tree: ast.expr

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return _value(self.tree, values)


def parse(text: str) -> Formula:
    """Read a formula such as ``-beta*S*I/(1 + S)``; ``^`` and ``**`` are powers."""
    if not isinstance(text, str) or not text.strip():
        raise ModelError("a formula is empty.")
    if len(text) > LONGEST:
        raise ModelError(f"a formula has {len(text)} characters; at most {LONGEST} are read.")
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ModelError(f"cannot read the formula {_shown(text)}. Use numbers, names, + - * / ^ and ( ).") from None
    return Formula(text.strip(), frozenset(_names(tree)), tree)


def parse_equations(lines: Iterable[str]) -> dict[str, Formula]:
    """Read equations such as ``dS/dt = -beta*S*I``, one for each state."""
    formulas: dict[str, Formula] = {}
    for line in lines:
        if not isinstance(line, str) or line.count("=") != 1:
            raise ModelError(f"an equation must look like 'dS/dt = -beta*S'; got {_shown(line)}.")
        left, right = line.split("=")
        state = _LEFT.match(left[:LONGEST])
        if state is None:
            raise ModelError(f"the left side of an equation must look like dS/dt; got {_shown(left)}.")
        name = state["state"]
        if name in formulas:
            raise ModelError(f"there are two equations for {name!r}.")
        if name in FUNCTIONS or name in CONSTANTS or name == "t":
            raise ModelError(f"a state cannot be called {name!r}.")
        formulas[name] = parse(right)
    if not formulas:
        raise ModelError("there are no equations.")
    return formulas


def _shown(text: object) -> str:
    whole = str(text).strip()
    return repr(whole if len(whole) <= 60 else f"{whole[:57]}...")


def _names(tree: ast.expr) -> set[str]:
    """Check every node, and collect the names."""
    names: set[str] = set()
    count = 0
    stack: list[tuple[ast.expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > _MOST_NODES or depth > _DEEPEST:
            raise ModelError("a formula is too long or too deeply nested.")
        if isinstance(node, ast.Constant):
            if type(node.value) not in (int, float) or not _is_finite(node.value):
                raise ModelError(f"a formula has {_shown(node.value)} where a number should be.")
        elif isinstance(node, ast.Name):
            if node.id in FUNCTIONS:
                raise ModelError(f"{node.id} is a function: write {node.id}(...).")
            if node.id not in CONSTANTS:
                names.add(node.id)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            stack.append((node.operand, depth + 1))
        elif isinstance(node, ast.BinOp) and (type(node.op) in _BINARY or isinstance(node.op, ast.Pow)):
            stack += [(node.left, depth + 1), (node.right, depth + 1)]
        elif isinstance(node, ast.Call):
            stack += [(argument, depth + 1) for argument in _arguments(node)]
        else:
            raise ModelError(
                f"a formula may hold numbers, names, + - * / ^, ( ) and {', '.join(FUNCTIONS)}; "
                f"it has {_shown(ast.unparse(node))}."
            )
    return names


def _arguments(node: ast.Call) -> list[ast.expr]:
    """Arguments of a call to a function on the list; refuses any other call."""
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        called = node.func.id if isinstance(node.func, ast.Name) else "that"
        raise ModelError(f"there is no function {_shown(called)}; there are {', '.join(FUNCTIONS)}.")
    _, arity = FUNCTIONS[node.func.id]
    if node.keywords or len(node.args) != arity or any(isinstance(a, ast.Starred) for a in node.args):
        raise ModelError(f"{node.func.id} takes {arity} argument(s).")
    return node.args


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a checked tree."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return float(node.value)
    if isinstance(node, ast.Name):
        return CONSTANTS[node.id] if node.id in CONSTANTS else values[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand, values)
        return jnp.negative(operand) if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        function, _ = FUNCTIONS[node.func.id]
        return function(*(_value(a, values) for a in node.args))
    assert isinstance(node, ast.BinOp)
    left = _value(node.left, values)
    if isinstance(node.op, ast.Pow):
        whole = _whole_power(node.right)
        return jnp.asarray(left) ** whole if whole is not None else jnp.power(left, _value(node.right, values))
    return _BINARY[type(node.op)](left, _value(node.right, values))


def _whole_power(node: ast.expr) -> int | None:
    """A small whole exponent, which unlike others is defined for negative bases."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        positive = _whole_power(node.operand)
        return None if positive is None else -positive
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int | float) and float(value).is_integer() and abs(value) <= _LARGEST_POWER:
        return int(value)
    return None
