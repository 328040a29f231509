"""Functions that remember their results, by the identity of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Remembered", "RememberedPair", "remembered", "remembered_pair"]

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

#: entries of one function, a few hundred bytes each; a kernel of 20 tile operations makes 300
LIMIT = 2048


class Remembered(Generic[A, R]):
    """A function of one frozen object that computes each object's result once, and forgets all when it is full.

    By identity, because hashing an expression walks over it; two equal objects are computed twice.
    """

    __slots__ = ("_function", "_kept")

    def __init__(self, function: Callable[[A], R]) -> None:
        self._function = function
        self._kept: dict[int, tuple[A, R]] = {}

    def __call__(self, key: A) -> R:
        entry = self._kept.get(id(key))
        return entry[1] if entry is not None else self.keep(key, self._function(key))

    def keep(self, key: A, result: R) -> R:
        """Remembers `result` as the function's result for `key`.

        The key is stored, too, so that no other object can get its identity.
        """
        if len(self._kept) >= LIMIT:
            self._kept.clear()
        self._kept[id(key)] = (key, result)
        return result


class RememberedPair(Generic[A, B, R]):
    """As `Remembered`, a function of two objects."""

    __slots__ = ("_function", "_kept")

    def __init__(self, function: Callable[[A, B], R]) -> None:
        self._function = function
        self._kept: dict[tuple[int, int], tuple[A, B, R]] = {}

    def __call__(self, a: A, b: B) -> R:
        key = id(a), id(b)
        entry = self._kept.get(key)
        if entry is not None:
            return entry[2]
        result = self._function(a, b)
        if len(self._kept) >= LIMIT:
            self._kept.clear()
        self._kept[key] = (a, b, result)
        return result


def remembered(function: Callable[[A], R]) -> Remembered[A, R]:
    """The function, which remembers its results."""
    return Remembered(function)


def remembered_pair(function: Callable[[A, B], R]) -> RememberedPair[A, B, R]:
    """The function, which remembers its results."""
    return RememberedPair(function)
