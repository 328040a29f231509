"""cp.async: copies from global to shared memory that complete when their thread waits for them.

The source is read when the copy starts and must not change before the wait. The target must not be accessed before the
wait; other threads may access it only after a barrier that follows the wait.

cp.async.mbarrier.arrive lets threads arrive at an mbarrier once their earlier copies are complete. The arrivals of a
warp's threads at one barrier are one operation in flight; those of a warp are delivered in the order of their issue. An
arrival releases the copies of its warp, but no other accesses of the thread.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async", and "cp.async.wait_group / cp.async.wait_all";
"Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import SimulationError
from ...fast_unique import fast_unique
from ..checks import records
from ..checks.agents import Agents
from ..checks.races import AccessChecker
from ..decode.names import DTYPES
from ..opcodes.memory import Site
from .access import Access
from .lanes import Index
from .mbarrier import Arrivals, Arriving, MBarrier
from .mbarriers import MBarriers
from .memory import Bound, MemoryRegion
from .operations import ByteSpan, Operation


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


class AsyncCopies:
    """The cp.async copies in flight of a chunk's threads.

    landed: warp of the chunk that has arrived after copies → the event of the last ones that this completed, or 0.
    """

    def __init__(self, access: Access, mbarriers: MBarriers) -> None:
        self.access = access
        self.mbarriers = mbarriers
        self.lanes = access.lanes
        #: the numbers of groups that each thread has committed, and that it has waited for
        self.committed, self.complete = np.zeros((2, self.lanes.total), np.int64)
        self.pending: list[Batch] = []
        self.landed: dict[int, int] = {}
        self.agents: Agents | None = None
        if access.checker is not None:
            access.checker.report.in_flight = self.pending
            self.agents = Agents(access.checker, mbarriers.operations)

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
        if self.landed:
            self.deliver_arrivals(positions)
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

    def land(self, batch: Batch, ready: NDArray[np.bool_], warp: int | None = None) -> int:
        """Write the copies in `ready` to their targets, and record that sources and targets were in use until now.

        The accesses are recorded for the threads that started the copies or, if an arrival completes them, for the
        agent of their `warp`. Return their last event.
        """
        self.access.memory_changed()
        threads = self.lanes.full["gid"][batch.positions]
        agents = None if warp is None else self.agents
        name, cta = self.agent(warp or 0)
        spans = []
        for side in batch.targets:
            pick = ready[side.at]
            copies = side.at[pick]
            side.view[side.index[pick]] = batch.data[copies]
            if side.cells is not None and agents is not None:
                spans.append(ByteSpan(side.region, side.cells[pick].reshape(-1)))
            elif side.cells is not None:
                open_target(self.access.checker_(), side.region, side.cells[pick], threads[copies], batch.pc)
        if agents is not None:
            agents.land(spans, name, cta, batch.pc)
        for side in batch.sources:
            if side.cells is not None:
                pick = ready[side.at]
                checker, cells = self.access.checker_(), side.cells[pick]
                me = np.repeat(threads[side.at[pick]], cells.shape[1])
                if agents is not None:
                    me[:] = agents.record_of(name, cta)
                checker.order.tick(batch.pc)
                checker.record_read(records.CellAccess(side.region, side.site, cells.reshape(-1), me), records.ONE)
        batch.left &= ~ready
        return self.access.order.event if self.access.order is not None else 0

    def arrive(self, number: int, address: Any, counted: bool) -> None:
        """Let each executing thread arrive after its copies. counted: the current phase's count includes this arrival.

        Otherwise, the barrier expects one more arrival in its current phase.
        """
        site = self.access.sites[number]
        for barrier, threads in self.mbarriers.living(site, address):
            positions = self.lanes.positions()[threads]
            ctas = self.lanes.full["chunk_cta"][positions]
            if not counted:
                barrier.pending += np.bincount(ctas, minlength=barrier.pending.size)
            elif barrier.phase_order is not None:
                barrier.phase_order.arrive(barrier.name, positions, ctas, site.pc)
            warps = self.lanes.full["chunk_warp"][positions]
            for warp in fast_unique(warps).tolist():
                self.issue_arrival(site, barrier, warp, positions[warps == warp])
            self.access.memory_changed()

    def issue_arrival(self, site: Site, barrier: MBarrier, warp: int, positions: Index) -> None:
        self.landed.setdefault(warp, 0)
        name, cta = self.agent(warp)
        mine = [(batch, batch.left & np.isin(batch.positions, positions)) for batch in self.pending]
        for batch, _ in mine:
            for side in (*batch.targets, *batch.sources):
                if side.cells is not None:
                    side.region.shadow.agents = True

        def carry_out() -> None:
            for batch, copies in mine:
                ready = batch.left & copies
                if np.count_nonzero(ready):
                    self.landed[warp] = self.land(batch, ready, warp)
            self.forget_landed()
            if not barrier.live[cta]:
                what = f"a copy arrives at {barrier.name}, which is not initialized"
                self.access.finding("barrier", positions, what, site.pc)
                return
            if self.agents is not None and self.landed[warp]:
                barrier.near.add(self.agents.order, self.agents.news(name, cta, self.landed[warp]))
            self.count(site, barrier, positions)

        self.mbarriers.operations.issue(
            Operation(site.pc, int(positions[0]), "copy's arrival", carry_out, pipe=("arrivals", warp))
        )

    def count(self, site: Site, barrier: MBarrier, positions: Index) -> None:
        """Count arrivals of threads that needn't be executing."""
        ctas, group = self.lanes.full["chunk_cta"][positions], self.lanes.group
        barrier.note(Arrivals(site.pc, positions, ctas, barrier.phase[ctas]))
        # without a wait, no thread is ordered after this arrival
        barrier.got_bytes[barrier.phase[ctas] % 3, ctas] = barrier.phase[ctas]
        if self.mbarriers.phase_waits is not None:
            self.mbarriers.phase_waits.arrived(barrier, positions)
        self.lanes.select(positions)
        each = np.arange(positions.size)
        self.mbarriers.count(site, barrier, Arriving(each, ctas, np.ones(positions.size, np.int64)))
        self.lanes.select(group)

    def agent(self, warp: int) -> tuple[Hashable, int]:
        """Return the name of the agent that carries out a warp's copies, and its CTA."""
        cta, index = divmod(warp, self.lanes.warps_per_cta)
        return ("arrivals", index), cta

    def deliver_arrivals(self, positions: Index) -> None:
        """Deliver the arrivals of the threads' warps, and order copies that arrivals completed before the threads."""
        warps = self.lanes.full["chunk_warp"][positions]
        for warp in sorted(self.landed.keys() & set(warps.tolist())):
            self.mbarriers.operations.drain(("arrivals", warp))
            if self.agents is not None and self.landed[warp]:
                self.agents.waited(positions[warps == warp], self.agent(warp)[0], self.landed[warp])


