"""cp.async.mbarrier.arrive: arrivals at mbarriers once the earlier cp.async copies of a thread are complete.

The arrivals of a warp's threads at one barrier are one operation in flight; those of a warp are delivered in the order
of their issue. An arrival releases the copies of its warp, but no other accesses of the thread.

source: PTX ISA, "Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive".
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ...fast_unique import fast_unique
from ..checks.agents import Agents
from ..opcodes.memory import Site
from .copies import AsyncCopies, CopyAgent
from .lanes import Index
from .mbarrier import Arrivals, Arriving, MBarrier
from .mbarriers import MBarriers
from .operations import Operation


class CopyArrivals:
    """The arrivals of a chunk. landed: warp of the chunk → the event of its last copies that an arrival completed."""

    def __init__(self, copies: AsyncCopies, mbarriers: MBarriers) -> None:
        self.copies = copies
        self.mbarriers = mbarriers
        self.lanes = copies.lanes
        checker = copies.access.checker
        self.agents = Agents(checker, mbarriers.operations) if checker is not None else None
        self.landed: dict[int, int] = {}
        copies.before_wait = self.before_wait

    def arrive(self, number: int, address: Any, counted: bool) -> None:
        """Let each executing thread arrive after its copies. counted: the current phase's count includes this arrival.

        Otherwise, the barrier expects one more arrival in its current phase.
        """
        site = self.copies.access.sites[number]
        for barrier, threads in self.mbarriers.living(site, address):
            positions = self.lanes.positions()[threads]
            ctas = self.lanes.full["chunk_cta"][positions]
            if not counted:
                barrier.pending += np.bincount(ctas, minlength=barrier.pending.size)
            elif barrier.phase_order is not None:
                barrier.phase_order.arrive(barrier.name, positions, ctas, site.pc)
            warps = self.lanes.full["chunk_warp"][positions]
            for warp in fast_unique(warps).tolist():
                self.issue(site, barrier, warp, positions[warps == warp])
            self.copies.access.memory_changed()

    def issue(self, site: Site, barrier: MBarrier, warp: int, positions: Index) -> None:
        cta = int(self.lanes.full["chunk_cta"][positions[0]])
        name = self.name(warp)
        mine = [(batch, batch.left & np.isin(batch.positions, positions)) for batch in self.copies.pending]
        for batch, _ in mine:
            for side in (*batch.targets, *batch.sources):
                if side.cells is not None:
                    side.region.shadow.agents = True

        def carry_out() -> None:
            agent = CopyAgent(self.agents, name, cta) if self.agents is not None else None
            for batch, copies in mine:
                ready = batch.left & copies
                if np.count_nonzero(ready):
                    self.landed[warp] = self.copies.land(batch, ready, agent)
            self.copies.forget_landed()
            if not barrier.live[cta]:
                what = f"a copy arrives at {barrier.name}, which is not initialized"
                self.copies.access.finding("barrier", positions, what, site.pc)
                return
            if self.agents is not None and warp in self.landed:
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

    def name(self, warp: int) -> Hashable:
        """Return the name of the agent that carries out a warp's copies."""
        return "arrivals", warp % self.lanes.warps_per_cta

    def before_wait(self, positions: Index) -> None:
        """Deliver the arrivals of the threads' warps, and order copies that arrivals completed before the threads."""
        warps = self.lanes.full["chunk_warp"][positions]
        for warp in fast_unique(warps).tolist():
            self.mbarriers.operations.drain(("arrivals", warp))
            if self.agents is not None and warp in self.landed:
                self.agents.waited(positions[warps == warp], self.name(warp), self.landed[warp])
