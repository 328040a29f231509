"""Memoization by the identity of arguments, by default for the duration of a compilation.

Memoized results keep a kernel's expressions alive, which Python's cyclic garbage collector then traverses. This took
8 % of the time to compile the examples in sequence, but only 3 % when the tables were cleared after each example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
B = TypeVar("B")
K = TypeVar("K")
R = TypeVar("R")
V = TypeVar("V")

#: maximum number of entries per function, a few hundred bytes each; a kernel of 20 tile operations adds 300
LIMIT = 2048

_tables: list[dict[Any, Any]] = []


def forgotten(table: dict[K, V]) -> dict[K, V]:
    """Register a table to be cleared by `forget`, and return it."""
    _tables.append(table)
    return table


def forget() -> None:
    """Clear the tables of results that are kept for the duration of a compilation."""
    for table in _tables:
        table.clear()


class Remembered(Protocol[A_contra, R]):
    """A memoized function of an object, which is compared by identity: hashing an expression would traverse it."""

    def __call__(self, key: A_contra, /) -> R: ...

    def keep(self, key: A_contra, result: R, /) -> R:
        """Store `result` as the function's result for `key`, and return it."""


def remembered(function: Callable[[A], R], limit: int = LIMIT) -> Remembered[A, R]:
    """Memoize a function by identity, for the duration of a compilation. limit: maximum number of entries."""
    return _remembering(function, limit, forgotten({}))


def lasting(function: Callable[[A], R]) -> Remembered[A, R]:
    """Memoize like `remembered`, but unaffected by `forget`: for objects that outlive compilations, such as layouts."""
    return _remembering(function, LIMIT, {})


def _remembering(function: Callable[[A], R], limit: int, kept: dict[int, tuple[A, R]]) -> Remembered[A, R]:
    """Return the memoized function. kept: `id(key)`, which is unique while `key` is alive -> (key, result)."""

    def keep(key: A, result: R) -> R:
        if len(kept) >= limit:
            kept.clear()
        kept[id(key)] = (key, result)
        return result

    def remembering(key: A) -> R:
        entry = kept.get(id(key))
        return entry[1] if entry is not None else keep(key, function(key))

    remembering.keep = keep  # type: ignore[attr-defined]
    return cast(Remembered[A, R], remembering)


def by_identity(table: dict[int, tuple[A, R]], key: A, function: Callable[[A], R]) -> R:
    """Return `function(key)`, which is called once per object. table: `id(key)` -> (key, result)."""
    entry = table.get(id(key))
    if entry is None:
        entry = table[id(key)] = (key, function(key))
    return entry[1]


def remembered_pair(function: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """Memoize a function of two objects by their identity, for the duration of a compilation."""
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
