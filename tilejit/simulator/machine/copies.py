"""cp.async: copies from global to shared memory that complete when their thread waits for them.

The source is read when the copy starts and must not change before the wait. The target must not be accessed before the
wait; other threads may access it only after a barrier that follows the wait.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async", and "cp.async.wait_group / cp.async.wait_all".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import SimulationError
from ..checks.races import AccessChecker
from ..checks.records import IN_FLIGHT, LOW, ONE, CellAccess, Record, Shadow, equal_bits, recent
from ..decode.names import DTYPES
from ..opcodes.memory import Site
from .access import Access
from .lanes import Index
from .memory import Bound, MemoryRegion
from .operations import ByteSpan

if TYPE_CHECKING:
    from ..checks.agents import Agents


@dataclass(frozen=True, slots=True)
class CopySide:
    """The reads, or the writes, of a batch of copies in one region.

    at: indices of the copies in the batch. index: the index in `view` of the element that each copy accesses.
    cells: the accessed cells of the region's shadow, one row per copy; None if the region isn't checked.
    """

    at: Index
    region: MemoryRegion
    view: NDArray[Any]
    index: Index
    cells: Index | None
    site: Site


@dataclass(slots=True)
class Batch:
    """The copies that one instruction started for the threads of a group."""

    pc: int
    #: each copy's thread, by position in the chunk
    positions: Index
    #: the index of each copy's group among those of its thread
    groups: Index
    data: NDArray[Any]
    targets: list[CopySide]
    sources: list[CopySide]
    #: mask of the copies that are still in flight
    left: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CopyAgent:
    """The agent of a CTA by which copies are recorded that an arrival at an mbarrier completes."""

    agents: Agents
    name: Hashable
    cta: int


class AsyncCopies:
    """The cp.async copies in flight of a chunk's threads. before_wait: called with the threads that wait."""

    before_wait: Callable[[Index], None] | None = None

    def __init__(self, access: Access) -> None:
        self.access = access
        self.lanes = access.lanes
        #: the numbers of groups that each thread has committed, and that it has waited for
        self.committed, self.complete = np.zeros((2, self.lanes.total), np.int64)
        self.pending: list[Batch] = []
        if access.checker is not None:
            access.checker.report.in_flight = self.pending

    def issue(self, target: int, to: Any, source: int, at: Any, single: int, kept: Any) -> None:
        """cp.async. target, source, single: indices of the sites that write, that read, and that read single bytes.

        kept: the number of bytes that each thread copies; the rest of its target is zeroed. None: it copies all bytes.
        """
        lanes = self.lanes
        site = self.access.sites[target]
        positions = lanes.positions()
        batch = Batch(
            site.pc, positions, self.committed[positions], np.zeros(positions.size, DTYPES[site.dtype]), [], [],
            np.ones(positions.size, bool),
        )
        group = lanes.group
        address, to = lanes.each(at), lanes.each(to)
        if kept is None:
            self.read(batch, source, address, np.arange(positions.size), batch.data)
        else:
            self.read_parts(batch, source, single, address, lanes.each(kept))
        lanes.select(group)
        for part, bound, index in self.resolved(target, to, np.arange(positions.size)):
            cells = None
            if bound.region.shadow is not None:
                cells = close_target(self.access.checker_(), bound.region, index, batch.data[part], site)
            batch.targets.append(CopySide(part, bound.region, bound.view, index, cells, site))
        self.pending.append(batch)

    def commit(self) -> None:
        self.committed[self.lanes.positions()] += 1

    def wait(self, newest: int) -> None:
        """cp.async.wait_group: complete all but the last `newest` groups of each thread."""
        positions = self.lanes.positions()
        if self.before_wait is not None:
            self.before_wait(positions)
        self.complete[positions] = np.maximum(self.complete[positions], self.committed[positions] - newest)
        for batch in self.pending:
            ready = batch.left & (batch.groups < self.complete[batch.positions])
            if np.count_nonzero(ready):
                self.land(batch, ready)
        self.forget_landed()

    def forget_landed(self) -> None:
        self.pending[:] = [b for b in self.pending if np.count_nonzero(b.left)]

    def resolved(self, number: int, address: NDArray[Any], copies: Index) -> Iterator[tuple[Index, Bound, Index]]:
        """Yield (copies, binding, element indices) for each region that contains addresses of `copies`.

        The executing threads must be those of `copies`; during each iteration, they are those of the yielded copies.
        """
        bound, index = self.access.resolve(number, address)
        if bound is not None:
            yield copies, bound, index
            return
        for part in self.access.parts(number, index):
            bound, index = self.access.resolve(number, address[part])
            assert bound is not None, "addresses of one region resolve to it"
            yield copies[part], bound, index

    def read(self, batch: Batch, number: int, address: NDArray[Any], copies: Index, data: NDArray[Any]) -> None:
        """Read the sources of `copies` into `data`; check and record the executing threads' reads."""
        site = self.access.sites[number]
        for part, bound, index in self.resolved(number, address, copies):
            data[part] = bound.view[index]
            cells = None
            if bound.region.shadow is not None:
                checker = self.access.checker_()
                checker.load(bound.region, index, site)
                cells = checker.access(bound.region, index, site).cells.reshape(index.size, -1)
            batch.sources.append(CopySide(part, bound.region, bound.view, index, cells, site))

    def read_parts(self, batch: Batch, source: int, single: int, address: NDArray[Any], kept: NDArray[Any]) -> None:
        """Read only the first `kept` bytes of each source. raises: SimulationError if `kept` exceeds the copy size."""
        site = self.access.sites[source]
        width = 1 << site.shift
        over = np.flatnonzero(kept > width)
        if over.size:
            what = f"copies {int(kept[over[0]])} bytes to a target of {width}: the source can't be larger than the copy"
            raise self.access.error(SimulationError, batch.positions[over], what, site.pc)
        whole = np.flatnonzero(kept == width)
        if whole.size:
            self.lanes.select(batch.positions[whole])
            self.read(batch, source, address[whole], whole, batch.data)
        some = np.flatnonzero((kept > 0) & (kept < width))
        if not some.size:
            return
        self.lanes.select(batch.positions[some])
        self.access.is_misaligned(site, address[some])
        raw = batch.data.view(np.uint8).reshape(-1, width)
        for byte in range(int(kept[some].max())):
            copies = np.flatnonzero((kept > byte) & (kept < width))
            self.lanes.select(batch.positions[copies])
            self.read(batch, single, address[copies] + address.dtype.type(byte), copies, raw[:, byte])

    def land(self, batch: Batch, ready: NDArray[np.bool_], agent: CopyAgent | None = None) -> int:
        """Write the copies in `ready` to their targets, and record that sources and targets were in use until now.

        The accesses are recorded for the threads that started the copies, or for `agent`. Return their last event.
        """
        self.access.memory_changed()
        threads = self.lanes.full["gid"][batch.positions]
        spans = []
        for side in batch.targets:
            pick = ready[side.at]
            copies = side.at[pick]
            side.view[side.index[pick]] = batch.data[copies]
            if side.cells is not None and agent is not None:
                spans.append(ByteSpan(side.region, side.cells[pick].reshape(-1)))
            elif side.cells is not None:
                open_target(self.access.checker_(), side.region, side.cells[pick], threads[copies], batch.pc)
        if agent is not None:
            agent.agents.land(spans, agent.name, agent.cta, batch.pc)
        for side in batch.sources:
            if side.cells is not None:
                pick = ready[side.at]
                checker, cells = self.access.checker_(), side.cells[pick]
                me = np.repeat(threads[side.at[pick]], cells.shape[1])
                if agent is not None:
                    me[:] = agent.agents.record_of(agent.name, agent.cta)
                checker.order.tick(batch.pc)
                checker.record_read(CellAccess(side.region, side.site, cells.reshape(-1), me), ONE)
        batch.left &= ~ready
        return self.access.order.event if self.access.order is not None else 0


