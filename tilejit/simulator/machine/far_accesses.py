"""Accesses to the shared memory of other CTAs of a cluster: loads, stores, atomics, and arrivals at mbarriers.

In kernels that access other CTAs, each shared variable of each rank also has a region of its own (`placing.peers`),
which shares memory and records with the variable: for rank r at the variable's address plus (r + 1) << RANK_SHIFT.
Accesses to a thread's own CTA use the variable's region.

At CTA scope, the default, an arrival at an mbarrier of another CTA releases only asynchronous operations on shared
memory that its thread knows to be complete. At cluster scope, it also releases ordinary accesses, but only to waits at
cluster scope.

source: CUDA C++ Programming Guide, "Distributed Shared Memory": all CTAs must exist when they are accessed; PTX ISA,
"Parallel Synchronization and Communication Instructions: mbarrier.arrive"; "Memory Consistency Model: Morally strong
operations".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..checks.order import HappensBefore
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .lanes import RANK_SHIFT, Index
from .mbarrier import BYTES, Arriving, MBarrier
from .mbarriers import MBarriers

ORDER_HINT = "put fence.mbarrier_init.release.cluster, barrier.cluster.arrive and .wait between initialization and use"
EXIT_HINT = "synchronize all CTAs of the cluster before exiting, by barrier.cluster.arrive and .wait"
_WINDOW = WINDOWS["shared"].bit_length() - 1


class FarAccesses:
    """The accesses of a chunk's threads. alive: True for threads that have not exited.

    last: CTA → for each thread of the cluster, by CTA rank, the event of its last access from another CTA; 0 if none.
    """

    def __init__(self, mbarriers: MBarriers, alive: NDArray[np.bool_]) -> None:
        self.mbarriers = mbarriers
        self.access = mbarriers.access
        self.lanes = mbarriers.lanes
        self.order = mbarriers.order
        self.alive = alive
        self.last: dict[int, Index] = {}

    def reached(self, number: int, address: Any) -> Any:
        """Convert addresses of a memory instruction to those of the regions; report accesses to exited CTAs."""
        site = self.access.sites[number]
        address = self.lanes.each(address)
        kind = address.dtype.type
        ranks = (address >> kind(RANK_SHIFT)) & kind(0xFF)
        own = (self.lanes.get("chunk_cta") % self.lanes.ranks).astype(address.dtype)
        is_shared = address >> kind(_WINDOW) == kind(1) if not site.space else np.ones(address.size, bool)
        other = is_shared & (ranks != own)
        missing = ranks >= kind(self.lanes.ranks)
        threads = np.flatnonzero(other & ~missing)
        if threads.size:
            ctas = self.targets(threads, ranks[threads].astype(np.int64))
            gone = np.flatnonzero(~self.living()[ctas])
            if gone.size:
                what = f"accesses shared memory of CTA {self.coordinates(int(ctas[gone[0]]))}, which has exited"
                positions = self.lanes.positions()[threads[gone]]
                self.access.report("in-flight", positions, what, site.pc, EXIT_HINT)
            if self.order is not None:
                self.note(self.order, site, threads, ctas)
        moved = np.where(other, address + kind(1 << RANK_SHIFT), address - (own << kind(RANK_SHIFT)))
        moved = np.where(missing, address | kind(0xFF << RANK_SHIFT), moved)
        return np.where(is_shared, moved, address)

    def arrive(self, number: int, address: Any, count: Any, expected: Any, drop: bool, releases: str) -> None:
        """mbarrier.arrive.shared::cluster. releases: the scope of the release, "cta" or "cluster", or "" for none."""
        site = self.access.sites[number]
        for barrier, rank, is_far, threads in self.groups(site, address):
            threads = threads[self.usable(site, barrier, threads, self.targets(threads, rank), is_far)]
            if not threads.size:
                continue
            each = self.mbarriers.of(np.int64(1) if count is None else count, threads).astype(np.int64)
            near = self.mbarriers.release if releases else None
            release = self.release_to(rank, releases) if is_far else near
            arriving = Arriving(threads, self.targets(threads, rank), each, drop)
            self.mbarriers.arrive_at(site, barrier, arriving, expected, release)

    def groups(self, site: Site, address: Any) -> Iterator[tuple[MBarrier, int, bool, Index]]:
        """Yield (barrier, rank of its CTA, True if that is another CTA, threads); report and skip invalid addresses."""
        lanes, mbarriers = self.lanes, self.mbarriers
        actual = np.broadcast_to(mbarriers.access.actual(site, address), (lanes.n,)).astype(np.int64)
        ranks, offsets = np.divmod(actual, 1 << RANK_SHIFT)
        keys = np.stack([ranks, offsets, ranks != lanes.get("chunk_cta") % lanes.ranks])
        for key in np.unique(keys, axis=1).T.tolist():
            threads = np.flatnonzero((keys == np.array(key)[:, None]).all(axis=0))
            rank, offset, is_far = key
            if rank >= lanes.ranks:
                mbarriers.access.report_outside(site, actual.astype(np.uint64), threads)
                continue
            barrier = mbarriers.barrier(site, offset, lanes.each(address)[threads])
            if barrier is not None:
                yield barrier, rank, bool(is_far), threads

    def targets(self, threads: Index, rank: int | Index) -> Index:
        """Return the CTAs of rank `rank` in the threads' clusters."""
        first: Index = self.lanes.get("chunk_cta")[threads] // self.lanes.ranks * self.lanes.ranks
        return first + rank

    def usable(self, site: Site, barrier: MBarrier, threads: Index, ctas: Index, far: bool) -> NDArray[np.bool_]:
        """Return a mask of the threads whose target barrier is usable; report the others. Check and record uses."""
        live = barrier.live[ctas]
        gone = ~self.living()[ctas]
        if np.count_nonzero(~live & ~gone):
            self.mbarriers.misuse(site, barrier, threads[~live & ~gone], "is used but not initialized")
        if np.count_nonzero(gone):
            other = self.coordinates(int(ctas[gone][0]))
            what = f"of CTA {other}, which has exited, receives an arrival"
            self.mbarriers.misuse(site, barrier, threads[gone], what, rule="in-flight", hint=EXIT_HINT)
        good = live & ~gone
        some = threads[good]
        if far and self.order is not None:
            self.check_ordered(self.order, site, barrier, some, ctas[good])
            self.note(self.order, site, some, ctas[good])
        elif self.order is not None and some.size:
            self.mbarriers.use(self.order, site, barrier, some)
        return good

    def living(self) -> NDArray[np.bool_]:
        cta = self.lanes.full["chunk_cta"]
        return np.bincount(cta[self.alive], minlength=self.lanes.ctas) > 0

    def check_ordered(self, order: HappensBefore, site: Site, barrier: MBarrier, threads: Index, ctas: Index) -> None:
        """Report uses of another CTA's barrier that aren't ordered after its initialization or fence.mbarrier_init."""
        gid = self.lanes.full["gid"].astype(np.int64)
        positions = self.lanes.positions()[threads]
        for cta in fast_unique(ctas).tolist():
            here = positions[ctas == cta]
            maker = np.full(here.size, barrier.init_position[cta])
            known = order.ordered(gid[maker], np.full(here.size, barrier.init_event[cta]), gid[here])
            if barrier.published[cta]:
                known |= order.has_happened(maker, np.full(here.size, barrier.published[cta]), here)
            wrong = np.flatnonzero(~known)
            if wrong.size:
                what = f"of CTA {self.coordinates(cta)} is used without being ordered after its initialization"
                self.mbarriers.misuse(
                    site, barrier, threads[ctas == cta][wrong], what, int(barrier.init_pc[cta]), rule="race",
                    hint=ORDER_HINT,
                )

    def check_signalled(self, site: Site, address: int, thread: int, cta: int) -> None:
        """Report a copy that signals another CTA's barrier before its initialization, or isn't ordered after it."""
        barrier, threads = self.mbarriers.at.get(address), np.array([thread])
        if barrier is None or not barrier.live[cta]:
            position = int(self.lanes.positions()[thread])
            name = self.access.memory.shared_name(address, BYTES)
            what = f"copies to CTA {self.coordinates(cta)} and signals mbarrier {name}, which is not initialized there"
            self.access.report("barrier", position, what, site.pc, ORDER_HINT)
        elif self.order is not None:
            self.check_ordered(self.order, site, barrier, threads, np.array([cta]))

    def is_there(self, site: Site, position: int, cta: int) -> bool:
        """Return True if the CTA that receives a copy has not exited; otherwise report it and return False."""
        if self.living()[cta]:
            return True
        what = f"copies to CTA {self.coordinates(cta)}, which has exited"
        self.access.report("in-flight", position, what, site.pc, EXIT_HINT)
        return False

    def note(self, order: HappensBefore, site: Site, threads: Index, ctas: Index) -> None:
        """Record accesses of executing threads to the shared memory of `ctas`, one per thread."""
        event = order.tick(site.pc)
        full, ranks = self.lanes.full, self.lanes.ranks
        positions = self.lanes.positions()[threads]
        inside = full["chunk_cta"][positions] % ranks * self.lanes.threads + full["thread"][positions]
        for cta in fast_unique(ctas).tolist():
            if cta not in self.last:
                self.last[cta] = np.zeros(ranks * self.lanes.threads, np.int64)
            self.last[cta][inside[ctas == cta]] = event

    def release_to(self, rank: int, releases: str) -> Callable[[MBarrier, Index], None]:
        """Return a function that adds threads' releases to a barrier's current phase in the CTAs of rank `rank`."""
        order = self.order

        def release(barrier: MBarrier, threads: Index) -> None:
            if order is None:
                return
            message = order.redirect(order.release(self.lanes.positions()[threads]), rank)
            barrier.near.add(order, order.execution_only(message, agents=bool(releases)))
            if releases == "cluster":
                barrier.wide.add(order, message)

        return release

    def coordinates(self, cta: int) -> tuple[int, int, int]:
        return self.lanes.cta_coordinates(self.lanes.first + cta)

    def check_exit(self, positions: Index) -> None:
        """Report CTAs whose exit isn't ordered after all accesses from other CTAs."""
        order, lanes = self.order, self.lanes
        if order is None or not self.last:
            return
        living = self.living()
        for cta in fast_unique(lanes.full["chunk_cta"][positions]).tolist():
            events = self.last.get(cta)
            if events is None or living[cta]:
                continue
            arrived = cta // lanes.ranks * lanes.ranks * lanes.threads + np.flatnonzero(events)
            known = order.need_clocks().executed_for(cta, lanes.full["gid"][arrived].astype(np.int64))
            unknown = np.flatnonzero(events[events > 0] > known)
            if unknown.size:
                at = arrived[unknown[:1]]
                pc = int(order.pcs[int(events[events > 0][unknown[0]])])
                is_arrival = self.mbarriers.program.function.body[pc].root == "mbarrier"
                what = "arrival at its mbarrier" if is_arrival else "access to its shared memory"
                message = f"CTA {self.coordinates(cta)} exits without being ordered after the {what} "
                message += f"by {lanes.describe_position(int(at[0]))}"
                self.access.finding("in-flight", at, message, pc, EXIT_HINT)
