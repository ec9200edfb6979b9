"""PEtab's own expressions, read into the trees that all formats share. Nothing is ever evaluated as code."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from gpnode.errors import FileFormatError
from gpnode.formats.formula import Call, Name, Number, Tree

LONGEST = 50_000  # characters of one expression
_DEEPEST = 100  # brackets and signs within each other
_CONSTANTS: dict[str, Tree] = {"inf": Number(math.inf), "true": Call("true", ()), "false": Call("false", ())}
_SAME = ("exp", "log10", "log2", "ln", "sqrt", "abs", "sign", "min", "max", "piecewise")
_TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
_FUNCTIONS = {
    **{name: name for name in _SAME},
    **{f"{arc}{name}{h}": f"{arc}{name}{h}" for name in _TRIGONOMETRIC for arc in ("", "arc") for h in ("", "h")},
    **{f"a{name}{h}": f"arc{name}{h}" for name in _TRIGONOMETRIC for h in ("", "h")},
    "pow": "power",
}
"""Of expressions, by what they are called in trees; ``log`` apart, which takes the base last."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|&&|\|\||<=|>=|==|!=|[-+*/^()<>!,]))",
    re.ASCII,
)
_COMPARISONS = {"<": "lt", "<=": "leq", ">": "gt", ">=": "geq", "==": "eq", "!=": "neq"}


class _Token(NamedTuple):
    kind: str
    text: str


def parse_expression(text: object) -> Tree:
    """The tree of an expression, such as ``scale * A + offset``.

    >>> from gpnode.formats.petab.maths import parse_expression
    >>> parse_expression("2 * A")
    Call(function='times', arguments=(Number(value=2.0), Name(id='A')))
    """
    whole = str(text).strip()
    if not whole:
        raise FileFormatError("an expression is empty.")
    if len(whole) > LONGEST:
        raise FileFormatError(f"an expression has {len(whole)} characters; at most {LONGEST} are read.")
    reader = _Reader(whole)
    tree = reader.logical(0)
    reader.expect_end()
    return tree


class _Reader:
    """Tokens of one expression, and where the reader is."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._tokens: list[_Token] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                if not text[place:].strip():
                    break
                raise self._refusal(f"{text[place:].strip()[:1]!r} means nothing in it")
            kind = str(found.lastgroup)
            self._tokens.append(_Token(kind, found[kind]))
            place = found.end()

    def _refusal(self, why: str) -> FileFormatError:
        shown = self._text if len(self._text) <= 60 else f"{self._text[:57]}..."
        return FileFormatError(
            f"cannot read the expression {shown!r}: {why}. Use numbers, names, + - * / ^, comparisons, && || !, ( ) "
            "and functions such as exp(x) and piecewise(value, condition, otherwise)."
        )

    def _next(self) -> str:
        """The next sign, if one comes; else nothing."""
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "sign":
            return self._tokens[self._at].text
        return ""

    def _accept(self, *signs: str) -> str:
        sign = self._next()
        if sign and sign in signs:
            self._at += 1
            return sign
        return ""

    def expect_end(self) -> None:
        """Refuse what is left."""
        if self._at < len(self._tokens):
            raise self._refusal(f"{self._tokens[self._at].text!r} is not expected where it stands")

    # Each of these reads what binds as tightly as its operators, or more so. && and || bind alike, from the left.

    def logical(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise self._refusal("it is too deeply nested")
        tree = self._compared(depth)
        while sign := self._accept("&&", "||"):
            tree = Call("and" if sign == "&&" else "or", (tree, self._compared(depth)))
        return tree

    def _compared(self, depth: int) -> Tree:
        tree = self._sum(depth)
        while sign := self._accept(*_COMPARISONS):
            tree = Call(_COMPARISONS[sign], (tree, self._sum(depth)))
        return tree

    def _sum(self, depth: int) -> Tree:
        terms = [self._product(depth)]
        while sign := self._accept("+", "-"):
            term = self._product(depth)
            terms.append(term if sign == "+" else Call("minus", (term,)))
        return terms[0] if len(terms) == 1 else Call("plus", tuple(terms))

    def _product(self, depth: int) -> Tree:
        over: list[Tree] = [self._signed(depth)]
        under: list[Tree] = []
        while sign := self._accept("*", "/"):
            (over if sign == "*" else under).append(self._signed(depth))
        top = over[0] if len(over) == 1 else Call("times", tuple(over))
        if not under:
            return top
        return Call("divide", (top, under[0] if len(under) == 1 else Call("times", tuple(under))))

    def _signed(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise self._refusal("it is too deeply nested")
        sign = self._accept("+", "-", "!")
        if sign:
            tree = self._signed(depth + 1)
            if sign == "-" and isinstance(tree, Number):
                return Number(-tree.value)
            return {"+": tree, "-": Call("minus", (tree,)), "!": Call("not", (tree,))}[sign]
        return self._power(depth)

    def _power(self, depth: int) -> Tree:
        base = self._atom(depth)
        return Call("power", (base, self._signed(depth + 1))) if self._accept("^", "**") else base

    def _atom(self, depth: int) -> Tree:
        if self._accept("("):
            tree = self.logical(depth + 1)
            self._close()
            return tree
        if self._at >= len(self._tokens):
            raise self._refusal("it ends too early")
        token = self._tokens[self._at]
        if token.kind == "sign":
            raise self._refusal(f"{token.text!r} is not expected where it stands")
        self._at += 1
        if token.kind == "number":
            return Number(float(token.text))
        return self._call(token.text, depth) if self._accept("(") else _CONSTANTS.get(token.text, Name(token.text))

    def _call(self, name: str, depth: int) -> Tree:
        if name not in _FUNCTIONS and name != "log":
            raise self._refusal(f"there is no function {name[:60]!r}")
        arguments = []
        if self._next() != ")":
            arguments.append(self.logical(depth + 1))
            while self._accept(","):
                arguments.append(self.logical(depth + 1))
        self._close()
        if name == "log":
            return Call("ln", tuple(arguments)) if len(arguments) == 1 else Call("log", tuple(reversed(arguments)))
        return Call(_FUNCTIONS[name], tuple(arguments))

    def _close(self) -> None:
        if not self._accept(")"):
            raise self._refusal("a bracket is not closed")
