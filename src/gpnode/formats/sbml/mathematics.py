"""Mathematics of SBML as trees of known operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpnode.errors import ModelError, SbmlError
from gpnode.formats.formula import Call, Name, Number, Tree, replace_names
from gpnode.formats.sbml.document import libsbml_module
from gpnode.formats.sbml.naming import TIME, slope_of

_AVOGADRO = 6.02214179e23  # the value that SBML gives it

# What libsbml calls AST_..., with the operation it is.
_OPERATIONS = {
    "PLUS": "plus",
    "MINUS": "minus",
    "TIMES": "times",
    "DIVIDE": "divide",
    "POWER": "power",
    "FUNCTION_POWER": "power",
    **{f"FUNCTION_{name.upper()}": name for name in ("abs", "ceiling", "exp", "factorial", "floor", "ln")},
    **{f"FUNCTION_{name.upper()}": name for name in ("sin", "cos", "tan", "sec", "csc", "cot")},
    **{f"FUNCTION_{name.upper()}": name for name in ("sinh", "cosh", "tanh", "sech", "csch", "coth")},
    **{f"FUNCTION_{name.upper()}": name for name in ("arcsin", "arccos", "arctan", "arcsec", "arccsc", "arccot")},
    **{f"FUNCTION_{name.upper()}": name for name in ("arcsinh", "arccosh", "arctanh", "arcsech", "arccsch", "arccoth")},
    **{f"FUNCTION_{name.upper()}": name for name in ("max", "min", "quotient", "rem")},
    **{f"RELATIONAL_{name.upper()}": name for name in ("lt", "leq", "gt", "geq", "eq", "neq")},
    **{f"LOGICAL_{name.upper()}": name for name in ("and", "or", "not", "xor", "implies")},
    "FUNCTION_PIECEWISE": "piecewise",
}
_CONSTANTS: dict[str, Tree] = {
    "CONSTANT_PI": Number(math.pi),
    "CONSTANT_E": Number(math.e),
    "CONSTANT_TRUE": Call("true", ()),
    "CONSTANT_FALSE": Call("false", ()),
    "NAME_AVOGADRO": Number(_AVOGADRO),
    "NAME_TIME": Name(TIME),
}
_LONGEST_CHAIN = 10_000


class Mathematics:
    """Reads mathematics in one file, whose functions are written out where they are called."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        """``definitions`` of functions of the file, as libsbml has them, by name."""
        libsbml = libsbml_module()
        kinds = {
            kind: name for name, kind in vars(libsbml).items() if name.startswith("AST_") and isinstance(kind, int)
        }
        self._kinds = {
            kind: name.removeprefix("AST_") for kind, name in kinds.items() if not name.startswith("AST_TYPE")
        }
        self._definitions = definitions
        self._functions: dict[str, tuple[tuple[str, ...], Tree]] = {}
        self._open: list[str] = []  # functions being read, the outermost first

    def tree(self, node: Any, where: str) -> Tree:
        """A formula; ``where`` it stands is for messages."""
        try:
            return self._read(node, 0)
        except ModelError as error:
            raise SbmlError(f"{where}: {error}") from None
        except RecursionError:
            raise SbmlError(f"{where}: functions within functions are too many.") from None

    def _read(self, node: Any, depth: int) -> Tree:
        kind = self._kinds.get(node.getType(), "UNKNOWN")
        if depth > 200:
            raise ModelError("a formula is too deeply nested.")
        if kind in ("INTEGER", "REAL", "REAL_E", "RATIONAL"):
            return Number(float(node.getValue()))
        if kind == "NAME":
            return Name(node.getName())
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "FUNCTION_DELAY":
            raise ModelError("values of the past (csymbol 'delay') are not honoured.")
        if kind == "FUNCTION_RATE_OF":
            return self._rate_of(node)
        children = self._operands(node, kind)
        arguments = tuple(self._read(child, depth + 1) for child in children)
        if kind == "FUNCTION":
            return self._call(node.getName(), arguments)
        if kind == "FUNCTION_ROOT":
            return Call("root", arguments[::-1]) if len(arguments) == 2 else Call("sqrt", arguments)
        if kind == "FUNCTION_LOG":
            return _logarithm(arguments)
        if kind == "FUNCTION_PIECEWISE" and not arguments:
            return Number(math.nan)
        if kind in _OPERATIONS:
            return _operation(_OPERATIONS[kind], arguments)
        raise ModelError(f"{(node.getName() or kind).lower()!r:.60} is not an operation that gpnode knows.")

    def _operands(self, node: Any, kind: str) -> list[Any]:
        """Children, of sums and products those of the sums and products that come first, too."""
        children = [node.getChild(i) for i in range(node.getNumChildren())]
        if kind not in ("PLUS", "TIMES"):
            return children
        while children and children[0].getType() == node.getType() and children[0].getNumChildren() > 0:
            first = children[0]
            children[:1] = [first.getChild(i) for i in range(first.getNumChildren())]
            if len(children) > _LONGEST_CHAIN:
                raise ModelError("a formula is too long.")
        return children

    def _rate_of(self, node: Any) -> Tree:
        child = node.getChild(0) if node.getNumChildren() == 1 else None
        if child is None or self._kinds.get(child.getType()) != "NAME":
            raise ModelError("rateOf needs the name of something, and nothing else.")
        return Name(slope_of(child.getName()))

    def _call(self, name: str, arguments: tuple[Tree, ...]) -> Tree:
        if name not in self._definitions:
            raise ModelError(f"there is no function {name!r:.60}.")
        names, body = self._function(name)
        if len(names) != len(arguments):
            raise ModelError(f"the function {name!r:.60} takes {len(names)} argument(s); got {len(arguments)}.")
        by_name = dict(zip(names, arguments, strict=True))
        for argument, tree in by_name.items():  # what rateOf takes is a name, whichever it is called with
            if isinstance(tree, Name):
                by_name = by_name | {slope_of(argument): Name(slope_of(tree.id))}
        return replace_names(body, by_name)

    def _function(self, name: str) -> tuple[tuple[str, ...], Tree]:
        if name in self._open:
            around = " -> ".join([*self._open[self._open.index(name) :], name])
            raise ModelError(f"functions call each other in a circle: {around:.200}.")
        if name not in self._functions:
            definition = self._definitions[name].getMath()
            if (
                definition is None
                or self._kinds.get(definition.getType()) != "LAMBDA"
                or not definition.getNumChildren()
            ):
                raise ModelError(f"the function {name!r:.60} has no definition.")
            children = [definition.getChild(i) for i in range(definition.getNumChildren())]
            names = tuple(child.getName() or "" for child in children[:-1])
            self._open.append(name)
            try:
                self._functions[name] = names, self._read(children[-1], 0)
            finally:
                self._open.pop()
        return self._functions[name]


def _logarithm(arguments: tuple[Tree, ...]) -> Tree:
    if len(arguments) == 1 or (len(arguments) == 2 and arguments[0] == Number(10.0)):
        return Call("log10", arguments[-1:])
    if len(arguments) == 2 and arguments[0] == Number(2.0):
        return Call("log2", arguments[1:])
    return Call("log", arguments)


def _operation(name: str, arguments: tuple[Tree, ...]) -> Tree:
    """What a call says, in fewer steps where it says nothing."""
    if name in ("plus", "times") and len(arguments) == 1:
        return arguments[0]
    if name in ("eq", "lt", "leq", "gt", "geq") and len(arguments) == 1:
        return Call("true", ())
    return Call(name, arguments)