def close_target(checker: AccessChecker, region: MemoryRegion, index: Index, data: NDArray[Any], site: Site) -> Index:
    """Check the targets of copies of `data`, and mark them as in flight. Return their cells, one row per copy."""
    shadow: records.Shadow = region.shadow
    x = checker.access(region, index, site)
    cells = x.cells
    base = checker.base(shadow, cells.size)
    writes = records.recent(shadow.writes[cells], base)
    at = np.flatnonzero((writes + records.ONE > base) | (shadow.first_reads[cells] >= base))
    if at.size:
        checker.examine_update(x, writes, at)
    stamp = checker.stamp_write(shadow, x.me, site.pc)
    shadow.writes[cells] = stamp
    winner = shadow.writes[cells]
    lost = np.flatnonzero(winner != stamp)
    if lost.size:
        lanes = lost // (cells.size // index.size)
        winners = np.searchsorted(checker.lanes.get("gid"), winner[lost] & records.LOW)
        differs = np.flatnonzero(~records.equal_bits(data[winners], data[lanes]))
        if differs.size:
            checker.report.race(x, winner, lost[differs], "wrote")
    shadow.mark(cells, records.IN_FLIGHT)
    return cells.reshape(index.size, -1)


def open_target(checker: AccessChecker, region: MemoryRegion, cells: Index, threads: records.Record, pc: int) -> None:
    """Record completed copies as stores of the threads that started them."""
    shadow: records.Shadow = region.shadow
    me = np.repeat(threads, cells.shape[1])
    flat = cells.reshape(-1)
    stamp = checker.stamp_write(shadow, me, pc)
    shadow.writes[flat] = stamp
    winner = shadow.writes[flat]
    lost = np.flatnonzero(winner != stamp)
    if lost.size:
        shadow.written_by_several(flat[lost], stamp[lost], winner[lost])
