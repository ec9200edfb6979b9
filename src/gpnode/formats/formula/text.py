"""Formulas and equations as text, read by a parser that knows a short list of things and nothing else.

Python's own parser makes a tree; every node of it is then looked up in the lists below and anything
not on them is refused. Nothing the user writes is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpnode.errors import ModelError
from gpnode.formats.formula.evaluation import evaluate
from gpnode.formats.formula.operations import OPERATIONS
from gpnode.formats.formula.tree import Call, Name, Number, Tree, is_truth, names_in

LONGEST = 2000  # characters of one formula
_MOST_NODES = 600
_DEEPEST = 40

_SIGNS = {"plus", "minus", "times", "divide", "power", "and", "or", "not", "true", "false"}
_COMPARISONS: dict[type, str] = {
    ast.Lt: "lt",
    ast.LtE: "leq",
    ast.Gt: "gt",
    ast.GtE: "geq",
    ast.Eq: "eq",
    ast.NotEq: "neq",
}
FUNCTIONS = frozenset(OPERATIONS) - _SIGNS - {*_COMPARISONS.values()}
"""What can be called; ``piecewise(value, condition, ..., otherwise)`` chooses."""
CONSTANTS = {"pi": math.pi}
_RESERVED = frozenset({"exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "abs", "min", "max"})
"""Functions whose name nothing else can have."""
_BINARY: dict[type, str] = {
    ast.Add: "plus",
    ast.Sub: "minus",
    ast.Mult: "times",
    ast.Div: "divide",
    ast.Pow: "power",
}
_LEFT = re.compile(r"\s*d\s*(?P<state>\w+)\s*/\s*dt\s*\Z")


@dataclass(frozen=True)
class Formula:
    """A function of names: call it with a value for each of them."""

    text: str
    names: frozenset[str]
    tree: Tree

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return evaluate(self.tree, values)


def parse(text: str) -> Formula:
    """Read a formula such as ``-beta*S*I/(1 + S)``; ``^`` and ``**`` are powers."""
    if not isinstance(text, str) or not text.strip():
        raise ModelError("a formula is empty.")
    if len(text) > LONGEST:
        raise ModelError(f"a formula has {len(text)} characters; at most {LONGEST} are read.")
    try:
        parsed = ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ModelError(f"cannot read the formula {_shown(text)}. Use numbers, names, + - * / ^ and ( ).") from None
    _refuse_long(parsed)
    tree = _tree(parsed)
    if is_truth(tree):
        raise ModelError(f"the formula {_shown(text)} is true or false, not a number; piecewise(1, ..., 0) makes one.")
    return Formula(text.strip(), names_in(tree), tree)


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
        if name in _RESERVED or name in CONSTANTS or name == "t":
            raise ModelError(f"a state cannot be called {name!r}.")
        formulas[name] = parse(right)
    if not formulas:
        raise ModelError("there are no equations.")
    return formulas


def _shown(text: object) -> str:
    whole = str(text).strip()
    return repr(whole if len(whole) <= 60 else f"{whole[:57]}...")


def _refuse_long(parsed: ast.expr) -> None:
    count = 0
    waiting: list[tuple[ast.AST, int]] = [(parsed, 1)]
    while waiting:
        node, depth = waiting.pop()
        count += isinstance(node, ast.expr)
        if count > _MOST_NODES or depth > _DEEPEST:
            raise ModelError("a formula is too long or too deeply nested.")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _tree(node: ast.expr) -> Tree:
    """Check every node, and make of it what it stands for."""
    if isinstance(node, ast.Constant):
        if type(node.value) not in (int, float) or not _is_finite(node.value):
            raise ModelError(f"a formula has {_shown(node.value)} where a number should be.")
        return Number(float(node.value))  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id in _RESERVED:
            raise ModelError(f"{node.id} is a function: write {node.id}(...).")
        return Number(CONSTANTS[node.id]) if node.id in CONSTANTS else Name(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
        return _tree(node.operand)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return Call("minus" if isinstance(node.op, ast.USub) else "not", (_tree(node.operand),))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return Call(_BINARY[type(node.op)], (_tree(node.left), _tree(node.right)))
    if isinstance(node, ast.BoolOp):
        return Call("and" if isinstance(node.op, ast.And) else "or", tuple(_tree(value) for value in node.values))
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
        sides = [_tree(side) for side in (node.left, *node.comparators)]
        compared = [Call(_COMPARISONS[type(op)], (sides[i], sides[i + 1])) for i, op in enumerate(node.ops)]
        return compared[0] if len(compared) == 1 else Call("and", tuple(compared))
    if isinstance(node, ast.Call):
        return _called(node)
    raise ModelError(
        f"a formula may hold numbers, names, + - * / ^, < <= > >= == !=, and, or, not, ( ) and "
        f"functions such as {', '.join(sorted(_RESERVED))}; it has {_shown(ast.unparse(node))}."
    )


def _called(node: ast.Call) -> Tree:
    """A call of a function on the list; refuses any other call."""
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        called = node.func.id if isinstance(node.func, ast.Name) else "that"
        raise ModelError(f"there is no function {_shown(called)}; there are {', '.join(sorted(_RESERVED))} and others.")
    name = node.func.id
    least, most = (2, 2) if name in ("min", "max") else (OPERATIONS[name].least, OPERATIONS[name].most)
    if node.keywords or not least <= len(node.args) <= most or any(isinstance(a, ast.Starred) for a in node.args):
        raise ModelError(f"{name} takes {least if least == most else f'{least} or more'} argument(s).")
    return Call(name, tuple(_tree(argument) for argument in node.args))


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
