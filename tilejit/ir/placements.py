"""The placement of a kernel's buffers in memory, by name: the symbol table of lane IR."""

from __future__ import annotations

from collections.abc import Iterable

from ..dataclass import dataclass

#: shared memory, in bytes: static is declared in PTX, dynamic is requested by the launch
STATIC, DYNAMIC = "static", "dynamic"
SHARED = (STATIC, DYNAMIC)

#: tensor memory, in columns
TMEM = "tmem"

#: numbered barriers of the CTA, one per instance of a scope
BARRIER = "barrier"

PLACES = (*SHARED, TMEM, BARRIER)


@dataclass(frozen=True, slots=True)
class MemoryPlacement:
    """The placement of a buffer, or of a scope's barriers.

    name: the buffer's or the scope's. where: one of `PLACES`, which determines the unit of `first` and `count`.
    align: divisor of the address, a multiple of the buffer's alignment (shared memory).
    """

    name: str
    where: str
    first: int
    count: int
    align: int = 1

    @property
    def end(self) -> int:
        """The first unit after the placement."""
        return self.first + self.count


def within(memory: Iterable[MemoryPlacement], *places: str) -> tuple[MemoryPlacement, ...]:
    """Return the placements in any of the places, in order."""
    return tuple([p for p in memory if p.where in places])


def total(memory: Iterable[MemoryPlacement], *places: str) -> int:
    """Return the greatest end of the placements in any of the places, or 0: the size in use, including gaps."""
    return max([p.end for p in memory if p.where in places], default=0)
