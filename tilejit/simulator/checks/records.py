"""What every cell of memory remembers of its last write and reads.

A cell is as wide as the kernel's narrowest access to that state space. It keeps three records:

- its last write;
- the first thread that read it since the last barrier;
- the last thread other than that one that read it. So whoever writes next, one of the two shows any other reader.

Where something orders a part of the threads, those two may be ordered before a write, and a third not. Then a cell
keeps the last reader of each of a few groups of warps, too.

A record is an event and who it was.

    63            32 31 30 29             0
    |    event      |kind|      who       |   kind 0: one thread, by its number in the grid, from 1
                                              1: several threads that stored the same value; an entry of the log
                                              2: so many that they are not kept

An entry of the log is the record of one of the threads, and the entry of the next. The event of a record of several
is the latest.
"""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import Index
from ..machine.memory import MemoryRegion

if TYPE_CHECKING:
    from .locations import Location

Record = NDArray[np.uint64]
UNWRITTEN = np.uint64(2**64 - 1)
# The target of an asynchronous copy before its wait.
IN_FLIGHT = np.uint64(2**64 - 2)
# The bytes of an mbarrier.
BARRIER = np.uint64(2**64 - 3)
FOREVER = 1 << 62
ONE = np.uint64(1)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
WHO = np.uint64(0x3FFFFFFF)
SEVERAL = np.uint64(1 << 30)
FORGOTTEN = np.uint64(2 << 30)
KIND = np.uint64(3 << 30)
END = -1
# Into so many groups do warps fall: neighbours into different ones, also across CTAs of 8 warps and more.
GROUPS = 8
# The log of writers of equal values is given up at this length, 64 MiB; who reads what they wrote is then believed.
LONGEST_LOG = 1 << 22
# A region keeps at most this many reads of places that another thread had read already: 512 KiB.
MOST_LATER = 1 << 15
# From so many bytes on the system isn't asked whether it has as much memory: it refuses one block of more than all.
_RESERVED_BYTES = 1 << 30
# source: mmap(2) and asm-generic/mman-common.h; Python names it from 3.13 on
_MAP_NORESERVE = 0x4000


def untouched(cells: int) -> Record:
    """Zeros that take no memory until they are written, however many gigabytes of an array they are the records of."""
    size = 8 * cells
    if size < _RESERVED_BYTES or sys.platform != "linux":
        return np.zeros(cells, np.uint64)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint64)


class Shadow:
    """The records of one region's cells.

    cell_shift: log2 of a cell's bytes.
    wrote, read: the latest event of any record; 0 for none, FOREVER once records may hold marks that are no events.
    agents: whether asynchronous operations use the region: barriers don't wait for them, so no record is too old.
    releases: first cell of a location → what has been released to it; released: which cells have one.
    later_reads: all that `last_reads` has held since the last barrier, as cells and records; None if that is too much.
    read_by: each instruction that has read from the region → its last event.
    """

    def __init__(self, region: MemoryRegion, cell_shift: int, initialized: bool) -> None:
        cells = region.view(f"u{1 << cell_shift}" if cell_shift < 4 else "V16", cell_shift)[0].size + 1
        self.cell_shift = cell_shift
        self.writes = untouched(cells) if initialized else np.full(cells, UNWRITTEN)
        self.first_reads = untouched(cells)
        self.last_reads = untouched(cells)
        self.group_reads: Record | None = None
        self.shared = region.space == "shared"
        self.wrote = 0
        self.read = 0
        self.agents = False
        self.log = WriterLog()
        self.releases: dict[int, Location] = {}
        self.released: NDArray[np.bool_] | None = None
        self.later_reads: list[tuple[Index, Record]] | None = []
        self.later_count = 0
        self.read_by: dict[int, int] = {}

    def mark(self, cells: Index, mark: np.uint64) -> None:
        """Put a mark that is no event where the last write stands."""
        self.writes[cells] = mark
        self.wrote = FOREVER

    def read_last(self, cells: Index, reads: Record) -> None:
        """Record reads as the last ones of their cells."""
        self.last_reads[cells] = reads
        if self.later_reads is not None:
            self.later_reads.append((cells, reads))
            self.later_count += cells.size
            if self.later_count > MOST_LATER:
                self.later_reads = None

    def need_group_reads(self) -> Record:
        """The last reader of each cell in each group, by group and cell."""
        if self.group_reads is None:
            self.group_reads = np.zeros((GROUPS, self.writes.size), np.uint64)
        return self.group_reads

    def need_released(self) -> NDArray[np.bool_]:
        if self.released is None:
            self.released = np.zeros(self.writes.size, bool)
        return self.released

    def release_at(self, cell: int, location: Location | None) -> None:
        """Keep what has been released to the location at `cell`; None for nothing."""
        self.need_released()[cell] = location is not None
        if location is not None:
            self.releases[cell] = location
        else:
            self.releases.pop(cell, None)


class LocalShadow:
    """Which cells of a thread's own memory have been written; nobody else can see them."""

    def __init__(self, region: MemoryRegion, cell_shift: int) -> None:
        self.cell_shift = cell_shift
        self.written = np.zeros((region.memory.size >> cell_shift) + 1, bool)


