"""Race and initialisation checks: what every cell of memory remembers of its last write and read.

A cell is as wide as the kernel's narrowest access to that state space. It keeps three records:

- its last write;
- the first thread that read it since the last barrier;
- the last thread other than that one that read it. So whoever writes next, one of the two shows any other reader.

A record is an event, which is a number that grows with every executed memory instruction, and who it was.

    63            32 31 30 29             0
    |    event      |kind|      who       |   kind 0: one thread (its number in the grid, from 1); several writers
                                               of equal values in 1: one warp, 2: one CTA, 3: the grid

Two accesses are ordered when a CTA barrier lies between them, or for threads of one warp a warp barrier. They are also
ordered when, since the first access, the first thread's warp has released and the second thread's warp has acquired
(their CTAs, if these differ). The PTX memory model orders less: what is reported here is a race, but not every race
is reported.
"""

from __future__ import annotations

from array import array
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...errors import AsyncHazardError, RaceError, UninitializedReadError
from ..machine.flights import Batch, touching
from ..machine.lanes import Index, Lanes
from ..machine.memory import MemoryRegion
from ..opcodes.memory import Site
from .places import PtxPlaces

Record = NDArray[np.uint64]
UNWRITTEN = np.uint64(2**64 - 1)
# The target of an asynchronous copy before its wait.
IN_FLIGHT = np.uint64(2**64 - 2)
FOREVER = 1 << 62
ONE = np.uint64(1)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
WHO = np.uint64(0x3FFFFFFF)
KIND_SHIFT = np.uint64(30)


class Shadow:
    """The records of one region's cells.

    cell_shift: log2 of a cell's bytes.
    wrote, read: the latest event of any record; 0 for none, FOREVER once records may hold marks that are no events.
    """

    def __init__(self, region: MemoryRegion, cell_shift: int, initialized: bool) -> None:
        cells = region.view(f"u{1 << cell_shift}" if cell_shift < 4 else "V16", cell_shift)[0].size + 1
        self.cell_shift = cell_shift
        self.writes = np.full(cells, 0 if initialized else UNWRITTEN, np.uint64)
        self.first_reads = np.zeros(cells, np.uint64)
        self.last_reads = np.zeros(cells, np.uint64)
        self.shared = region.space == "shared"
        self.wrote = 0
        self.read = 0


class LocalShadow:
    """Which cells of a thread's own memory have been written; nobody else can see them."""

    def __init__(self, region: MemoryRegion, cell_shift: int) -> None:
        self.cell_shift = cell_shift
        self.written = np.zeros((region.memory.size >> cell_shift) + 1, bool)


class Clock:
    """Event numbers, and since which event each CTA and warp is synchronised."""

    def __init__(self, ctas: int, warps: int) -> None:
        self.event = 1
        self.pcs = array("I", [0, 0])
        self.cta_start = np.zeros(ctas, np.int64)
        self.warp_start = np.zeros(warps, np.int64)
        self.acquired = (np.zeros(ctas, np.int64), np.zeros(warps, np.int64))
        self.released = (np.zeros(ctas, np.int64), np.zeros(warps, np.int64))
        self.common_start: int | None = 0
        self.synchronised = False

    def tick(self, pc: int) -> int:
        self.event += 1
        self.pcs.append(pc)
        return self.event

    def cta_barrier(self, ctas: Index, all_of_chunk: bool) -> None:
        self.tick(0)
        self.cta_start[ctas] = self.event
        self.common_start = self.event if all_of_chunk else None

    def warp_barrier(self, warps: Index) -> None:
        self.tick(0)
        self.warp_start[warps] = self.event

    def synchronise(self, lanes: Lanes, acquire: bool, release: bool) -> None:
        """The executing threads acquire or release: their warps and CTAs count from here."""
        self.tick(0)
        self.synchronised = True
        for yes, marks in ((acquire, self.acquired), (release, self.released)):
            if yes:
                marks[0][lanes.get("cta")] = self.event
                marks[1][lanes.get("warp")] = self.event


