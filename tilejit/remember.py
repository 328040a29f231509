"""Memoization by the identity of arguments, because hashing an expression would traverse it.

Memoized results keep a kernel's expressions alive, which Python's cyclic garbage collector then traverses. This took
8 % of the time to compile the examples in sequence, but only 3 % when the tables were cleared after each example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
S = TypeVar("S")
Table = TypeVar("Table", bound=dict[Any, Any])

#: maximum number of entries per function, a few hundred bytes each; a kernel of 20 tile operations adds 300
LIMIT = 2048

_tables: list[dict[Any, Any]] = []


def forgotten(table: Table) -> Table:
    """Register a table to be cleared by `forget`, and return it."""
    _tables.append(table)
    return table


def forget() -> None:
    """Clear the tables of results that are kept for the duration of a compilation."""
    for table in _tables:
        table.clear()


def memoized(function: Callable[[A], R], limit: int, kept: dict[int, tuple[A, R]]) -> Callable[[A], R]:
    """Memoize a function of one object, compared by identity.

    limit: maximum number of entries. kept: `id(key)`, which is unique while `key` is alive -> (key, result).
    """

    def remembering(key: A) -> R:
        entry = kept.get(id(key))
        if entry is not None:
            return entry[1]
        result = function(key)
        if len(kept) >= limit:
            kept.clear()
        kept[id(key)] = (key, result)
        return result

    return remembering


def remembered(function: Callable[[A], R], limit: int = LIMIT) -> Callable[[A], R]:
    """Memoize a function of one object, for the duration of a compilation. limit: maximum number of entries."""
    return memoized(function, limit, forgotten({}))


def lasting(function: Callable[[A], R]) -> Callable[[A], R]:
    """Memoize like `remembered`, but unaffected by `forget`: for objects that outlive compilations, such as layouts."""
    return memoized(function, LIMIT, {})


def once(method: Callable[[S, A], R]) -> Callable[[S, A], R]:
    """Memoize a method: all results are kept as long as the object that has the method.

    The table is an attribute of that object. A closure over the object as its attribute would be a reference cycle.
    """
    name = f"_results_of_{method.__name__}"

    def remembering(self: S, key: A) -> R:
        kept: dict[int, tuple[A, R]] | None = self.__dict__.get(name)
        if kept is None:
            kept = self.__dict__[name] = {}
        entry = kept.get(id(key))
        if entry is None:
            entry = kept[id(key)] = (key, method(self, key))
        return entry[1]

    return remembering


def remembered_pair(function: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """Memoize a function of two objects, for the duration of a compilation."""
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
