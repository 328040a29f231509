"""Loads, stores and atomics in the shared memory of other CTAs of a cluster.

In kernels with such instructions, each shared variable of each rank also has a region of its own (`placing.peers`),
which shares memory and records with the variable: for rank r at the variable's address plus (r + 1) << RANK_SHIFT.
Accesses to a thread's own CTA use the variable's region.

source: CUDA C++ Programming Guide, "Distributed Shared Memory": all CTAs must exist when they are accessed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...fast_unique import fast_unique
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .far_arrivals import EXIT_HINT, FarArrivals
from .lanes import RANK_SHIFT, Index

_WINDOW = WINDOWS["shared"].bit_length() - 1


class FarAccesses:
    """The accesses of a chunk. far: knows living CTAs, and the CTAs that each thread has accessed."""

    def __init__(self, far: FarArrivals) -> None:
        self.far = far
        self.lanes = far.lanes
        self.access = far.mbarriers.access

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
        at = np.flatnonzero(other & ~missing)
        if at.size:
            self.note(site, at, ranks[at].astype(np.int64))
        moved = np.where(other, address + kind(1 << RANK_SHIFT), address - (own << kind(RANK_SHIFT)))
        moved = np.where(missing, address | kind(0xFF << RANK_SHIFT), moved)
        return np.where(is_shared, moved, address)

    def note(self, site: Site, threads: Index, ranks: Index) -> None:
        ctas = self.lanes.get("chunk_cta")[threads] // self.lanes.ranks * self.lanes.ranks + ranks
        gone = np.flatnonzero(~self.far.living()[ctas])
        if gone.size:
            positions = self.lanes.positions()[threads[gone]]
            what = f"accesses shared memory of CTA {self.far.coordinates(int(ctas[gone[0]]))}, which has exited"
            self.access.report("in-flight", positions, what, site.pc, EXIT_HINT)
        if self.far.order is not None:
            for cta in fast_unique(ctas).tolist():
                self.far.note(self.far.order, site, threads[ctas == cta], ctas[ctas == cta])
