"""Records of the last write and reads of each memory cell.

A cell is as wide as the kernel's narrowest access to its state space, at most 16 bytes. It has three records:

- its last write;
- the first thread that read it since the last barrier;
- the last other thread that read it. If the next writer is not the only reader, at least one of the two
  readers is another thread.

In some kernels (`Ordering.partial`), both readers but not a third one may be ordered before a write. There, the last
reader of each of a few groups of warps is also recorded.

A record is an event and its actor:

    63            32 31 30 29             0
    |    event      |kind|     actor      |   kind 0: one thread, numbered in the grid from 1, or one agent
                                              1: several threads that stored equal values; actor: a log entry's index
                                              2: several threads that are no longer listed

A log entry contains the record of one of the threads and the next entry's index. A record of several threads has the
latest of their events.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..machine.lanes import Index
from ..machine.memory import MemoryPart, MemoryRegion
from ..opcodes.memory import Site

if TYPE_CHECKING:
    from .release_acquire import ReleasedLocation

Record = NDArray[np.uint64]
UNWRITTEN = np.uint64(2**64 - 1)
# The cell is the target of a copy in flight: one not delivered yet or, for cp.async, not waited for yet.
IN_FLIGHT = np.uint64(2**64 - 2)
# The cell is part of an mbarrier.
BARRIER = np.uint64(2**64 - 3)
FOREVER = 1 << 62
ONE = np.uint64(1)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
ACTOR = np.uint64(0x3FFFFFFF)
SEVERAL = np.uint64(1 << 30)
FORGOTTEN = np.uint64(2 << 30)
KIND = np.uint64(3 << 30)
END = -1
# Number of groups of warps. Warps 8n to 8n + 7 are in different groups, and so are warps w and w + 8.
GROUPS = 8
# A log with more entries (64 MiB) isn't extended: later writers of equal values count as ordered before every access.
LONGEST_LOG = 1 << 22
# Maximum number of records in a region's `Shadow.later_reads` (16 MiB).
MOST_LATER = 1 << 20
# Larger arrays are mapped without reserving memory, because Linux refuses to reserve more than is available.
_RESERVED_BYTES = 1 << 30
# source: mmap(2) and asm-generic/mman.h; Python names it from 3.13 on
_MAP_NORESERVE = 0x4000


def untouched(cells: int) -> Record:
    """Return zeros. Large arrays occupy no memory until they are written: records may cover many gigabytes."""
    size = 8 * cells
    if size < _RESERVED_BYTES or sys.platform != "linux":
        return np.zeros(cells, np.uint64)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint64)


class Shadow:
    """The records of one region's cells."""

    def __init__(self, region: MemoryRegion, cell_shift: int, fresh: Sequence[MemoryPart] | None) -> None:
        """fresh: the unwritten parts of the region; None if nothing is written."""
        view, lead = region.view(f"u{1 << cell_shift}" if cell_shift < 4 else "V16", cell_shift)
        cells = view.size + 1
        #: log2 of a cell's size in bytes
        self.cell_shift = cell_shift
        self.writes = np.full(cells, UNWRITTEN) if fresh is None else untouched(cells)
        for part in fresh or ():
            first = -(-max(part.start - lead, 0) >> cell_shift)
            self.writes[first : part.start + part.size_bytes - lead >> cell_shift] = UNWRITTEN
        self.first_reads = untouched(cells)
        self.last_reads = untouched(cells)
        self.group_reads: Record | None = None
        self.shared = region.space == "shared"
        #: the events of the latest write and read, 0 for none; `wrote` is FOREVER after a call of `mark`
        self.wrote = 0
        self.read = 0
        #: True if agents (`agents.py`) or other CTAs of a cluster access the region. Barriers of a CTA don't wait for
        #: them, so even old records matter.
        self.agents = False
        self.log = WriterLog()
        #: first cell of a location → its releases; `released` marks these cells
        self.releases: dict[int, ReleasedLocation] = {}
        self.released: NDArray[np.bool_] | None = None
        #: (cells, records) of all updates of `last_reads` at least since the last barrier; None once there are too many
        self.later_reads: list[tuple[Index, Record]] | None = []
        self.later_count = 0
        #: load from the region → the event of its last execution
        self.read_by: dict[int, int] = {}

    @property
    def read_columns(self) -> list[Record]:
        return [self.first_reads, self.last_reads, *(() if self.group_reads is None else self.group_reads)]

    @property
    def of_one_cta(self) -> bool:
        """True if only threads of its own CTA access a location."""
        return self.shared and not self.agents

    def mark_unwritten(self, written: NDArray[np.bool_]) -> None:
        """Mark unwritten cells. written: a mask of the region's bytes; cells are written wholly or not at all."""
        cells = written[:: 1 << self.cell_shift]
        self.writes[: cells.size][~cells] = UNWRITTEN

    def written(self, size: int) -> NDArray[np.bool_]:
        """Return a mask of the region's first `size` bytes, which begin with a cell: those in written cells."""
        return np.repeat(self.writes != UNWRITTEN, 1 << self.cell_shift)[:size]

    def mark(self, cells: Index, mark: np.uint64) -> None:
        self.writes[cells] = mark
        self.wrote = FOREVER

    def read_last(self, cells: Index, reads: Record) -> None:
        self.last_reads[cells] = reads
        if self.later_reads is not None:
            self.later_reads.append((cells, reads))
            self.later_count += cells.size
            if self.later_count > MOST_LATER:
                self.later_reads = None

    def read_by_group(self, cells: Index, reads: Record) -> None:
        if self.group_reads is None:
            self.group_reads = np.zeros((GROUPS, self.writes.size), np.uint64)
        warp = ((reads & LOW) - ONE >> np.uint64(5)).astype(np.int64)
        self.group_reads[(warp ^ warp >> 3) % GROUPS, cells] = reads

    def written_by_several(self, cells: Index, stamps: Record, winners: Record) -> None:
        """Record the writers in `stamps` and those in the `winners` that overwrote them as writers of equal values."""
        places, kept = self.log.gathered(cells, stamps, winners)
        self.writes[places] = kept

    def need_released(self) -> NDArray[np.bool_]:
        if self.released is None:
            self.released = np.zeros(self.writes.size, bool)
        return self.released

    def release_at(self, cell: int, location: ReleasedLocation | None) -> None:
        self.need_released()[cell] = location is not None
        if location is not None:
            self.releases[cell] = location
        else:
            self.releases.pop(cell, None)


