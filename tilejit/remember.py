"""Functions that remember their results, by the identity of their arguments, until a compilation has ended.

What is remembered of a kernel's expressions keeps them, and Python's cyclic collector goes through all that is kept:
that took 8 % of the time of compiling the examples one after the other, and takes 3 % where it is forgotten in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

__all__ = ["Remembered", "forget", "forgotten", "lasting", "remembered", "remembered_pair"]

A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
B = TypeVar("B")
K = TypeVar("K")
R = TypeVar("R")
V = TypeVar("V")

#: entries of one function, a few hundred bytes each; a kernel of 20 tile operations makes 300
LIMIT = 2048


#: what is forgotten
_tables: list[dict[Any, Any]] = []


def forgotten(table: dict[K, V]) -> dict[K, V]:
    """The table, which `forget` clears: whatever is in it is found out again."""
    _tables.append(table)
    return table


def forget() -> None:
    """Forgets what was remembered of the kernels that have been compiled."""
    for table in _tables:
        table.clear()


class Remembered(Protocol[A_contra, R]):
    """A function of one frozen object that computes each object's result once, and forgets all when it is full.

    By identity, because hashing an expression walks over it; two equal objects are computed twice.
    """

    def __call__(self, key: A_contra, /) -> R: ...

    def keep(self, key: A_contra, result: R, /) -> R:
        """Remembers `result` as the function's result for `key`."""


def remembered(function: Callable[[A], R], limit: int = LIMIT) -> Remembered[A, R]:
    """The function, which remembers its results: `limit` at most.

    It is a function itself: calling an object with `__call__` takes 0.5 µs instead of 0.3, and the matmul kernel makes
    4,000 such calls.
    """
    return _remembering(function, limit, forgotten({}))


def lasting(function: Callable[[A], R]) -> Remembered[A, R]:
    """As `remembered`, for objects that are there for many compilations, such as layouts: nothing is forgotten."""
    return _remembering(function, LIMIT, {})


def _remembering(function: Callable[[A], R], limit: int, kept: dict[int, tuple[A, R]]) -> Remembered[A, R]:
    """kept: the results; the keys, too, so that no other object can get the identity of one."""

    def keep(key: A, result: R) -> R:
        if len(kept) >= limit:
            kept.clear()
        kept[id(key)] = (key, result)
        return result

    def remembering(key: A) -> R:
        entry = kept.get(id(key))
        if entry is not None:
            return entry[1]
        result = function(key)
        if len(kept) >= limit:
            kept.clear()
        kept[id(key)] = (key, result)
        return result

    remembering.keep = keep  # type: ignore[attr-defined]
    return cast(Remembered[A, R], remembering)


def remembered_pair(function: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """As `remembered`, for a function of two objects."""
    kept: dict[tuple[int, int], tuple[A, B, R]] = forgotten({})

    def remembering(a: A, b: B) -> R:
        key = id(a), id(b)
        entry = kept.get(key)
        if entry is not None:
            return entry[2]
        result = function(a, b)
        if len(kept) >= LIMIT:
            kept.clear()
        kept[key] = (a, b, result)
        return result

    return remembering
