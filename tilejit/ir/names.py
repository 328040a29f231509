"""New names for what a kernel's rewriting adds: a stem with a number, which nothing else of the kernel has."""

from __future__ import annotations

from collections.abc import Set
from itertools import count

from . import walk
from .walk import Block

__all__ = ["FreshNames", "defined_names"]


def defined_names(body: Block) -> frozenset[str]:
    """The names that statements give to variables and buffers."""
    naming = [stmt for stmt in walk.statements(body) if not isinstance(stmt, walk.NAMELESS)]
    return frozenset([named.name for stmt in naming if (named := walk.defines(stmt)) is not None])


class FreshNames:
    """Names that no other has. taken: the names there are; of these only some end in a number. first: the least."""

    def __init__(self, taken: Set[str], first: int = 0) -> None:
        self._taken = taken
        self._numbers = count(first)

    def name(self, stem: str) -> str:
        """`stem` with the next number. Numbers aren't given twice, whatever the stem."""
        while True:
            name = f"{stem}.{next(self._numbers)}"
            if name not in self._taken:
                return name