class AccessChecker:
    """Examines each access against the records and updates them."""

    def __init__(self, lanes: Lanes, clock: Clock, places: PtxPlaces, sites: list[Site]) -> None:
        self.lanes = lanes
        self.clock = clock
        self.places = places
        self.strong_pcs = np.zeros(len(places.function.body) + 1, bool)
        for site in sites:
            self.strong_pcs[site.pc] |= site.strong
        tags: dict[Any, int] = {}
        body = places.function.body
        self.in_flight: list[Batch] = []
        self.tags = np.array([tags.setdefault(x.loc or ("pc", i), len(tags)) for i, x in enumerate(body)] + [-1])

    def load(self, region: MemoryRegion, index: Any, site: Site) -> None:
        """Check and record a load of element `index` (array of one per executing thread)."""
        if region.space == "local":
            self.load_local(region, index, site)
            return
        shadow: Shadow = region.shadow
        cells, me = self.cells(shadow, index, site)
        base = self.base(shadow, site, cells.size)
        writes = shadow.writes[cells]
        bad = writes >= base
        if np.count_nonzero(bad):
            self.examine_load(region, cells, me, writes, np.flatnonzero(bad), site)
        stamp = me + np.uint64(self.clock.tick(site.pc) << 32)
        self.record_read(shadow, cells, me, stamp, base)

    def store(self, region: MemoryRegion, index: Any, value: Any, view: NDArray[Any], site: Site) -> None:
        """Check a store against earlier accesses, carry it out, and check its threads against each other."""
        if region.space == "local":
            view[index] = value
            region.shadow.written[self.cells(region.shadow, index, site)[0]] = True
            return
        shadow: Shadow = region.shadow
        cells, me = self.cells(shadow, index, site)
        if self.in_flight:
            self.check_sources(region, cells, me, site)
        base = self.base(shadow, site, cells.size)
        again: Index | None = None
        if since(shadow.wrote, base) or since(shadow.read, base):
            touched = shadow.writes[cells] + ONE > base
            if since(shadow.read, base):
                touched |= shadow.first_reads[cells] >= base
            if np.count_nonzero(touched):
                again = self.examine_store(region, cells, me, np.flatnonzero(touched), (index, value, view), site)
        view[index] = value
        stamp = self.stamp_write(shadow, me, site.pc)
        if again is not None and again.size:
            stamp[again] = self.combine(shadow.writes[cells[again]], me[again])
        shadow.writes[cells] = stamp
        if ascending(cells):
            return
        lost = shadow.writes[cells] != stamp
        if np.count_nonzero(lost):
            self.examine_collision(region, cells, me, np.flatnonzero(lost), (index, value, view), site)

    def atomic(self, region: MemoryRegion, index: Any, site: Site) -> None:
        """Check and record an atomic update: a race with plain accesses only."""
        shadow: Shadow = region.shadow
        cells, me = self.cells(shadow, index, site)
        if self.in_flight:
            self.check_sources(region, cells, me, site)
        base = self.base(shadow, site, cells.size)
        writes = shadow.writes[cells]
        bad = np.flatnonzero((writes >= base) | (shadow.first_reads[cells] >= base))
        if bad.size:
            self.examine_load(region, cells, me, writes, bad, site)
            self.report_reads(region, cells, me, bad, site)
        shadow.writes[cells] = self.stamp_write(shadow, me, site.pc)

    def load_local(self, region: MemoryRegion, index: Any, site: Site) -> None:
        cells, me = self.cells(region.shadow, index, site)
        written = region.shadow.written[cells]
        if np.count_nonzero(written) < written.size:
            self.report_uninitialized(region, cells, me, int(np.flatnonzero(~written)[0]), site)

    def check_sources(self, region: MemoryRegion, cells: Index, me: Record, site: Site) -> None:
        """Raise if a copy in flight still reads what is about to be written."""
        found = touching(self.in_flight, region, cells, targets=False)
        if found is None:
            return
        batch, copy, at = found
        verb = {"store": "writes", "atomic": "updates"}[site.kind]
        raise AsyncHazardError(
            f"{self.lanes.describe(int(me[at]))} {verb} {1 << site.shift} bytes at "
            f"{self.place(region, int(cells[at]), site)} of {region.space} memory\n  {self.places.describe(site.pc)}\n"
            f"while an asynchronous copy of {self.lanes.describe(int(batch.threads[copy]))} still reads it\n"
            f"  {self.places.describe(batch.pc)}",
            hint="wait for the copy before its source changes",
        )

    def report_in_flight(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        """Raise if there is any cell in `at`: it is the target of a copy in flight."""
        if not at.size:
            return
        first = int(at[0])
        found = touching(self.in_flight, region, cells[first : first + 1], targets=True)
        assert found is not None, "a cell in flight belongs to a copy"
        batch, copy, _ = found
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]
        raise AsyncHazardError(
            f"{self.lanes.describe(int(me[first]))} {verb} {1 << site.shift} bytes at "
            f"{self.place(region, int(cells[first]), site)} of {region.space} memory\n"
            f"  {self.places.describe(site.pc)}\n"
            f"before the asynchronous copy of {self.lanes.describe(int(batch.threads[copy]))} to it was waited for\n"
            f"  {self.places.describe(batch.pc)}",
            hint="wait for the copy (cp.async.wait_group), then let a barrier tell the other threads",
        )

    def stamp_write(self, shadow: Shadow, me: Record, pc: int) -> Record:
        """The records of a write by these threads, now."""
        event = self.clock.tick(pc)
        shadow.wrote = max(shadow.wrote, event)
        stamp: Record = me + np.uint64(event << 32)
        return stamp

    def cells(self, shadow: Shadow | LocalShadow, index: Any, site: Site) -> tuple[Index, Record]:
        me: Record = self.lanes.get("gid")
        spread = site.shift - shadow.cell_shift
        if spread <= 0:
            return (index if not spread else index >> -spread), me
        k = 1 << spread
        wide = (index << spread)[:, None] + np.arange(k)
        return wide.reshape(-1), np.repeat(me, k)

    def base(self, shadow: Shadow, site: Site, count: int) -> Any:
        """Records below this value are older than the last barrier and can be ignored."""
        if not shadow.shared:
            return ONE
        start = self.clock.common_start
        if start is not None:
            return np.uint64(start << 32)
        each = self.clock.cta_start[self.lanes.get("cta")].astype(np.uint64) << HALF
        return each if each.size == count else np.repeat(each, count // each.size)

    def record_read(self, shadow: Shadow, cells: Index, me: Record, stamp: Record, base: Any) -> None:
        first = shadow.first_reads
        free = not since(shadow.read, base)
        shadow.read = self.clock.event
        if not free:
            old = first[cells]
            claim = old < base
            free = np.count_nonzero(claim) == claim.size
        if not free:
            # The first reader keeps its place; its record follows its latest read.
            claim |= (old & LOW) == me
            mine = np.flatnonzero(claim)[::-1]
            first[cells[mine]] = stamp[mine]
        elif ascending(cells):
            first[cells] = stamp
            return
        else:
            # Backwards, so that of several threads the lowest is the first reader.
            first[cells[::-1]] = stamp[::-1]
        others = np.flatnonzero((first[cells] & LOW) != me)
        if others.size:
            shadow.last_reads[cells[others]] = stamp[others]

    def mark_several(self, records: Record, cells: Index, winner: Record, me: Record) -> None:
        merged = self.combine(winner, me)
        order = np.argsort((merged >> KIND_SHIFT) & np.uint64(3), kind="stable")
        records[cells[order]] = merged[order]

    def combine(self, old: Record, me: Record) -> Record:
        """The record of `old`'s threads and me together: the narrowest kind that holds both, the older event."""
        their_cta, their_warp, kind = self.whose(old)
        my_cta, my_warp = self.who(me)
        same_warp = (their_warp == my_warp) & (kind <= 1)
        same_cta = (their_cta == my_cta) & (kind <= 2)
        low = np.where(same_warp, (1 << 30) | my_warp, np.where(same_cta, (2 << 30) | my_cta, 3 << 30))
        result: Record = (old & ~LOW) | low.astype(np.uint64)
        return result

    def who(self, me: Record) -> tuple[Index, Index]:
        """(CTA, warp) of thread numbers, both counted over the grid."""
        thread = (me & WHO).astype(np.int64) - 1
        cta = thread // self.lanes.threads
        warp = cta * self.lanes.warps_per_cta + thread % self.lanes.threads // 32
        return cta, warp

    def whose(self, record: Record) -> tuple[Index, Index, Index]:
        """(CTA, warp, kind) of records; CTA and warp are -1 where the kind is wider."""
        kind = ((record & LOW) >> KIND_SHIFT).astype(np.int64)
        cta, warp = self.who(record)
        ident = (record & WHO).astype(np.int64)
        warp = np.where(kind == 0, warp, np.where(kind == 1, ident, -1))
        cta = np.where(kind == 0, cta, np.where(kind == 1, ident // self.lanes.warps_per_cta, ident))
        return np.where(kind == 3, -1, cta), warp, kind

    def unordered(self, record: Record, me: tuple[Index, Index], strong: bool) -> NDArray[np.bool_]:
        """Whether nothing orders the recorded access before mine. `strong`: mine is atomic or volatile."""
        my_cta, my_warp = me
        event = (record >> HALF).astype(np.int64)
        cta, warp, kind = self.whose(record)
        same_cta, same_warp = cta == my_cta, warp == my_warp
        clock = self.clock
        ordered = same_cta & (event < clock.cta_start[my_cta])
        ordered |= same_warp & (event < clock.warp_start[my_warp])
        if clock.synchronised:
            one = kind <= 1
            acquired = np.where(same_cta, clock.acquired[1][my_warp], clock.acquired[0][my_cta]) > event
            released = np.where(same_cta, clock.released[1][warp], clock.released[0][cta]) > event
            ordered |= acquired & (released | ~one)
        if strong:
            ordered |= self.strong_pcs[self.pcs(event)]
        result: NDArray[np.bool_] = ~ordered
        return result

    def pcs(self, event: Index) -> Index:
        # A copy: the array can't grow while NumPy holds its buffer.
        log = np.frombuffer(self.clock.pcs, np.uint32).copy()
        result: Index = log[np.minimum(event, log.size - 1)].astype(np.int64)
        return result

    def examine_load(
        self, region: MemoryRegion, cells: Index, me: Record, writes: Record, bad: Index, site: Site
    ) -> None:
        self.report_in_flight(region, cells, me, bad[writes[bad] == IN_FLIGHT], site)
        never = bad[writes[bad] == UNWRITTEN]
        if never.size:
            self.report_uninitialized(region, cells, me, int(never[0]), site)
        self.report_conflicts(region, cells, me, writes, bad, site, "write")

    def report_conflicts(
        self, region: MemoryRegion, cells: Index, me: Record, records: Record, at: Index, site: Site, what: str
    ) -> None:
        """Raise for the first record in `at` that is another thread's and unordered."""
        at = at[(records[at] != 0) & (records[at] != UNWRITTEN) & ((records[at] & LOW) != me[at])]
        if not at.size:
            return
        mine = self.who(me[at])
        races = self.unordered(records[at], mine, site.strong)
        cta, warp, kind = self.whose(records[at])
        if what == "write":
            # Several threads stored the same value: one of them may read it back.
            races &= (kind == 0) | ((kind == 1) & (warp != mine[1])) | ((kind == 2) & (cta != mine[0]))
        if np.count_nonzero(races):
            first = at[np.flatnonzero(races)[0]]
            self.report_race(region, int(cells[first]), int(me[first]), int(records[first]), site, what)

    def examine_store(
        self, region: MemoryRegion, cells: Index, me: Record, at: Index, data: tuple[Any, Any, NDArray[Any]], site: Site
    ) -> Index:
        """Raise for a race at the cells `at`; returns which of them repeat what another thread has stored."""
        shadow: Shadow = region.shadow
        index, value, view = data
        writes = shadow.writes[cells]
        self.report_in_flight(region, cells, me, at[writes[at] == IN_FLIGHT], site)
        # The same value from the same operation, stored again since: harmless to everybody who reads it.
        event = (writes[at] >> HALF).astype(np.int64)
        written = (writes[at] != UNWRITTEN) & (writes[at] != 0)
        same_operation = written & (self.tags[self.pcs(np.where(written, event, 0))] == self.tags[site.pc])
        if np.count_nonzero(same_operation):
            lanes = at // (cells.size // index.size)
            same_operation &= equal_bits(view[index], value)[lanes]
            same_operation &= self.unordered(writes[at], self.who(me[at]), strong=False)
        again = at[same_operation]
        at = at[~same_operation]
        if at.size:
            self.report_conflicts_of_store(region, cells, me, writes, at, site)
            self.report_reads(region, cells, me, at, site)
        others: Index = again[(writes[again] & LOW) != me[again]]
        return others

    def report_reads(self, region: MemoryRegion, cells: Index, me: Record, at: Index, site: Site) -> None:
        """Raise if another thread has read one of the cells `at`, unordered with me."""
        shadow: Shadow = region.shadow
        for records in (shadow.first_reads, shadow.last_reads):
            self.report_conflicts(region, cells, me, records[cells], at, site, "read")

    def report_conflicts_of_store(
        self, region: MemoryRegion, cells: Index, me: Record, writes: Record, at: Index, site: Site
    ) -> None:
        at = at[(writes[at] != 0) & (writes[at] != UNWRITTEN) & ((writes[at] & LOW) != me[at])]
        if not at.size:
            return
        races = np.flatnonzero(self.unordered(writes[at], self.who(me[at]), site.strong))
        if races.size:
            first = at[races[0]]
            self.report_race(region, int(cells[first]), int(me[first]), int(writes[first]), site, "write")

    def examine_collision(
        self,
        region: MemoryRegion,
        cells: Index,
        me: Record,
        lost: Index,
        data: tuple[Any, Any, NDArray[Any]],
        site: Site,
    ) -> None:
        """Threads that stored to one place by one instruction: a race unless the values are equal."""
        shadow: Shadow = region.shadow
        index, value, view = data
        lanes = lost // (cells.size // index.size)
        differs = np.flatnonzero(~equal_bits(view[index], value)[lanes])
        winner = shadow.writes[cells]
        if differs.size and not site.strong:
            first = lost[differs[0]]
            self.report_race(region, int(cells[first]), int(me[first]), int(winner[first]), site, "write")
        self.mark_several(shadow.writes, cells[lost], winner[lost], me[lost])

    def place(self, region: MemoryRegion, cell: int, site: Site) -> str:
        shadow: Shadow | LocalShadow = region.shadow
        offset = cell << shadow.cell_shift
        if region.owner:
            offset %= region.stride
        else:
            offset += region.view(f"u{1 << min(shadow.cell_shift, 3)}", shadow.cell_shift)[1]
        return place(region, offset, 1 << site.shift)

    def report_uninitialized(self, region: MemoryRegion, cells: Index, me: Record, at: int, site: Site) -> NoReturn:
        raise UninitializedReadError(
            f"{self.lanes.describe(int(me[at]))} reads {1 << site.shift} bytes at "
            f"{self.place(region, int(cells[at]), site)}, which nothing has written\n  {self.places.describe(site.pc)}"
        )

    def report_race(self, region: MemoryRegion, cell: int, me: int, record: int, site: Site, what: str) -> NoReturn:
        event, low = record >> 32, record & 0xFFFFFFFF
        pc = self.clock.pcs[event]
        kind, who = low >> 30, low & 0x3FFFFFFF
        if kind == 0:
            other = self.lanes.describe(who)
        elif kind == 1:
            cta = self.lanes.cta_coordinates(who // self.lanes.warps_per_cta)
            other = f"a thread of warp {who % self.lanes.warps_per_cta} of CTA {cta}"
        elif kind == 2:
            other = f"a thread of CTA {self.lanes.cta_coordinates(who)}"
        else:
            other = "a thread of another CTA"
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]
        raise RaceError(
            f"race in {region.space} memory: {self.lanes.describe(me)} {verb} {1 << site.shift} bytes at "
            f"{self.place(region, cell, site)}\n  {self.places.describe(site.pc)}\n"
            f"and {other} {'read' if what == 'read' else 'wrote'} it, with nothing that orders the two\n"
            f"  {self.places.describe(pc)}",
            hint="put a barrier between the two accesses, or give each thread its own place",
        )


def since(event: int, base: Any) -> bool:
    """Whether records up to this event (0 for none) may be newer than `base`."""
    return event > 0 and event >= int(base if np.ndim(base) == 0 else base.min()) >> 32


def ascending(cells: Index) -> bool:
    """Whether every cell lies above the one before it: then no two are the same."""
    return int(np.count_nonzero(cells[1:] > cells[:-1])) == cells.size - 1


def equal_bits(a: NDArray[Any], b: Any) -> NDArray[np.bool_]:
    """Element by element, whether the bits are equal (NaN equals itself)."""
    b = np.ascontiguousarray(np.broadcast_to(b, a.shape).astype(a.dtype, copy=False))
    width = a.dtype.itemsize
    if width <= 8:
        result: NDArray[np.bool_] = a.view(f"u{width}") == b.view(f"u{width}")
        return result
    same = a.view("u8").reshape(a.size, -1) == b.view("u8").reshape(a.size, -1)
    every: NDArray[np.bool_] = same.all(axis=1)
    return every


def place(region: MemoryRegion, offset: int, width: int) -> str:
    """'smem+20 (element 5 of 4 bytes)' for a byte offset into a region."""
    part = region.part_at(offset)
    name, start = (part.name, part.start) if part else (region.parts[0].name, region.parts[0].start)
    inside = offset - start
    element = f", element {inside // width} of {width} bytes" if inside % width == 0 else ""
    return f"{name}{inside:+d} bytes{element}"
