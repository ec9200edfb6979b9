"""Kinds of one thing by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from gpnode.errors import ModelError

T = TypeVar("T")


class Registry(Mapping[str, type[T]]):
    """Kinds of one thing by name: what files may name, what the conformance tests run over, what the docs list.

    Each kind states its ``name: ClassVar[str]``.
    """

    def __init__(self, what: str, *kinds: type[T]) -> None:
        self.what = what
        self._kinds: dict[str, type[T]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[T]) -> type[T]:
        """Enter a kind under its name; usable as a decorator."""
        name = cast(Any, kind).name
        if name in self._kinds:
            raise ModelError(f"two kinds of {self.what} are named {name!r}: give {kind.__name__} another name.")
        self._kinds[name] = kind
        return kind

    def __getitem__(self, name: str) -> type[T]:
        try:
            return self._kinds[name]
        except KeyError:
            raise ModelError(f"no {self.what} is named {name!r}: there are {', '.join(self._kinds)}.") from None

    def get(self, name: str, default: Any = None) -> Any:
        """The kind of that name, or the default."""
        return self._kinds.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
