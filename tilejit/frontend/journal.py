"""A journal of changes: whatever reading a kernel has built up can be put back as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..dataclass import dataclass, field

__all__ = ["Journal"]

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class Journal:
    """Lists, tables and fields that outlive a trial are changed through it alone.

    undo: what takes each change back, in the order of the changes.
    """

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
        """Give a field of an object another value."""
        self.undo.append((setattr, (owner, name, getattr(owner, name))))
        setattr(owner, name, value)

    def back(self, changes: int) -> None:
        """Undo all but the first `changes`."""
        while len(self.undo) > changes:
            restore, arguments = self.undo.pop()
            restore(*arguments)
