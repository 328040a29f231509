"""Clusters of CTAs: addresses in distributed shared memory, and the cluster barrier.

The bits of a shared address from 24 on are the rank of a CTA; the lower bits are the offset in its shared memory. A
variable has the same offset in all CTAs. For accesses to a thread's own CTA, the simulator uses the offset alone.

source: PTX ISA, "Data Movement and Conversion Instructions: mapa", "getctarank"; "Parallel Synchronization and
Communication Instructions: barrier.cluster".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fast_unique import fast_unique
from ..checks.order import Releases
from ..opcodes.move import WINDOWS
from .access import Access
from .lanes import RANK_SHIFT, Index
from .register_pool import Blocked
from .warp import Warps

_SPACE_SHIFT = WINDOWS["shared"].bit_length() - 1


class Clusters:
    """The clusters of a chunk; in a launch without clusters, each CTA is a cluster."""

    def __init__(self, warps: Warps, access: Access) -> None:
        self.lanes = lanes = access.lanes
        self.warps = warps
        self.alive = warps.alive
        self.access = access
        self.order = access.order
        self.places = access.places
        self.home = lanes.full["chunk_cta"] // lanes.ranks
        self.phase = np.zeros(lanes.ctas // lanes.ranks, np.int64)
        #: per thread, -1 if none: the phase of its arrival that it hasn't waited for, the instruction of its last
        #: arrival, and the instruction of the wait at which it is blocked
        self.pending, self.arrived, self.blocked = np.full((3, lanes.total), -1)
        #: a wait acquires only what the arrivals of the last completed phase released
        self.releases = Releases()

    def own(self, offset: Any) -> Any:
        """Return the address of the variable at `offset` in each thread's own CTA."""
        return offset + self.lanes.get("window").astype(offset.dtype)

    def offset(self, address: Any) -> Any:
        """Return the offset of an address in each thread's own CTA; addresses in other CTAs become out of bounds."""
        return address - self.lanes.get("window").astype(address.dtype)

    def generic_offset(self, address: Any) -> Any:
        """Like `offset`, for generic addresses; addresses outside shared memory are returned as they are."""
        shared = address >> np.uint64(_SPACE_SHIFT) == np.uint64(1)
        return address - np.where(shared, self.lanes.get("window").astype(address.dtype), np.zeros((), address.dtype))

    def mapped(self, address: Any, rank: Any) -> Any:
        """mapa: return the corresponding address in the CTA of rank `rank`.

        If there is none, return an address that is out of bounds: nvcc moves a mapa before the branch that makes sure
        that the rank exists.
        """
        kind = address.dtype.type
        rank = np.where(rank < self.lanes.ranks, rank, 0xFF).astype(address.dtype)
        return address & ~kind(0xFF << RANK_SHIFT) | rank << kind(RANK_SHIFT)

    def rank_of(self, address: Any) -> Any:
        """getctarank: return the rank of the CTA that owns an address."""
        return (address >> address.dtype.type(RANK_SHIFT)).astype(np.uint32) & np.uint32(0xFF)

    def arrive(self, sem: str | None, aligned: str | None, pc: int) -> None:
        if aligned:
            self.warps.whole(pc)
        positions = self.lanes.positions()
        again = positions[self.pending[positions] >= 0]
        if again.size:
            other = int(self.arrived[again[0]])
            self.misuse(again, "arrived at the cluster barrier again without a wait in between", pc, other)
        self.pending[positions] = self.phase[self.home[positions]]
        self.arrived[positions] = pc
        if self.order is not None:
            message = self.order.redirect(self.order.release(positions))
            if sem == ".relaxed":
                message = self.order.execution_only(message, agents=False)
            self.releases.add(self.order, message)
        self.complete()

    def wait(self, aligned: str | None, pc: int) -> None:
        """barrier.cluster.wait, always first in a basic block. raises: Blocked for the threads that must retry it."""
        if aligned:
            self.warps.whole(pc)
        positions = self.lanes.positions()
        blocked = positions[self.pending[positions] == self.phase[self.home[positions]]]
        if blocked.size:
            self.blocked[blocked] = pc
            raise Blocked(blocked)
        never = positions[self.pending[positions] < 0]
        if never.size:
            self.misuse(never, "waited at the cluster barrier without having arrived", pc)
        self.pending[positions] = self.blocked[positions] = -1
        if self.order is not None and self.releases.done is not None:
            self.order.learn(positions, self.releases.done)

    def complete(self) -> None:
        """Start the next phase of the clusters in which all living threads have arrived."""
        here = self.pending == self.phase[self.home]
        count = self.phase.size
        missing = np.bincount(self.home[self.alive & ~here], minlength=count)
        full = np.flatnonzero((missing == 0) & (np.bincount(self.home[here], minlength=count) > 0))
        self.phase[full] += 1
        if full.size and self.order is not None:
            ctas = (full[:, None] * self.lanes.ranks + np.arange(self.lanes.ranks)).reshape(-1)
            self.releases.complete(self.order, ctas, keep=False)
        self.access.memory_changed()

    def misuse(self, positions: Index, what: str, pc: int, other: int | None = None) -> None:
        hint = "follow each barrier.cluster.arrive of a thread with one barrier.cluster.wait"
        self.access.report_arrival(positions, what, pc, other, hint)

    def describe_waits(self) -> list[str]:
        """Describe the waiting and missing threads of one cluster; count the other clusters with waiting threads."""
        waiting = np.flatnonzero((self.blocked >= 0) & self.alive)
        if not waiting.size:
            return []
        cluster = self.home[waiting[0]]
        lines = []
        for positions, pc in self.by_cta(waiting[self.home[waiting] == cluster], self.blocked):
            waiters = self.lanes.describe_waiters(positions)
            lines.append(f"{waiters} at the cluster barrier\n  {self.places.describe(pc)}")
        missing = np.flatnonzero(self.alive & (self.home == cluster) & (self.pending != self.phase[cluster]))
        for positions, _ in self.by_cta(missing, np.zeros_like(self.blocked)):
            lines.append(f"  missing: {self.lanes.party(positions)}")
        more = fast_unique(self.home[waiting]).size - 1
        text = f"threads of {more} more cluster{'s' * (more > 1)} also wait at the cluster barrier"
        return [*lines, *([text] if more else [])]

    def by_cta(self, positions: Index, pcs: NDArray[np.int64]) -> list[tuple[Index, int]]:
        """Group threads by CTA and instruction; return (threads, instruction) of each group."""
        ctas = self.lanes.full["chunk_cta"]
        keys = sorted(set(zip(ctas[positions].tolist(), pcs[positions].tolist(), strict=True)))
        return [(positions[(ctas[positions] == cta) & (pcs[positions] == pc)], pc) for cta, pc in keys]
