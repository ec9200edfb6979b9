"""Algebraic rules, solved for what they determine where it enters linearly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpnode.errors import SbmlError
from gpnode.formats.formula import Call, Name, Number, Tree, names_in, replace_names

_ZERO, _ONE = Number(0.0), Number(1.0)


def solve_rules(rules: Sequence[Tree], unknowns: Collection[str], assigned: Mapping[str, Tree]) -> dict[str, Tree]:
    """Formulas for as many of ``unknowns`` as there are ``rules``, each of which says that a formula is zero.

    ``assigned`` are formulas that rules may use.
    """
    waiting = [_written_out(rule, assigned, unknowns) for rule in rules]
    solved: dict[str, Tree] = {}
    while waiting:
        choices = [(sorted(names_in(rule) & set(unknowns) - set(solved)), rule) for rule in waiting]
        found = None
        for names, rule in sorted(choices, key=lambda choice: len(choice[0])):
            found = next(
                ((name, rule, parts) for name in names if (parts := linear_parts(rule, name)) is not None), None
            )
            if found:
                break
        if found is None:
            raise SbmlError(
                "an algebraic rule cannot be solved: nothing that it could determine enters it linearly. Write it as "
                "an assignment rule."
            )
        name, rule, parts = found
        assert parts is not None
        rest, factor = parts
        solution = _divided(_negated(rest), factor)
        solved = {known: replace_names(tree, {name: solution}) for known, tree in solved.items()} | {name: solution}
        waiting = [replace_names(other, {name: solution}) for other in waiting if other is not rule]
    return solved


def _written_out(rule: Tree, assigned: Mapping[str, Tree], unknowns: Collection[str]) -> Tree:
    """With formulas in the place of assigned names as far as unknowns depend on them."""
    for _ in range(len(assigned)):
        names = {n for n in names_in(rule) if n in assigned and _depends(n, assigned, unknowns, set())}
        if not names:
            break
        rule = replace_names(rule, {name: assigned[name] for name in names})
    return rule


def _depends(name: str, assigned: Mapping[str, Tree], unknowns: Collection[str], met: set[str]) -> bool:
    waiting = [name]
    while waiting:
        for needed in names_in(assigned[waiting.pop()]):
            if needed in unknowns:
                return True
            if needed in assigned and needed not in met:
                met.add(needed)
                waiting.append(needed)
    return False


def linear_parts(tree: Tree, name: str) -> tuple[Tree, Tree] | None:
    """``(a, b)`` where ``tree`` is ``a + b*name``; None if it is not of that form, or if b is zero."""
    parts = _parts(tree, name)
    return None if parts is None or parts[1] == _ZERO else parts


def _parts(tree: Tree, name: str) -> tuple[Tree, Tree] | None:
    if name not in names_in(tree):
        return tree, _ZERO
    if isinstance(tree, Name):
        return _ZERO, _ONE
    assert isinstance(tree, Call)
    found = [_parts(argument, name) for argument in tree.arguments]
    if any(part is None for part in found):
        return None
    parts = [part for part in found if part is not None]
    if tree.function == "plus":
        return _sum([a for a, _ in parts]), _sum([b for _, b in parts])
    if tree.function == "minus" and len(parts) == 1:
        return _negated(parts[0][0]), _negated(parts[0][1])
    if tree.function == "minus":
        (a, b), (c, d) = parts
        return _sum([a, _negated(c)]), _sum([b, _negated(d)])
    if tree.function == "divide" and parts[1][1] == _ZERO:
        (a, b), (c, _) = parts
        return _divided(a, c), _divided(b, c)
    if tree.function == "times":
        holding = [i for i, (_, b) in enumerate(parts) if b != _ZERO]
        if len(holding) == 1:
            others = [a for i, (a, _) in enumerate(parts) if i != holding[0]]
            a, b = parts[holding[0]]
            return _product([a, *others]), _product([b, *others])
    return None


def _sum(trees: list[Tree]) -> Tree:
    kept = [tree for tree in trees if tree != _ZERO]
    return _ZERO if not kept else kept[0] if len(kept) == 1 else Call("plus", tuple(kept))


def _product(trees: list[Tree]) -> Tree:
    if _ZERO in trees:
        return _ZERO
    kept = [tree for tree in trees if tree != _ONE]
    return _ONE if not kept else kept[0] if len(kept) == 1 else Call("times", tuple(kept))


def _negated(tree: Tree) -> Tree:
    return Number(-tree.value) if isinstance(tree, Number) else Call("minus", (tree,))


def _divided(a: Tree, b: Tree) -> Tree:
    return a if b == _ONE or a == _ZERO else Call("divide", (a, b))
