"""Race and initialization checks, which compare each access with the records of its cells and update them.

Accesses by two threads to a location, at least one a write, must be ordered (`order.py`), or both must be strong with
scopes that include the other thread. Stores of equal values by one operation (one source location) don't race with each
other, and a reader need only be ordered after one of them. A reported race exists in every schedule with the same
synchronization (but see `HappensBefore.reached`). Races with loads of unused values may be warnings (`replicas.py`).

Two readers of a location are kept: the first since the last barrier of the CTA, and the last other one. If partial
barriers or releases may order a write after these two but not after a third, the last reader of each of a few groups of
warps is kept as well; its record replaces those of earlier readers of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decode.translate import Program
from ..machine.lanes import Index, Lanes
from ..machine.memory import MemoryRegion
from ..opcodes.memory import Site
from .access_findings import AccessFindings
from .findings import Findings
from .order import HappensBefore
from .precedence import Precedence
from .records import BARRIER, LOW, ONE, UNWRITTEN, CellAccess, Record, Shadow, equal_bits, real, recent, since


class AccessChecker:
    """Checks the memory accesses of a launch, and owns the state of its other checks."""

    def __init__(
        self, program: Program, lanes: Lanes, ctas: int, findings: Findings, strict: bool, replicas_differ: bool
    ) -> None:
        """strict: True if shuffles, votes, matches and redux don't order memory accesses.

        replicas_differ: True if replicas of a computation may store different values to shared memory.
        """
        self.lanes = lanes
        self.facts = program.ordering
        self.order = HappensBefore(ctas, lanes, not strict, self.facts)
        self.precedence = Precedence(self.order)
        self.report = AccessFindings(program, findings, self.precedence, replicas_differ)

    def begin(self, lanes: Lanes) -> None:
        """Start a chunk, as if all its CTAs had just executed a barrier."""
        self.lanes = lanes
        self.report.begin(lanes)
        self.order.begin(lanes)
        self.order.cta_barrier(np.arange(lanes.first, lanes.first + lanes.ctas), True)

    def load(self, region: MemoryRegion, index: Any, site: Site) -> None:
        x = self.access(region, index, site)
        if region.space == "local":
            written = region.shadow.written[x.cells]
            if np.count_nonzero(written) < written.size:
                self.report.unwritten(x, np.flatnonzero(~written))
            return
        shadow: Shadow = region.shadow
        base = self.base(shadow, x.cells.size)
        writes = shadow.writes[x.cells]
        bad = writes >= base
        if np.count_nonzero(bad):
            self.examine_load(x, writes, np.flatnonzero(bad))
        shadow.read_by[site.pc] = self.order.tick(site.pc)
        self.record_read(x, base)
        if site.strong and shadow.releases:
            self.order.flags.strong_read(shadow, self.locations(shadow, index, site), self.lanes.positions(), site)

    def store(self, region: MemoryRegion, index: Any, value: Any, view: NDArray[Any], site: Site) -> None:
        """Check a store against earlier accesses, execute it, and check its threads against each other."""
        shadow: Shadow = region.shadow
        x = self.access(region, index, site)
        cells = x.cells
        self.report.replicas.store(site.pc, region.space)
        if self.report.definedness.active:
            self.report.definedness.storing(site.pc, region, cells, view, index)
        if region.space == "local":
            view[index] = value
            region.shadow.written[cells] = True
            return
        if self.report.in_flight:
            self.report.sources(x)
        base = self.base(shadow, cells.size)
        again: Index | None = None
        if since(shadow.wrote, base) or since(shadow.read, base):
            writes = shadow.writes[cells]
            touched = writes + ONE > base
            if since(shadow.read, base):
                touched |= shadow.first_reads[cells] >= base
            if np.count_nonzero(touched) and not self.facts.any_constant:
                touched &= self.touched_by_others(x, writes, base)
            if np.count_nonzero(touched):
                again = self.examine_store(x, recent(writes, base), np.flatnonzero(touched), (index, value, view))
        view[index] = value
        stamp = self.stamp_write(shadow, x.me, site.pc)
        if np.ndim(base) == 0 and shadow.log.latest < int(base) >> 32:
            # all writers in the log precede the last barrier of their CTAs
            shadow.log.size = 0
        if again is not None and again.size:
            stamp[again] = shadow.log.joined(stamp[again], shadow.writes[cells[again]])
        shadow.writes[cells] = stamp
        if site.strong:
            if site.release or self.order.flags.fences or shadow.releases:
                self.order.flags.strong_write(shadow, self.locations(shadow, index, site), self.lanes.positions(), site)
        elif shadow.releases:
            self.order.flags.weak_write(shadow, cells)
        if x.is_ascending:
            return
        lost = shadow.writes[cells] != stamp
        if np.count_nonzero(lost):
            self.examine_collision(x, np.flatnonzero(lost), stamp, (index, value, view))

    def atomic(self, region: MemoryRegion, index: Any, site: Site) -> None:
        """Check and record atomic updates, which race only with accesses that are weak or have too narrow a scope."""
        shadow: Shadow = region.shadow
        x = self.access(region, index, site)
        cells = x.cells
        self.report.replicas.execute(site.pc)
        if self.report.in_flight:
            self.report.sources(x)
        base = self.base(shadow, cells.size)
        writes = shadow.writes[cells]
        bad = writes >= base
        if since(shadow.read, base):
            bad |= shadow.first_reads[cells] >= base
        elif self.precedence.peers(writes, site, shadow.of_one_cta):
            bad = bad[:0]
        bad = np.flatnonzero(bad)
        if bad.size:
            self.examine_update(x, recent(writes, base), bad)
        stamp = self.stamp_write(shadow, x.me, site.pc)
        shadow.writes[cells] = stamp
        if not site.wide and not shadow.of_one_cta:
            self.examine_scope(x, np.flatnonzero(shadow.writes[cells] != stamp))

    def release(self, region: MemoryRegion, index: Any, site: Site, old: Any, operands: Sequence[NDArray[Any]]) -> None:
        """Record what atomic updates acquire and release. old: the elements before each thread's update.

        A compare-and-swap that fails writes nothing, so it releases nothing.
        """
        shadow: Shadow = region.shadow
        if not (site.release or self.order.flags.fences or shadow.releases):
            return
        writes = equal_bits(old, operands[0]) if site.op.startswith("cas") else True
        cells, positions = self.locations(shadow, index, site), self.lanes.positions()
        self.order.flags.strong_write(shadow, cells, positions, site, writes)

    def stamp_write(self, shadow: Shadow, me: Record, pc: int) -> Record:
        event = self.order.tick(pc)
        shadow.wrote = max(shadow.wrote, event)
        result: Record = me + np.uint64(event << 32)
        return result

    def access(self, region: MemoryRegion, index: Any, site: Site) -> CellAccess:
        """Return the access of the executing threads to the cells of their elements `index`."""
        me: Record = self.lanes.get("gid")
        spread = site.shift - region.shadow.cell_shift
        if spread <= 0:
            return CellAccess(region, site, index if not spread else index >> -spread, me)
        k = 1 << spread
        wide = (index << spread)[:, None] + np.arange(k)
        return CellAccess(region, site, wide.reshape(-1), np.repeat(me, k))

    def locations(self, shadow: Shadow, index: Any, site: Site) -> Index:
        spread = site.shift - shadow.cell_shift
        result: Index = index << spread if spread >= 0 else index >> -spread
        return result

    def base(self, shadow: Shadow, count: int) -> Any:
        """Return a bound (or one per cell) of relevant records: smaller ones are 0 or before the CTA's last barrier."""
        if not shadow.of_one_cta:
            return ONE
        start = self.order.common_start
        if start is not None:
            return np.uint64(start << 32)
        each = (self.order.cta_start[self.lanes.get("cta")] << 32).astype(np.uint64)
        return each if each.size == count else np.repeat(each, count // each.size)

    def record_read(self, x: CellAccess, base: Any) -> None:
        """Record reads, with the number of the last event. base: a result of `self.base`."""
        shadow: Shadow = x.shadow
        cells, me = x.cells, x.me
        stamp = me + np.uint64(self.order.event << 32)
        if self.facts.partial:
            shadow.read_by_group(cells, stamp)
        first = shadow.first_reads
        free = not since(shadow.read, base)
        shadow.read = self.order.event
        if free and shadow.later_reads and np.ndim(base) == 0:
            # all CTAs of the chunk have synchronized since the last read
            shadow.later_reads, shadow.later_count = [], 0
        if not free:
            old = first[cells]
            claim = old < base
            free = np.count_nonzero(claim) == claim.size
        if not free:
            # Keep the read that races with more accesses: .nc reads race with the most, strong ones with the fewest.
            if not shadow.shared and not x.site.strong and not self.facts.any_constant:
                claim |= self.precedence.before_my_barrier(old, me)
            # the first reader remains the first; its record is updated to its latest read
            claim |= (old & LOW) == me
            mine = np.flatnonzero(claim)[::-1]
            first[cells[mine]] = stamp[mine]
        elif x.is_ascending:
            first[cells] = stamp
            return
        else:
            # in reverse order, so that the lowest of several threads is the first reader
            first[cells[::-1]] = stamp[::-1]
        others = np.flatnonzero(first[cells] != stamp)
        if others.size:
            shadow.read_last(cells[others], stamp[others])

    def touched_by_others(self, x: CellAccess, writes: Record, base: Any) -> NDArray[np.bool_]:
        """Return a mask of the cells that are marked or that another thread has accessed since the last barrier."""
        foreign: NDArray[np.bool_] = (writes >= base) & ((writes & LOW) != x.me)
        if since(x.shadow.read, base):
            for column in (x.shadow.first_reads, x.shadow.last_reads):
                reads = column[x.cells]
                foreign |= (reads >= base) & ((reads & LOW) != x.me)
        return foreign

    def examine_load(self, x: CellAccess, writes: Record, bad: Index) -> None:
        self.report.marks(x, writes, bad)
        at = bad[real(writes[bad])]
        if not at.size:
            return
        if x.site.constant:
            self.report.changed(x, writes, at)
            return
        foreign = x.by_others(writes, at)
        if foreign.size:
            ordered = self.precedence.writes_ordered(x.shadow, writes[foreign], x.me[foreign], x.site, every=False)
            self.report.race(x, writes, foreign[~ordered], "wrote")

    def examine_store(
        self, x: CellAccess, writes: Record, at: Index, data: tuple[Any, Any, NDArray[Any]]
    ) -> Index:
        """Report faults. Return elements of `at` where unordered stores of the same operation wrote an equal value."""
        shadow: Shadow = x.shadow
        index, value, view = data
        self.report.marks(x, writes, at)
        # an unordered store of an equal value by the same operation isn't a race: either order leaves the same value
        written = real(writes[at])
        before = np.where(written, writes[at], 0)
        operation = self.facts.operation
        same_operation = written & (operation[self.precedence.pcs(before)] == operation[x.site.pc])
        if np.count_nonzero(same_operation):
            lanes = at // (x.cells.size // index.size)
            same_operation &= equal_bits(view[index], value)[lanes]
            asked = np.flatnonzero(same_operation)
            late = ~self.precedence.writes_ordered(shadow, writes[at[asked]], x.me[at[asked]], x.site, every=True)
            same_operation[asked] = late
        again: Index = at[same_operation]
        at = self.without_replicas(x, writes, at[~same_operation], data)
        if at.size:
            self.report_conflicts_of_store(x, writes, at)
        return again

    def report_reads(self, x: CellAccess, at: Index) -> None:
        shadow: Shadow = x.shadow
        raced = np.zeros(x.cells.size, bool)
        wrong = False
        for column in (shadow.first_reads, shadow.last_reads):
            reads = column[x.cells]
            there = at[reads[at] != 0]
            if self.facts.any_constant:
                constant = self.facts.constant[self.precedence.pcs(reads[there])]
                self.report.changed(x, reads, there[constant])
            there = self.unordered_reads(x, reads, there)
            wrong |= self.report.race(x, reads, there, "read")
            raced[there] = True
        if shadow.group_reads is not None:
            # For each cell without a race so far, report a race with one reader that is neither the first nor the last.
            groups = shadow.group_reads[:, x.cells]
            differs = (groups != 0) & (groups != shadow.first_reads[x.cells]) & (groups != shadow.last_reads[x.cells])
            for group in np.flatnonzero(differs.any(axis=1)).tolist():
                there = self.unordered_reads(x, groups[group], at[(differs[group] & ~raced)[at]])
                wrong |= self.report.race(x, groups[group], there, "read")
                raced[there] = True
        if np.count_nonzero(raced) and not wrong:
            self.report_other_reads(x, np.flatnonzero(raced))

    def report_other_reads(self, x: CellAccess, at: Index) -> None:
        at = at[np.argsort(x.cells[at], kind="stable")]
        for places, reads in x.shadow.later_reads or ():
            known = np.flatnonzero(np.isin(places, x.cells[at]) & (x.shadow.last_reads[places] != reads))
            places, reads = places[known], reads[known]
            some = CellAccess(x.region, x.site, places, x.me[at[np.searchsorted(x.cells[at], places)]])
            there = self.unordered_reads(some, reads, np.arange(places.size))
            self.report.race(some, reads, there, "read")

    def unordered_reads(self, x: CellAccess, reads: Record, at: Index) -> Index:
        """Return the elements of `at` whose read is by another thread and races with the access `x`."""
        at = x.by_others(reads, at)
        if not at.size:
            return at
        return at[~self.precedence.ordered(reads[at], x.me[at], x.site if x.site.strong else None)]

    def examine_update(self, x: CellAccess, writes: Record, at: Index) -> None:
        self.report.marks(x, writes, at)
        self.report_conflicts_of_store(x, writes, at)

    def report_conflicts_of_store(self, x: CellAccess, writes: Record, at: Index) -> None:
        """Report earlier accesses to the cells `at` that race with `x`, a write, and any earlier .nc loads of them."""
        others = x.by_others(writes, at[real(writes[at])])
        if others.size:
            ordered = self.precedence.writes_ordered(x.shadow, writes[others], x.me[others], x.site, every=True)
            self.report.race(x, writes, others[~ordered], "wrote")
        self.report_reads(x, at)

    def without_replicas(
        self, x: CellAccess, records: Record, at: Index, data: tuple[Any, Any, NDArray[Any]]
    ) -> Index:
        """Return the cells of `at` that weren't written by the same execution of this store; warn about the others."""
        if not self.report.replicas.differ or not x.shadow.shared:
            return at
        index, value, view = data
        stored = np.flatnonzero(real(records[at]))
        stored = stored[self.precedence.pcs(records[at[stored]]) == x.site.pc]
        some = at[stored]
        same = self.report.replicas.same_execution(x.site.pc, x.me[some], records[some], x.shadow)
        if np.count_nonzero(same):
            first = int(some[np.argmax(same)])
            lane = first // (x.cells.size // index.size)
            values = np.broadcast_to(value, index.shape)[lane], view[index[lane]]
            self.report.replicas_differ(x, int(records[first]), first, values, int(np.count_nonzero(same)))
        return np.delete(at, stored[same])

    def examine_collision(
        self, x: CellAccess, lost: Index, stamp: Record, data: tuple[Any, Any, NDArray[Any]]
    ) -> None:
        """Check one instruction's stores to the same cells. lost: indices in `x.cells` that another thread overwrote.

        Stores of different values race, unless they are strong with scopes that include the other thread.
        """
        shadow: Shadow = x.shadow
        index, value, view = data
        lanes = lost // (x.cells.size // index.size)
        differs = np.flatnonzero(~equal_bits(view[index], value)[lanes])
        winner = shadow.writes[x.cells]
        if differs.size and not x.site.strong:
            self.report.race(x, winner, self.without_replicas(x, winner, lost[differs], data), "wrote")
        elif differs.size and not x.site.wide:
            self.examine_scope(x, lost[differs])
        shadow.written_by_several(x.cells[lost], stamp[lost], winner[lost])

    def examine_scope(self, x: CellAccess, lost: Index) -> None:
        winner = x.shadow.writes[x.cells[lost]]
        foreign = lost[~self.precedence.near(winner, x.me[lost])]
        self.report.race(x, x.shadow.writes[x.cells], foreign, "wrote")

    def make_barriers(self, region: MemoryRegion, cells: Index, threads: Index, site: Site) -> None:
        """Check the initialization of mbarriers, and mark their cells. cells: a row for each thread."""
        shadow: Shadow = region.shadow
        x = self.access_by(region, cells, threads, site)
        starts = np.repeat(self.order.cta_start[self.lanes.get("cta")[threads]], cells.shape[1])
        writes = recent(shadow.writes[x.cells], (starts << 32).astype(np.uint64))
        at = np.flatnonzero(real(writes) | (shadow.first_reads[x.cells] >> np.uint64(32) >= starts))
        self.report_conflicts_of_store(x, writes, at)
        shadow.mark(x.cells, BARRIER)

    def free_barriers(self, region: MemoryRegion, cells: Index, threads: Index, site: Site) -> None:
        """Turn the cells of mbarriers into ordinary, unwritten memory. cells: a row for each thread."""
        shadow: Shadow = region.shadow
        x = self.access_by(region, cells, threads, site)
        shadow.mark(x.cells, UNWRITTEN)
        # The next writer must be ordered after the invalidation.
        self.order.tick(site.pc)
        self.record_read(x, self.base(shadow, x.cells.size))

    def access_by(self, region: MemoryRegion, cells: Index, threads: Index, site: Site) -> CellAccess:
        return CellAccess(
            region, site, cells.reshape(-1), np.repeat(self.lanes.get("gid")[threads], cells.shape[1])
        )
