"""Trees of formulas: numbers, names, and calls of known operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpnode.errors import ModelError
from gpnode.formats.formula.operations import OPERATIONS

MOST_NODES = 20_000
"""Of one formula, with all that functions stand for."""
DEEPEST = 120
"""Calls within calls."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number; infinite ones and NaN are numbers, too."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """What is looked up among the values."""

    id: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation by its name in ``OPERATIONS``, with its arguments.

    >>> from gpnode.formats.formula import Call, Name, Number
    >>> Call("plus", (Name("x"), Number(1.0))).size
    3
    """

    function: str
    arguments: tuple[Tree, ...]
    size: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)
    names: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        operation = OPERATIONS.get(self.function)
        if operation is None:
            raise ModelError(f"there is no function {self.function!r:.60}.")
        operation.check(self.function, len(self.arguments))
        calls = [a for a in self.arguments if isinstance(a, Call)]
        size = 1 + len(self.arguments) - len(calls) + sum(a.size for a in calls)
        depth = 1 + max((a.depth for a in calls), default=0)
        if size > MOST_NODES or depth > DEEPEST:
            raise ModelError(
                f"a formula is too long or too deeply nested; at most {MOST_NODES} operations are read, "
                f"{DEEPEST} within each other."
            )
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "names", frozenset().union(*map(names_in, self.arguments)))


Tree = Number | Name | Call


def nodes_in(tree: Tree) -> Iterator[Tree]:
    """Every node, those that are shared once."""
    waiting, met = [tree], set()
    while waiting:
        node = waiting.pop()
        if id(node) not in met:
            met.add(id(node))
            yield node
            if isinstance(node, Call):
                waiting.extend(reversed(node.arguments))


def names_in(tree: Tree) -> frozenset[str]:
    """The names whose values it needs."""
    if isinstance(tree, Call):
        return tree.names
    return frozenset((tree.id,)) if isinstance(tree, Name) else frozenset()


def replace_names(tree: Tree, trees: Mapping[str, Tree]) -> Tree:
    """The same formula with other trees in the place of names."""
    made: dict[int, Tree] = {}

    def replaced(node: Tree) -> Tree:
        if isinstance(node, Number):
            return node
        if isinstance(node, Name):
            return trees.get(node.id, node)
        if node.names.isdisjoint(trees):
            return node
        if id(node) not in made:
            arguments = tuple(replaced(a) for a in node.arguments)
            made[id(node)] = Call(node.function, arguments)
        return made[id(node)]

    return replaced(tree)


def is_truth(tree: Tree) -> bool:
    """Whether its value is true or false rather than a number."""
    if not isinstance(tree, Call):
        return False
    if tree.function == "piecewise":
        values = [*tree.arguments[::2]]
        return all(is_truth(value) for value in values)
    return OPERATIONS[tree.function].gives_truth