def close_target(checker: AccessChecker, region: MemoryRegion, index: Index, data: NDArray[Any], site: Site) -> Index:
    """Check the targets of copies of `data`, and mark them as in flight. Return their cells, one row per copy."""
    shadow: Shadow = region.shadow
    x = checker.access(region, index, site)
    cells = x.cells
    base = checker.base(shadow, cells.size)
    writes = recent(shadow.writes[cells], base)
    at = np.flatnonzero((writes + ONE > base) | (shadow.first_reads[cells] >= base))
    if at.size:
        checker.examine_update(x, writes, at)
    stamp = checker.stamp_write(shadow, x.me, site.pc)
    shadow.writes[cells] = stamp
    winner = shadow.writes[cells]
    lost = np.flatnonzero(winner != stamp)
    if lost.size:
        lanes = lost // (cells.size // index.size)
        winners = np.searchsorted(checker.lanes.get("gid"), winner[lost] & LOW)
        differs = np.flatnonzero(~equal_bits(data[winners], data[lanes]))
        if differs.size:
            checker.report.race(x, winner, lost[differs], "wrote")
    shadow.mark(cells, IN_FLIGHT)
    return cells.reshape(index.size, -1)


def open_target(checker: AccessChecker, region: MemoryRegion, cells: Index, threads: Record, pc: int) -> None:
    """Record completed copies as stores of the threads that started them."""
    shadow: Shadow = region.shadow
    me = np.repeat(threads, cells.shape[1])
    flat = cells.reshape(-1)
    stamp = checker.stamp_write(shadow, me, pc)
    shadow.writes[flat] = stamp
    winner = shadow.writes[flat]
    lost = np.flatnonzero(winner != stamp)
    if lost.size:
        shadow.written_by_several(flat[lost], stamp[lost], winner[lost])
