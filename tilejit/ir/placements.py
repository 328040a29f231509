"""Where the buffers of a kernel live, by name: the symbol table of lane IR."""

from __future__ import annotations

from collections.abc import Iterable

from ..dataclass import dataclass

__all__ = ["BARRIER", "DYNAMIC", "PLACES", "SHARED", "STATIC", "TMEM", "MemoryPlacement", "total", "within"]

#: bytes of shared memory that the PTX declares, and bytes that the launch asks for
STATIC, DYNAMIC = "static", "dynamic"
SHARED = (STATIC, DYNAMIC)

#: columns of tensor memory
TMEM = "tmem"

#: numbers of the CTA's barriers, one for each instance of a scope
BARRIER = "barrier"

#: where something may be placed
PLACES = (*SHARED, TMEM, BARRIER)


@dataclass(frozen=True, slots=True)
class MemoryPlacement:
    """Where a buffer lives, or which barriers of the CTA a scope has.

    name: the buffer's or the scope's. where: one of `PLACES`, which also says the unit of `first` and `count`.
    align: what divides the address, at least what the buffer asks for (shared memory).
    """

    name: str
    where: str
    first: int
    count: int
    align: int = 1

    @property
    def end(self) -> int:
        """The first unit behind it."""
        return self.first + self.count


def within(memory: Iterable[MemoryPlacement], *places: str) -> tuple[MemoryPlacement, ...]:
    """Those in one of the places, in order."""
    return tuple([p for p in memory if p.where in places])


def total(memory: Iterable[MemoryPlacement], *places: str) -> int:
    """How many units of a place are taken, gaps included."""
    return max([p.end for p in memory if p.where in places], default=0)
