"""Pending waits at mbarriers, and their description in deadlock messages."""

from __future__ import annotations

import numpy as np

from ..checks.places import PtxPlaces
from .lanes import Index, Lanes
from .mbarrier import MBarrier
from .operations import Operations

# the maximum number of arrivals that a message lists for a barrier
NAMED_ARRIVALS = 4


class Waits:
    """Each thread's incomplete wait: index in `barriers` (0 if none), phase, kind of phase, and instruction."""

    def __init__(self, lanes: Lanes, places: PtxPlaces) -> None:
        self.lanes = lanes
        self.places = places
        self.barriers: list[MBarrier | None] = [None]
        self.barrier, self.phase, self.pc = np.zeros((3, lanes.total), np.int64)
        self.kinds = np.full(lanes.total, "parity")

    def set(self, barrier: MBarrier, positions: Index, phases: Index, kind: str, pc: int) -> None:
        if barrier not in self.barriers:
            self.barriers.append(barrier)
        self.barrier[positions] = self.barriers.index(barrier)
        self.phase[positions] = phases
        self.pc[positions] = pc
        self.kinds[positions] = kind

    def clear(self, positions: Index) -> None:
        self.barrier[positions] = 0

    def describe(
        self, positions: Index, pcs: frozenset[int], operations: Operations
    ) -> tuple[list[str], Index]:
        """Return descriptions of these threads' waits at these instructions, and the threads that don't wait there."""
        matches = (self.barrier[positions] > 0) & np.isin(self.pc[positions], list(pcs))
        here = positions[matches]
        cta_of = self.lanes.full["chunk_cta"]
        keys = np.stack([self.barrier[here], self.phase[here], self.pc[here], cta_of[here]])
        lines = []
        seen: set[tuple[int, int, int]] = set()
        more: set[int] = set()
        for key in sorted(map(tuple, np.unique(keys, axis=1).T.tolist())):
            if key[:3] in seen:
                more.add(key[3])
                continue
            seen.add(key[:3])
            lines.append(self.describe_one(here[(keys == np.array(key)[:, None]).all(axis=0)], operations))
        lines.extend([f"the same holds in {len(more)} more CTA{'s' * (len(more) > 1)}"] if more else [])
        return lines, positions[~matches]

    def describe_one(self, positions: Index, operations: Operations) -> str:
        at = int(positions[0])
        barrier = self.barriers[int(self.barrier[at])]
        assert barrier is not None, "a waiter has a barrier"
        awaited, kind = int(self.phase[at]), str(self.kinds[at])
        cta = int(self.lanes.full["chunk_cta"][at])
        phase = f"a phase of parity {awaited & 1}" if kind == "parity" else f"phase {awaited}"
        return (
            f"{self.lanes.describe_waiters(positions)} for {phase} of {barrier.name}\n"
            f"  {self.places.describe(int(self.pc[at]))}\n  {self.describe_phase(barrier, cta, operations)}"
        )

    def describe_phase(self, barrier: MBarrier, cta: int, operations: Operations) -> str:
        """Return 'it is in phase 2: 0 of 1 arrivals, 16,384 bytes missing', followed by some of the arrivals."""
        expected, tx = int(barrier.expected[cta]), int(barrier.tx[cta])
        here = expected - int(barrier.pending[cta])
        text = f"it is in phase {int(barrier.phase[cta])}: {here} of {expected} arrivals"
        if tx > 0:
            named = "" if operations.naming(barrier.address, cta) else "; no operation in flight signals it"
            text += f", {tx:,} bytes missing{named}"
        elif tx < 0:
            text += f", {-tx:,} bytes more than were expected"
        for pc, positions in barrier.arrived(cta, self.lanes.full["chunk_cta"])[:NAMED_ARRIVALS]:
            text += f"\n  {self.lanes.party(positions)} arrived\n    {self.places.describe(pc)}"
        return text
