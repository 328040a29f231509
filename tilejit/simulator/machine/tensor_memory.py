"""Tensor memory: 128 lanes × 512 columns × 32 bits per CTA, with asynchronous loads and stores.

A tcgen05.st completes at its warp's tcgen05.wait::st; until then its cells must not be accessed. Until the wait for a
tcgen05.ld, its registers must not be accessed, and its cells must not be stored to. Warp i of a warpgroup accesses only
lanes 32·i to 32·i+31.

This is stricter than the ISA in one point: in the ISA, a true dependency through a register needs no wait ("Register
dependencies, same thread"). But a kernel that relies on this may free or overwrite the cells too early.

source: PTX ISA, "Tensor Memory and Register Load/Store Instructions" and "Memory Consistency Model for 5th generation
of TensorCore operations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import (
    AsyncHazardError,
    DeadlockError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
)
from ...fast_unique import fast_unique
from ..numerics.products import stacked
from .access import Access
from .lanes import WARP, Index
from .tensor_layout import COLUMNS, Form, form
from .warp import Warps

ROWS = 128
# columns are allocated in multiples of this number
UNIT = 32
CELLS = ROWS * COLUMNS
ADDRESS_LANE_SHIFT = 16


@dataclass(slots=True)
class TmemTransfer:
    """A load or store in flight. cells: warps × lanes × registers (× halves if packed). values: None for a load."""

    pc: int
    warps: Index
    cells: Index
    values: NDArray[np.uint32] | None
    packed: bool


class TensorMemory:
    """The tensor memory of a chunk's CTAs; generated code calls its methods."""

    def __init__(self, warps: Warps, access: Access) -> None:
        self.lanes = lanes = access.lanes
        self.warps = warps
        self.access = access
        self.order = access.order
        self.places = access.places
        self.allocator = Allocator(access)
        self.flying: dict[str, list[TmemTransfer]] = {"load": [], "store": []}
        #: register in flight → for each warp, the instruction (plus 1) that loads it, or 0
        self.registers: dict[str, NDArray[np.int64]] = {}
        self.fenced = {how: np.zeros(warps.count, np.int64) for how in ("before", "after")}
        self.last_use = np.zeros((warps.count, COLUMNS // UNIT), np.int64)
        # the host allocates pages of these arrays only when they are written
        size = lanes.ctas * CELLS
        self.data = np.zeros(size, np.uint32)
        #: one byte per half cell: 1 if it has been written
        self.written = np.zeros(2 * size, np.uint8)
        #: per cell, the instruction (plus 1) of an access in flight, or 0
        self.busy = {kind: np.zeros(size, np.uint32) for kind in ("load", "store")}
        #: per cell, the last access of each kind, as event << 32 | warp + 1, or 0
        self.record = {kind: np.zeros(size, np.uint64) for kind in ("load", "store")}

    def alloc(self, number: int, address: Any, columns: Any, pc: int) -> None:
        """tcgen05.alloc: allocate columns for each warp, and store their address to shared memory."""
        self.warps.whole(pc)
        each = self.uniform(columns, "the number of columns", pc)
        self.uniform(address, "the address", pc)
        starts = np.array([
            self.allocator.allocate(int(w), int(n), pc) for w, n in zip(self.lanes.warps(), each, strict=True)
        ], np.uint32)
        if self.order is not None:
            # The instruction is synchronous, and the warp executes it as a whole: it orders all lanes' accesses.
            self.order.warp_barrier(self.lanes.positions())
        self.access.store(number, self.lanes.each(address), np.repeat(starts, WARP))

    def dealloc(self, address: Any, columns: Any, pc: int) -> None:
        """tcgen05.dealloc: free columns; accesses to them must be complete and ordered before the deallocation."""
        self.warps.whole(pc)
        addresses = self.uniform(address, "the address", pc)
        numbers = self.uniform(columns, "the number of columns", pc)
        for warp, at, n in zip(self.lanes.warps(), addresses, numbers, strict=True):
            allocation = self.allocator.find(int(warp), int(at), int(n), pc)
            if self.order is not None:
                self.check_free(int(warp), allocation.start, allocation.columns, pc)
            self.allocator.free(int(warp), allocation)
            cta = int(warp) // self.lanes.warps_per_cta
            first = allocation.start
            halves = self.written.reshape(-1, ROWS, COLUMNS, 2)
            halves[cta, :, first : first + allocation.columns] = 0

    def relinquish(self, pc: int) -> None:
        self.warps.whole(pc)
        for warp in self.lanes.warps().tolist():
            self.allocator.relinquished.setdefault(warp // self.lanes.warps_per_cta, (warp, pc))

    def fence(self, how: str) -> None:
        if self.order is not None:
            self.fenced[how][self.lanes.get("chunk_warp")] = self.order.tick(0)

    def load(self, shape: str, num: int, packed: bool, split: int, address: Any, pc: int) -> NDArray[np.uint32]:
        """tcgen05.ld: return the registers, one row each. Generated code marks them as in flight with `pending`."""
        kind = form(shape, num, packed, split)
        warps, cells = self.cells(kind, address, "load", pc)
        self.flying["load"].append(TmemTransfer(pc, warps, cells, None, packed))
        if self.order is not None:
            self.check(kind, warps, cells, "load", pc)
        values = self.data[cells]
        if packed:
            values = (values[..., 0] & np.uint32(0xFFFF)) | (values[..., 1] << np.uint32(16))
        registers: NDArray[np.uint32] = values.reshape(-1, values.shape[2]).T
        return registers

    def store(
        self, shape: str, num: int, packed: bool, split: int, address: Any, values: Sequence[Any], pc: int
    ) -> None:
        """tcgen05.st: start a store, which completes at the next tcgen05.wait::st of its warp."""
        kind = form(shape, num, packed, split)
        warps, cells = self.cells(kind, address, "store", pc)
        words = stacked(values, self.lanes.n, np.uint32).T.reshape(warps.size, WARP, -1)
        if packed:
            words = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=3)
        if self.order is not None:
            self.check(kind, warps, cells, "store", pc)
        self.flying["store"].append(TmemTransfer(pc, warps, cells, words, packed))

    def pending(self, registers: Sequence[str], pc: int) -> None:
        if self.order is None:
            return
        for name in registers:
            if name not in self.registers:
                self.registers[name] = np.zeros(self.warps.count, np.int64)
            self.registers[name][self.lanes.warps()] = pc + 1

    def touch(self, name: str, pc: int, verb: str) -> None:
        """Raise AsyncHazardError if a load of register `name` hasn't been waited for."""
        if name not in self.registers:
            return
        warps = self.lanes.get("chunk_warp")
        found = self.registers[name][warps]
        wrong = np.flatnonzero(found)
        if wrong.size:
            what, load = f"{verb} register {name} before its load was waited for", int(found[wrong[0]]) - 1
            positions, hint = self.lanes.positions()[wrong], "put tcgen05.wait::ld between the two"
            raise self.access.error(AsyncHazardError, positions, what, pc, hint, ("loaded at", load))

    def wait_ld(self, pc: int) -> None:
        self.warps.whole(pc)
        here = self.lanes.warps()
        for name in list(self.registers):
            self.registers[name][here] = 0
            if not np.count_nonzero(self.registers[name]):
                del self.registers[name]
        self.finish(here, "load")

    def wait_st(self, pc: int) -> None:
        self.warps.whole(pc)
        self.finish(self.lanes.warps(), "store")

    def uniform(self, value: Any, what: str, pc: int) -> Index:
        return self.access.uniform(value, WARP, what, pc).astype(np.int64)

    def cells(self, kind: Form, address: Any, how: str, pc: int) -> tuple[Index, Index]:
        """Return (warps, cells) of an access; raise an error if a warp may not access the lanes or columns."""
        self.warps.whole(pc)
        warps = self.lanes.warps()
        base = self.uniform(address, "the tensor memory address", pc)
        row, column = base >> ADDRESS_LANE_SHIFT, base & ((1 << ADDRESS_LANE_SHIFT) - 1)
        inside = warps % self.lanes.warps_per_cta
        lowest = inside % 4 * WARP
        verb = "loads from" if how == "load" else "stores to"
        wrong = np.flatnonzero((row < lowest) | (row + kind.height > lowest + WARP))
        if wrong.size:
            at = int(wrong[0])
            what = f"{verb} lanes {int(row[at])} to {int(row[at]) + kind.height - 1} of tensor memory; "
            what += f"warp {int(inside[at])} reaches lanes {int(lowest[at])} to {int(lowest[at]) + 31}"
            self.allocator.refuse(int(warps[at]), pc, what, kind=OutOfBoundsError)
        wrong = np.flatnonzero(row % kind.height)
        if wrong.size:
            at = int(wrong[0])
            what = f"{verb} tensor memory from lane {int(row[at])} on, which is not a multiple of {kind.height}"
            self.allocator.refuse(int(warps[at]), pc, what, kind=MisalignedError)
        self.check_columns(kind, warps, column, verb, pc)
        first = warps // self.lanes.warps_per_cta * CELLS + row * COLUMNS + column
        offsets = kind.rows * COLUMNS + kind.columns
        return warps, first.reshape(-1, *[1] * offsets.ndim) + offsets

    def check_columns(self, kind: Form, warps: Index, column: Index, verb: str, pc: int) -> None:
        owned = self.allocator.owned
        for start in fast_unique(column):
            rows = np.flatnonzero(column == start)
            columns = start + kind.used
            real = columns[columns < COLUMNS]
            fits = owned[warps[rows] // self.lanes.warps_per_cta][:, real].all(axis=1) & (real.size == columns.size)
            if not fits.all():
                at = int(rows[np.flatnonzero(~fits)[0]])
                live = self.allocator.live[int(warps[at]) // self.lanes.warps_per_cta]
                known = "\n".join(self.allocator.line(a) for a in live) or "  nothing"
                last = int(start) + kind.span - 1
                what = f"{verb} columns {int(start)} to {last} of tensor memory, which are not all allocated"
                self.allocator.refuse(int(warps[at]), pc, what, f"\nallocated:\n{known}", OutOfBoundsError)
            if self.order is not None:
                units = fast_unique(columns // UNIT)
                self.last_use[warps[rows][:, None], units] = self.order.tick(pc)

    def check(self, kind: Form, warps: Index, cells: Index, how: str, pc: int) -> None:
        """Raise an error for a hazard, a race or a read of unwritten cells; otherwise record the access."""
        assert self.order is not None
        for other in ("store", "load") if how == "store" else ("store",):
            busy = self.busy[other][cells]
            if np.count_nonzero(busy):
                self.report_busy(warps, cells, busy, other, how, pc)
            self.check_race(warps, cells, other, how, pc)
        if how == "load":
            whole = self.written.view(np.uint16)[cells] == 0x0101 if not kind.packed else self.written[2 * cells] == 1
            if np.count_nonzero(whole) < whole.size:
                self.report_unwritten(warps, cells, np.flatnonzero(~whole.reshape(-1)), pc)
        self.busy[how][cells] = pc + 1
        stamp = (np.uint64(self.order.tick(pc) << 32)) + (warps + 1).astype(np.uint64)
        self.record[how][cells] = stamp.reshape(-1, *[1] * (cells.ndim - 1))

    def check_race(self, warps: Index, cells: Index, other: str, how: str, pc: int) -> None:
        """Raise RaceError if synchronization and tcgen05 fences don't order other warps' accesses before this access.

        other, how: the kinds of the other accesses and of this access, "load" or "store".
        """
        assert self.order is not None
        record = self.record[other][cells]
        mine = np.broadcast_to(warps.reshape(-1, *[1] * (cells.ndim - 1)), cells.shape)
        theirs = (record & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
        at = np.flatnonzero((record != 0) & (theirs != mine))
        if not at.size:
            return
        event = (record.reshape(-1)[at] >> np.uint64(32)).astype(np.int64)
        me, them = mine.reshape(-1)[at], theirs.reshape(-1)[at]
        ordered = self.ordered(me, them, event)
        fenced = (self.fenced["before"][them] > event) & (self.fenced["after"][me] > event)
        wrong = np.flatnonzero(~(ordered & fenced))
        if not wrong.size:
            return
        first = int(wrong[0])
        why = "with no barrier in between" if not ordered[first] else (
            "without tcgen05.fence::before_thread_sync before and ::after_thread_sync after the barrier between them"
        )
        warp, place = int(me[first]), self.cell(cells, int(at[first]))
        raise self.access.failure(
            RaceError, np.array([self.lanes.leader(warp)]),
            f"race in tensor memory: {self.lanes.describe_warp(warp)} {how}s at {place}", pc,
            then=(f"and {self.lanes.describe_warp(int(them[first]))} {other}s there, {why}",
                  int(self.order.pcs[int(event[first])])),
        )

    def ordered(self, me: Index, them: Index, event: Index) -> NDArray[np.bool_]:
        """Return a mask of the events of warps `them` that synchronization orders before the next events of `me`."""
        assert self.order is not None
        first = self.lanes.first * self.lanes.warps_per_cta

        def leader(warp: Index) -> Index:
            cta, inside = divmod(warp + first, self.lanes.warps_per_cta)
            return cta * self.lanes.threads + inside * WARP + 1

        return self.order.ordered(leader(them), event, leader(me))

    def check_free(self, warp: int, start: int, columns: int, pc: int) -> None:
        """Raise an error if an access to freed columns is in flight, or isn't ordered before the deallocation."""
        assert self.order is not None
        cta = warp // self.lanes.warps_per_cta
        what = f"frees columns {start} to {start + columns - 1} of tensor memory"
        for kind, busy in self.busy.items():
            part = busy.reshape(-1, ROWS, COLUMNS)[cta, :, start : start + columns]
            if np.count_nonzero(part):
                pending = f"while a {kind} of them is in flight", int(part[part != 0][0]) - 1
                hint = f"put tcgen05.wait::{'ld' if kind == 'load' else 'st'} before the deallocation"
                self.allocator.refuse(warp, pc, what, kind=AsyncHazardError, hint=hint, then=pending)
        first = cta * self.lanes.warps_per_cta
        others = np.arange(first, first + self.lanes.warps_per_cta)
        uses = self.last_use[others, start // UNIT : (start + columns) // UNIT].max(axis=1)
        late = (uses > 0) & (others != warp) & ~self.ordered(np.full(others.size, warp), others, uses)
        if late.any():
            other = int(np.flatnonzero(late)[0])
            by = self.lanes.describe_warp(int(others[other]))
            use = f"but no barrier follows their use by {by}", int(self.order.pcs[int(uses[other])])
            hint = "put a barrier between the last use and the deallocation"
            self.allocator.refuse(warp, pc, what, kind=RaceError, hint=hint, then=use)

    def finish(self, here: Index, how: str) -> None:
        """Complete the loads or stores of the warps `here`."""
        rest = []
        for op in self.flying[how]:
            mine = np.isin(op.warps, here)
            cells = op.cells[mine]
            if self.order is not None:
                self.busy[how][cells] = 0
            if op.values is not None:
                self.land(cells, op.values[mine], op.packed)
            if not mine.all():
                values = None if op.values is None else op.values[~mine]
                rest.append(TmemTransfer(op.pc, op.warps[~mine], op.cells[~mine], values, op.packed))
        self.flying[how] = rest

    def land(self, cells: Index, values: NDArray[np.uint32], packed: bool) -> None:
        """Write 32-bit values to cells or, if packed, 16-bit values to the lower halves; the upper become undefined."""
        self.access.memory_changed()
        if packed:
            self.data.view(np.uint16)[2 * cells] = values
            self.written[2 * cells] = 1
            self.written[2 * cells + 1] = 0
        else:
            self.data[cells] = values
            self.written.view(np.uint16)[cells] = 0x0101

    def cell(self, cells: Index, at: int) -> str:
        row, column = divmod(int(cells.reshape(-1)[at]) % CELLS, COLUMNS)
        return f"lane {row}, column {column}"

    def warp_of(self, warps: Index, cells: Index, at: int) -> int:
        return int(warps[at // (cells.size // warps.size)])

    def report_busy(
        self, warps: Index, cells: Index, busy: NDArray[np.uint32], other: str, how: str, pc: int
    ) -> NoReturn:
        at = int(np.flatnonzero(busy.reshape(-1))[0])
        pending = f"before the {other} there was waited for", int(busy.reshape(-1)[at]) - 1
        hint = f"put tcgen05.wait::{'ld' if other == 'load' else 'st'} between the two"
        what = f"{how}s at {self.cell(cells, at)} of tensor memory"
        self.allocator.refuse(self.warp_of(warps, cells, at), pc, what, kind=AsyncHazardError, hint=hint, then=pending)

    def report_unwritten(self, warps: Index, cells: Index, wrong: Index, pc: int) -> NoReturn:
        at = int(wrong[0])
        half = self.written[2 * int(cells.reshape(-1)[at])]
        state = "of which only the lower 16 bits have been written" if half else "which nothing has written"
        what = f"loads from {self.cell(cells, at)} of tensor memory, {state}"
        self.allocator.refuse(self.warp_of(warps, cells, at), pc, what, kind=UninitializedReadError)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Columns start … start+columns-1 of one CTA, and the warp and instruction that allocated them."""

    start: int
    columns: int
    warp: int
    pc: int


class Allocator:
    """The allocated columns of the CTAs of a chunk, and the rules of allocation.

    owned: CTAs × columns, True if allocated. live: allocations per CTA. last: CTA → the latest allocation.
    source: PTX ISA, "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit".
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.lanes = lanes = access.lanes
        self.places = access.places
        self.owned = np.zeros((lanes.ctas, COLUMNS), bool)
        self.live: list[list[Allocation]] = [[] for _ in range(lanes.ctas)]
        self.last: dict[int, Allocation] = {}
        self.relinquished: dict[int, tuple[int, int]] = {}

    def allocate(self, warp: int, columns: int, pc: int) -> int:
        """Allocate columns for a warp of the chunk and return the first one.

        Raise an error if a rule forbids it or if too few consecutive columns are free. The highest free columns are
        allocated, so that few allocations start at column 0.
        """
        cta = warp // self.lanes.warps_per_cta
        self.check(cta, warp, columns, pc)
        free = ~self.owned[cta]
        starts = (x for x in range(COLUMNS - columns, -1, -UNIT) if free[x : x + columns].all())
        start = next(starts, None)
        if start is None:
            taken = "\n".join(self.line(a) for a in self.live[cta])
            what = f"waits forever for {columns} adjacent columns of tensor memory: "
            what += f"{int(free.sum())} of {COLUMNS} are free"
            hint = "allocate fewer columns, or free some first"
            self.refuse(warp, pc, what, f"\nits CTA has allocated\n{taken}", DeadlockError, hint)
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
                f"\n{self.lanes.describe_warp(last.warp)} has made one at\n  {self.places.describe(last.pc)}",
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

    def check_all_freed(self) -> None:
        for allocations in self.live:
            for a in allocations:
                raise self.access.failure(
                    SimulationError, np.array([self.lanes.leader(a.warp)]),
                    f"the kernel exits without freeing {a.columns} columns of tensor memory, allocated by "
                    f"{self.lanes.describe_warp(a.warp)}", a.pc,
                    "free them with tcgen05.dealloc on every path out of the kernel",
                )

    def line(self, a: Allocation) -> str:
        return f"  columns {a.start} to {a.start + a.columns - 1}, {self.places.describe(a.pc)}"

    def origin(self, a: Allocation) -> str:
        return f"\nit was allocated by {self.lanes.describe_warp(a.warp)} at\n  {self.places.describe(a.pc)}"

    def refuse(
        self, warp: int, pc: int, what: str, more: str = "", kind: type[SimulationError] = SimulationError,
        hint: str | None = None, then: tuple[str, int] | None = None,
    ) -> NoReturn:
        """Raise an error about a warp. kind, hint, then, more: as in `Access.failure`."""
        threads, message = np.array([self.lanes.leader(warp)]), f"{self.lanes.describe_warp(warp)} {what}"
        raise self.access.failure(kind, threads, message, pc, hint, then, more)
