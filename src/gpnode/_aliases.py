"""Names that public functions had before: they go on working, and new code uses the new ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def accepts(**new_by_old: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator: keyword arguments by their old names, ``accepts(trajectory="experiment")``."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old, new in new_by_old.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"give {new}= or its old name {old}=, not both.")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
