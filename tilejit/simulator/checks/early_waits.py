"""Check that no wait for a phase of an mbarrier, and no copy that signals one, can come a phase too early.

A wait tests only the parity of a phase's number. A thread that waits for phase n must therefore know that phase n - 1
is complete. Otherwise the wait may, in another schedule, return at once because phase n - 2 is complete. Likewise, a
thread that starts a copy whose bytes count for phase n must know that phase n - 1 is complete. Otherwise they may count
for that phase.

A thread knows this if its own wait for phase n - 1 or a later phase has returned, or if it is ordered after such a wait
of another thread or, unless that phase got bytes, after all arrivals in phase n - 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import WARP, Index
from ..machine.mbarrier import MBarrier
from .findings import Findings
from .late_waiters import LateWaiters


class EarlyWaits:
    """The knowledge of a chunk's threads of the completed phases of its mbarriers."""

    def __init__(self, waiters: LateWaiters, findings: Findings) -> None:
        self.waiters = waiters
        self.order = waiters.order
        self.lanes = waiters.order.lanes
        self.findings = findings
        #: for each thread, the last phase of its CTA's barrier for which it has waited; initially -1
        self.known: dict[MBarrier, Index] = {}
        #: (barrier, its CTA, thread) → the last phase known to be complete when the thread started a copy
        self.known_afar: dict[tuple[MBarrier, int, int], int] = {}

    def wait(self, barrier: MBarrier, positions: Index, phases: Index, pc: int, kind: str) -> None:
        """Check waits for complete `phases`, unless they are of kind "state"; record that the threads have waited."""
        known = self.known.get(barrier)
        if known is None:
            known = self.known[barrier] = np.full(self.lanes.total, -1)
        ask = known[positions] < phases - 1
        if kind != "state" and np.count_nonzero(ask):
            asking, asked, ctas = positions[ask], phases[ask], self.lanes.full["chunk_cta"][positions[ask]]
            for cta, phase in sorted(set(zip(ctas.tolist(), asked.tolist(), strict=True))):
                here = asking[(ctas == cta) & (asked == phase)]
                early = here[~self.knows(barrier, cta, phase - 1, here)]
                if early.size:
                    what = f"{self.lanes.party(early)} waited for phase {phase}"
                    otherwise = "this wait could return before its phase is complete"
                    self.report(barrier, cta, phase, early, pc, what, otherwise)
        known[positions] = phases

    def start_copy(self, barrier: MBarrier, cta: int, position: int, pc: int, phase: int) -> None:
        """Check that a thread whose copy signals `phase` of a barrier knows that the phase before is complete."""
        key = barrier, cta, position
        if not phase or self.known_afar.get(key, -1) >= phase - 1:
            return
        self.known_afar[key] = phase - 1
        if not self.knows(barrier, cta, phase - 1, np.array([position])).all():
            self.report_copy(barrier, cta, position, pc, phase)

    def report_copy(self, barrier: MBarrier, cta: int, position: int, pc: int, phase: int) -> None:
        what = f"{self.lanes.describe_position(position)} started a copy whose bytes count for phase {phase}"
        self.report(barrier, cta, phase, np.array([position]), pc, what, "they could count for that phase")

    def knows(self, barrier: MBarrier, cta: int, phase: int, positions: Index) -> NDArray[np.bool_]:
        """Return a mask of the threads that know that `phase` of the barrier of `cta` is complete."""
        cta_of = self.lanes.full["chunk_cta"]
        result = np.zeros(positions.size, bool)
        if barrier in self.known:
            result |= (cta_of[positions] == cta) & (self.known[barrier][positions] >= phase)
        for x in reversed(self.waiters.of.get(barrier, [])):
            if x.phase < phase or x.expects:
                continue
            here = x.positions[cta_of[x.positions] == cta]
            # mostly, threads know of whole warps
            for some in (here[np.flatnonzero(np.diff(here // WARP, prepend=-1))], here):
                left = np.flatnonzero(~result)
                if not left.size:
                    return result
                result[left] = self.order.known(some, x.event, positions[left]).any(axis=0)
        return result | self.knows_arrivals(barrier, cta, phase, positions)

    def knows_arrivals(self, barrier: MBarrier, cta: int, phase: int, positions: Index) -> NDArray[np.bool_]:
        """Return a mask of the threads that know of all arrivals that have completed a phase without bytes."""
        result = np.full(positions.size, bool(barrier.got_bytes[phase % 3, cta] != phase))
        for x in barrier.arrivals:
            arrived = x.positions[(x.ctas == cta) & (x.phases == phase)]
            if arrived.size and result.any():
                result &= self.order.known(arrived, x.event, positions).all(axis=0)
        return result

    def report(
        self, barrier: MBarrier, cta: int, phase: int, late: Index, pc: int, what: str, otherwise: str
    ) -> None:
        last = barrier.last_arrival(cta)
        self.findings.add(
            "barrier", f"{what} of {barrier.name}", pc, last[0] if last else None, self.lanes.numbers(late),
            late.size, hint="wait for each phase in turn, or for something that happens after it",
            then=f"with nothing that orders this after the end of phase {phase - 1}: in another order, {otherwise}",
        )

    def forget(self, barrier: MBarrier, ctas: Index) -> None:
        """Drop what is known of the barriers of `ctas`, which are initialized again."""
        if barrier in self.known:
            self.known[barrier][np.isin(self.lanes.full["chunk_cta"], ctas)] = -1
        for key in [x for x in self.known_afar if x[0] is barrier and x[1] in ctas]:
            del self.known_afar[key]