class LocalShadow:
    """A mask of the written cells of local memory, each of which is accessible to a single thread."""

    def __init__(self, region: MemoryRegion, cell_shift: int) -> None:
        self.cell_shift = cell_shift
        self.written = np.zeros((region.memory.size >> cell_shift) + 1, bool)


def add_shadow(region: MemoryRegion, shifts: Mapping[str, int], fresh: Sequence[MemoryPart] | None = None) -> None:
    """Add records to a region. shifts: state space → log2 of a cell's size. fresh: see `Shadow`."""
    shift = shifts[region.space]
    region.shadow = LocalShadow(region, shift) if region.space == "local" else Shadow(region, shift, fresh)


def finest_shift(written: NDArray[np.bool_], most: int) -> int:
    """Return log2 of the size in bytes of the largest cells that are written wholly or not at all, at most `most`."""
    changes = np.flatnonzero(written[1:] != written[:-1]) + 1
    starts = int(np.bitwise_or.reduce(changes, initial=1 << most))
    return (starts & -starts).bit_length() - 1


@dataclass(slots=True)
class CellAccess:
    """An access to cells of a region, by the threads that execute an instruction or by an agent (`agents.py`)."""

    region: MemoryRegion
    site: Site
    cells: Index
    #: the thread (numbered from 1) or the agent that accesses each cell
    me: Record

    @property
    def shadow(self) -> Any:
        return self.region.shadow

    @property
    def is_ascending(self) -> bool:
        """True if the cells are strictly ascending, so that no two are equal."""
        return int(np.count_nonzero(self.cells[1:] > self.cells[:-1])) == self.cells.size - 1

    def by_others(self, records: Record, at: Index) -> Index:
        """Return the elements of `at` whose record is of another actor."""
        result: Index = at[(records[at] & LOW) != self.me[at]]
        return result