class WriterLog:
    """The writers of equal values, as chains of entries."""

    def __init__(self) -> None:
        self.records = np.zeros(0, np.uint64)
        self.following = np.zeros(0, np.int64)
        self.size = 0
        self.latest = 0

    def append(self, records: Record, following: Index) -> Index:
        """New entries, each in front of the entry `following`; their numbers."""
        start, self.size = self.size, self.size + records.size
        if self.size > self.records.size:
            room = max(1024, 2 * self.size)
            self.records = np.concatenate([self.records[:start], np.zeros(room - start, np.uint64)])
            self.following = np.concatenate([self.following[:start], np.zeros(room - start, np.int64)])
        self.records[start : self.size] = records
        self.following[start : self.size] = following
        return np.arange(start, self.size)

    def forget_before(self, event: int) -> None:
        """Start anew if no entry is as young as this: records that name one are older than a barrier."""
        if self.latest < event:
            self.size = 0

    def chains(self, writes: Record) -> Index:
        """Entries whose chains hold the writers of records, new ones where a record is one thread's."""
        result = np.where((writes & KIND) == SEVERAL, (writes & WHO).astype(np.int64), END)
        single = np.flatnonzero((writes & KIND) == 0)
        result[single] = self.append(writes[single], np.full(single.size, END))
        return result

    def chain(self, entry: int, most: int) -> Index:
        """The entries of a chain from one on, so many at most."""
        entries: list[int] = []
        # of a memoryview an element is read in half the time of an array's
        following = self.following.data
        while entry != END and len(entries) < most:
            entries.append(entry)
            entry = following[entry]
        return np.array(entries, np.int64)

    def joined(self, stamps: Record, writes: Record) -> Record:
        """Records of the threads of `writes` and, in front of them, one more each; all stored the same."""
        if self.size > LONGEST_LOG:
            forgotten: Record = (stamps & ~LOW) | FORGOTTEN
            return forgotten
        entries = self.append(stamps, self.chains(writes))
        self.latest = max(self.latest, int(stamps.max() >> HALF))
        result: Record = (stamps & ~LOW) | SEVERAL | entries.astype(np.uint64)
        result[(writes & KIND) == FORGOTTEN] = (stamps[0] & ~LOW) | FORGOTTEN
        return result

    def gathered(self, cells: Index, stamps: Record, winners: Record) -> tuple[Index, Record]:
        """(cells, records) after threads stored the same value at once: `winners` is what stands in the cells."""
        if self.size > LONGEST_LOG:
            return cells, (winners & ~LOW) | FORGOTTEN
        order = np.argsort(cells, kind="stable")
        cells, stamps, winners = cells[order], stamps[order], winners[order]
        several = np.flatnonzero((stamps & KIND) == SEVERAL)
        stamps[several] = self.records[(stamps[several] & WHO).astype(np.int64)]
        last = np.append(cells[1:] != cells[:-1], True)
        following = np.arange(self.size + 1, self.size + 1 + cells.size)
        entries = self.append(stamps, following)
        self.following[entries[last]] = self.chains(winners[last])
        self.latest = max(self.latest, int(stamps.max() >> HALF), int(winners.max() >> HALF))
        first = np.append(True, last[:-1])
        records: Record = (winners[first] & ~LOW) | SEVERAL | entries[first].astype(np.uint64)
        return cells[first], np.where((winners[first] & KIND) == FORGOTTEN, winners[first], records)


def real(records: Record) -> NDArray[np.bool_]:
    """Which records are events."""
    result: NDArray[np.bool_] = (records != 0) & (records < BARRIER)
    return result


def recent(writes: Record, base: Any) -> Record:
    """Records, 0 for those older than the last barrier: the log may have forgotten the writers that they name."""
    result: Record = np.where(writes < base, np.uint64(0), writes)
    return result


def who(records: Record) -> Index:
    """The thread of records of one thread each, by its number in the grid."""
    threads: Index = (records & WHO).astype(np.int64)
    return threads


def group_of(records: Record) -> Index:
    """The group of each record's thread."""
    warp = ((records & LOW) - ONE >> np.uint64(5)).astype(np.int64)
    groups: Index = (warp ^ warp >> 3) % GROUPS
    return groups


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


def unchanged(before: NDArray[Any], after: Any) -> bool:
    """Whether all bits of elements, which may all get one value, stay as they are."""
    if before.dtype.kind in "iu":
        return int(np.count_nonzero(before == after)) == before.size
    return bool(equal_bits(before, after).all())


def place(region: MemoryRegion, offset: int, width: int) -> str:
    """'smem+20 (element 5 of 4 bytes)' for a byte offset into a region."""
    part = region.part_at(offset)
    name, start = (part.name, part.start) if part else (region.parts[0].name, region.parts[0].start)
    inside = offset - start
    element = f", element {inside // width} of {width} bytes" if inside % width == 0 else ""
    return f"{name}{inside:+d} bytes{element}"
