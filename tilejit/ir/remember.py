"""Results remembered by the identity of what they were computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Remembered", "remembered"]

K = TypeVar("K")
V = TypeVar("V")

#: entries of one function; expressions are a few hundred bytes
LIMIT = 2048


class Remembered(Generic[K, V]):
    """A function of one frozen object that computes each object's result once, and forgets all when it is full.

    By identity, because hashing an expression walks over it; two equal objects are computed twice.
    """

    __slots__ = ("_function", "_kept")

    def __init__(self, function: Callable[[K], V]) -> None:
        self._function = function
        self._kept: dict[int, tuple[K, V]] = {}

    def __call__(self, key: K) -> V:
        found = self._kept.get(id(key))
        return found[1] if found is not None else self.keep(key, self._function(key))

    def keep(self, key: K, result: V) -> V:
        """Remembers what the function would give. The key is kept, too: its identity can't go to another object."""
        if len(self._kept) >= LIMIT:
            self._kept.clear()
        self._kept[id(key)] = (key, result)
        return result


def remembered(function: Callable[[K], V]) -> Remembered[K, V]:
    """The function, which remembers its results."""
    return Remembered(function)