class WriterLog:
    """Writers of equal values, as linked lists."""

    def __init__(self) -> None:
        self.records = np.zeros(0, np.uint64)
        self.following = np.zeros(0, np.int64)
        self.size = 0
        self.latest = 0

    def append(self, records: Record, following: Index) -> Index:
        start, self.size = self.size, self.size + records.size
        if self.size > self.records.size:
            room = max(1024, 2 * self.size)
            self.records = np.concatenate([self.records[:start], np.zeros(room - start, np.uint64)])
            self.following = np.concatenate([self.following[:start], np.zeros(room - start, np.int64)])
        self.records[start : self.size] = records
        self.following[start : self.size] = following
        return np.arange(start, self.size)

    def chains(self, writes: Record) -> Index:
        """Return each record's first log entry (END if its writers are forgotten); add entries for single writers."""
        result = np.where((writes & KIND) == SEVERAL, (writes & ACTOR).astype(np.int64), END)
        single = np.flatnonzero((writes & KIND) == 0)
        result[single] = self.append(writes[single], np.full(single.size, END))
        return result

    def chain(self, entry: int, most: int) -> Index:
        entries: list[int] = []
        # Reading an element of a memoryview takes half the time of reading an element of an array.
        following = self.following.data
        while entry != END and len(entries) < most:
            entries.append(entry)
            entry = following[entry]
        return np.array(entries, np.int64)

    def joined(self, stamps: Record, writes: Record) -> Record:
        """Return records of the writers of both `stamps` and `writes`, which have stored equal values."""
        if self.size > LONGEST_LOG:
            forgotten: Record = (stamps & ~LOW) | FORGOTTEN
            return forgotten
        entries = self.append(stamps, self.chains(writes))
        self.latest = max(self.latest, int(stamps.max() >> HALF))
        result: Record = (stamps & ~LOW) | SEVERAL | entries.astype(np.uint64)
        result[(writes & KIND) == FORGOTTEN] = (stamps[0] & ~LOW) | FORGOTTEN
        return result

    def gathered(self, cells: Index, stamps: Record, winners: Record) -> tuple[Index, Record]:
        """Return (cells, records of their writers): those of `stamps` and of the `winners` that overwrote them."""
        if self.size > LONGEST_LOG:
            return cells, (winners & ~LOW) | FORGOTTEN
        order = np.argsort(cells, kind="stable")
        cells, stamps, winners = cells[order], stamps[order], winners[order]
        several = np.flatnonzero((stamps & KIND) == SEVERAL)
        stamps[several] = self.records[(stamps[several] & ACTOR).astype(np.int64)]
        last = np.append(cells[1:] != cells[:-1], True)
        following = np.arange(self.size + 1, self.size + 1 + cells.size)
        entries = self.append(stamps, following)
        self.following[entries[last]] = self.chains(winners[last])
        self.latest = max(self.latest, int(stamps.max() >> HALF), int(winners.max() >> HALF))
        first = np.append(True, last[:-1])
        records: Record = (winners[first] & ~LOW) | SEVERAL | entries[first].astype(np.uint64)
        return cells[first], np.where((winners[first] & KIND) == FORGOTTEN, winners[first], records)


def real(records: Record) -> NDArray[np.bool_]:
    """Return a mask of the records of accesses, which are neither 0 nor a mark."""
    result: NDArray[np.bool_] = (records != 0) & (records < BARRIER)
    return result


def recent(writes: Record, base: Any) -> Record:
    """Replace records older than `base` with 0, because the log may no longer list their writers."""
    return np.where(writes < base, np.uint64(0), writes)


def actors_of(records: Record) -> Index:
    """Return the actors of records of kind 0."""
    result: Index = (records & ACTOR).astype(np.int64)
    return result


def since(event: int, base: Any) -> bool:
    """False only if all records are older than `base`. event: the newest record's event, 0 if there are none."""
    return event > 0 and event >= int(base if np.ndim(base) == 0 else base.min()) >> 32


def equal_bits(a: NDArray[Any], b: Any) -> NDArray[np.bool_]:
    """Return a mask of the elements with equal bits: a NaN equals itself."""
    b = np.ascontiguousarray(np.broadcast_to(b, a.shape).astype(a.dtype, copy=False))
    width = a.dtype.itemsize
    if width <= 8:
        result: NDArray[np.bool_] = a.view(f"u{width}") == b.view(f"u{width}")
        return result
    same = a.view("u8").reshape(a.size, -1) == b.view("u8").reshape(a.size, -1)
    every: NDArray[np.bool_] = same.all(axis=1)
    return every


def unchanged(before: NDArray[Any], after: Any) -> bool:
    """True if the bits of all elements are equal. after: one value, or one per element."""
    if before.dtype.kind in "iu":
        return int(np.count_nonzero(before == after)) == before.size
    return bool(equal_bits(before, after).all())


def place(region: MemoryRegion, offset: int, width: int) -> str:
    """Describe a byte offset into a region, such as 'smem+20 bytes, element 5 of 4 bytes'."""
    part = region.part_at(offset) or region.parts[0]
    return part.place(offset - part.start, width)
