"""Allocation of tensor memory columns, and its rules.

source: PTX ISA, "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...dataclass import dataclass
from ...errors import DeadlockError, SimulationError
from ..checks.findings import PtxPlaces
from .lanes import Lanes
from .tensor_layout import COLUMNS

UNIT = 32


@dataclass(frozen=True, slots=True)
class Allocation:
    """Columns start … start+columns-1 of one CTA, and the warp and instruction that allocated them."""

    start: int
    columns: int
    warp: int
    pc: int


class Allocator:
    """The columns of the CTAs of a chunk. owned: CTAs × columns, True if allocated. live: allocations per CTA."""

    def __init__(self, lanes: Lanes, places: PtxPlaces) -> None:
        self.lanes = lanes
        self.places = places
        self.owned = np.zeros((lanes.ctas, COLUMNS), bool)
        self.live: list[list[Allocation]] = [[] for _ in range(lanes.ctas)]
        self.last: dict[int, Allocation] = {}
        self.relinquished: dict[int, tuple[int, int]] = {}

    def allocate(self, warp: int, columns: int, pc: int) -> int:
        """Allocate columns for a warp of the chunk and return the first one.

        Raise an error if a rule forbids it or no run of free columns is long enough. The highest such run is used, so
        that few allocations start at column 0.
        """
        cta = warp // self.lanes.warps_per_cta
        self.check(cta, warp, columns, pc)
        free = ~self.owned[cta]
        starts = (x for x in range(COLUMNS - columns, -1, -UNIT) if free[x : x + columns].all())
        start = next(starts, None)
        if start is None:
            taken = "\n".join(self.line(a) for a in self.live[cta])
            what = f"waits forever for {columns} columns of tensor memory: {int(free.sum())} of {COLUMNS} are free"
            hint = "allocate fewer columns, or free some first"
            self.refuse(warp, pc, what, f"\nits CTA holds\n{taken}", DeadlockError, hint)
        self.last[cta] = Allocation(start, columns, warp, pc)
        self.live[cta].append(self.last[cta])
        self.owned[cta, start : start + columns] = True
        return start

    def check(self, cta: int, warp: int, columns: int, pc: int) -> None:
        if columns < UNIT or columns > COLUMNS or columns & (columns - 1):
            need = f"a power of two from {UNIT} to {COLUMNS}"
            self.refuse(warp, pc, f"allocates {columns} columns of tensor memory; the number must be {need}")
        if cta in self.relinquished:
            holder, where = self.relinquished[cta]
            self.refuse(
                warp, pc, "allocates tensor memory although its CTA has relinquished the permit",
                f"\n{self.lanes.describe_warp(holder)} relinquished it at\n  {self.places.describe(where)}",
            )
        last = self.last.get(cta)
        if last is not None and last.warp != warp:
            self.refuse(
                warp, pc, "allocates tensor memory, but one warp of a CTA must make all its allocations",
                f"\nand {self.lanes.describe_warp(last.warp)} has allocated at\n  {self.places.describe(last.pc)}",
            )
        if last is not None and columns > last.columns:
            self.refuse(
                warp, pc, f"allocates {columns} columns of tensor memory after {last.columns}: sizes must not grow",
                f"\nthe earlier allocation is at\n  {self.places.describe(last.pc)}",
            )

    def find(self, warp: int, address: int, columns: int, pc: int) -> Allocation:
        """Return the allocation that a warp frees. Raise SimulationError if the warp may not free these columns."""
        cta = warp // self.lanes.warps_per_cta
        same = [a for a in self.live[cta] if a.start == address]
        if not same:
            known = "\n".join(self.line(a) for a in self.live[cta]) or "  nothing"
            self.refuse(
                warp, pc, f"frees tensor memory at {address:#x}, where no allocation starts", f"\nallocated:\n{known}"
            )
        if same[0].columns != columns:
            what = f"frees {columns} columns of an allocation of {same[0].columns}"
            self.refuse(warp, pc, what, self.origin(same[0]))
        if same[0].warp != warp:
            self.refuse(warp, pc, "frees tensor memory of another warp: the warp that allocated it must free it",
                        self.origin(same[0]))
        return same[0]

    def free(self, warp: int, allocation: Allocation) -> None:
        cta = warp // self.lanes.warps_per_cta
        self.live[cta].remove(allocation)
        self.owned[cta, allocation.start : allocation.start + allocation.columns] = False

    def relinquish(self, warps: Any, pc: int) -> None:
        for warp in warps:
            self.relinquished.setdefault(int(warp) // self.lanes.warps_per_cta, (int(warp), pc))

    def check_all_freed(self) -> None:
        for allocations in self.live:
            for a in allocations:
                raise SimulationError(
                    f"the kernel exits with {a.columns} columns of tensor memory allocated, by "
                    f"{self.lanes.describe_warp(a.warp)}\n  {self.places.describe(a.pc)}",
                    hint="free them with tcgen05.dealloc on every path out of the kernel",
                    instructions=(a.pc,), threads=self.threads(a.warp),
                )

    def threads(self, warp: int) -> list[int]:
        return self.lanes.numbers(np.array([self.lanes.leader(warp)]))

    def line(self, a: Allocation) -> str:
        return f"  columns {a.start} to {a.start + a.columns - 1}, {self.places.describe(a.pc)}"

    def origin(self, a: Allocation) -> str:
        return f"\nit was allocated by {self.lanes.describe_warp(a.warp)} at\n  {self.places.describe(a.pc)}"

    def refuse(
        self, warp: int, pc: int, what: str, more: str = "", kind: type[SimulationError] = SimulationError,
        hint: str | None = None, other: int | None = None,
    ) -> NoReturn:
        text = f"{self.lanes.describe_warp(warp)} {what}\n  {self.places.describe(pc)}{more}"
        pcs = (pc,) if other is None else (pc, other)
        raise kind(text, hint=hint, instructions=pcs, threads=self.threads(warp))
