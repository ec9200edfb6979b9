"""Distributions whose numbers come in the same order in every process.

numpyro keeps the names of a distribution's numbers in a set, whose order changes from one process to the next, and
JAX hands them to compiled code in that order. Sorted, compiled code can be kept and found again.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import jax
from numpyro.distributions import Distribution


def sort_numbers(tree: Any) -> Any:
    """``tree`` with every distribution in it replaced by an equal one whose numbers are sorted by name."""
    return jax.tree.map(_sorted, tree, is_leaf=_is_distribution)


def _is_distribution(node: Any) -> bool:
    return isinstance(node, Distribution)


class _Sorted:
    """What turns a class of distributions into one whose numbers are sorted."""

    @classmethod
    @cache
    def gather_pytree_data_fields(cls) -> tuple[str, ...]:
        return tuple(sorted(super().gather_pytree_data_fields()))  # type: ignore[misc]

    @classmethod
    @cache
    def gather_pytree_aux_fields(cls) -> tuple[str, ...]:
        return tuple(sorted(super().gather_pytree_aux_fields()))  # type: ignore[misc]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _restored, (type(self).__mro__[2], vars(self))


@cache
def _sorted_class(kind: Any) -> Any:
    return type(kind)(kind.__name__, (_Sorted, kind), {"__module__": kind.__module__})


def _sorted(node: Any) -> Any:
    if not _is_distribution(node) or isinstance(node, _Sorted):
        return node
    copied = copy.copy(node)
    vars(copied).update({name: _sorted(part) for name, part in vars(node).items()})
    kind: Any = type(node)
    copied.__class__ = _sorted_class(kind)
    return copied


def _restored(kind: Any, content: dict[str, Any]) -> Any:
    instance: Any = object.__new__(_sorted_class(kind))
    vars(instance).update(content)
    return instance
