"""An undo log of changes to the translation state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..dataclass import dataclass, field

__all__ = ["Journal"]

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class Journal:
    """The changes to lists, dicts and fields, each with the call that undoes it."""

    undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = field(default_factory=list)

    def append(self, items: list[_V], item: _V) -> None:
        items.append(item)
        self.undo.append((items.pop, ()))

    def put(self, table: dict[_K, _V], key: _K, value: _V) -> None:
        if key in table:
            self.undo.append((table.__setitem__, (key, table[key])))
        else:
            self.undo.append((table.__delitem__, (key,)))
        table[key] = value

    def set(self, owner: object, name: str, value: object) -> None:
        self.undo.append((setattr, (owner, name, getattr(owner, name))))
        setattr(owner, name, value)

    def back(self, changes: int) -> None:
        """Undo all but the first `changes` changes."""
        while len(self.undo) > changes:
            restore, arguments = self.undo.pop()
            restore(*arguments)
