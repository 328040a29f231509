"""Check that no thread misses a phase of an mbarrier, in any schedule.

A wait tests only the parity of a phase's number. A waiter for phase n must therefore have returned before phase n + 1
completes: its return must be ordered before an arrival in that phase. Otherwise it may hang. Likewise, an expect_tx in
a phase must be ordered before an arrival in that phase. Otherwise the phase may complete without the expected bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dataclass import dataclass, replace
from ...fast_unique import fast_unique
from ..machine.lanes import Index
from ..machine.mbarrier import MBarrier
from .findings import Findings
from .order import HappensBefore, Message


@dataclass(frozen=True, slots=True)
class Passed:
    """Threads whose waits for phase number `phase` returned at event `event`, or that expected bytes in `phase` + 1."""

    phase: int
    pc: int
    event: int
    positions: Index
    #: the position of the leader of each thread's first election after its wait (-1: none), and the election's event
    leaders: Index
    led: Index
    #: True for expect_tx
    expects: bool = False


class LateWaiters:
    """The waits of a chunk's threads that have returned, and their expectations of bytes."""

    def __init__(self, order: HappensBefore, findings: Findings) -> None:
        self.order = order
        self.lanes = order.lanes
        self.findings = findings
        #: the waits at each barrier; when waits are added, those for phase n are dropped if phase n + 2 is complete
        self.of: dict[MBarrier, list[Passed]] = {}
        #: the threads of each warp whose copies have arrived in the current phase
        self.copies: dict[MBarrier, list[Index]] = {}

    def note(self, barrier: MBarrier, threads: Index, asked: Index, pc: int, expects: bool = False) -> None:
        """Record that waits have returned, at the last event. threads: indices into the executing threads.

        asked: the awaited phases. expects: True if the threads have executed expect_tx in the phases after `asked`.
        """
        event = self.order.event
        positions = self.lanes.positions()[threads]
        cta_of = self.lanes.full["chunk_cta"]
        before = self.of.get(barrier, ())
        kept = [x for x in before if np.count_nonzero(barrier.phase[cta_of[x.positions]] < x.phase + 3)]
        self.of[barrier] = kept
        for n in fast_unique(asked).tolist():
            passed = positions[asked == n]
            leaders, led = np.full(passed.size, -1), np.zeros(passed.size, np.int64)
            kept.append(Passed(n, pc, event, passed, leaders, led, expects))

    def note_led(self, leader: Any, pc: int) -> None:
        """Record that the executing lanes have elected `leader`, a lane of their warp, which may arrive for them."""
        if not any(self.of.values()):
            return
        positions, event = self.lanes.positions(), self.order.tick(pc)
        leader_of = np.full(self.lanes.total, -1)
        leader_of[positions] = positions - self.lanes.get("lane") + leader
        for kept in self.of.values():
            for x in kept:
                fresh = (x.leaders < 0) & (leader_of[x.positions] >= 0)
                x.leaders[fresh], x.led[fresh] = leader_of[x.positions[fresh]], event

    def arrived(self, barrier: MBarrier, positions: Index) -> None:
        """Record that copies of threads of one warp have arrived at a barrier, by cp.async.mbarrier.arrive."""
        self.copies.setdefault(barrier, []).append(positions)

    def check(self, barrier: MBarrier, coming: Message, ctas: Index) -> None:
        """Report waits that aren't ordered before any arrival in the next phase of their barrier.

        coming: the message that these arrivals release. ctas: CTAs in which a phase of the barrier has just completed.
        """
        cta_of = self.lanes.full["chunk_cta"]
        done = np.zeros(barrier.live.size, bool)
        done[ctas] = True
        ended = [n - 2 for n in barrier.phase[ctas].tolist()]
        for x in self.of.get(barrier, ()):
            if x.phase not in ended:
                continue
            late = np.flatnonzero((done & (barrier.phase == x.phase + 2))[cta_of[x.positions]])
            if late.size:
                late = late[~self.order.includes(coming, x.positions[late], x.event)]
            led = late[x.leaders[late] >= 0]
            if led.size:
                late = np.setdiff1d(late, led[self.order.includes(coming, x.leaders[led], x.led[led])])
            for positions in self.copies.get(barrier, ()) if late.size else ():
                late = late[~self.order.known(x.positions[late], x.event, positions).any(axis=1)]
            if late.size:
                self.report(barrier, x, x.positions[late])
        if barrier in self.copies:
            self.copies[barrier] = [x for x in self.copies[barrier] if not done[cta_of[x[0]]]]

    def report(self, barrier: MBarrier, passed: Passed, late: Index) -> None:
        cta = int(self.lanes.full["chunk_cta"][late[0]])
        last = barrier.last_arrival(cta)
        n, party = passed.phase, self.lanes.party(late)
        what = f"{party} passed the wait for phase {n} of {barrier.name}"
        if n < 0:
            what = f"{party} passed a wait at {barrier.name} during phase 0"
        then = f"and phase {n + 1} completed, with nothing that orders the two: a late waiter would hang"
        hint = "synchronize the threads after their waits, before one of them arrives for all"
        if passed.expects:
            what = f"{party} expected bytes in phase {n + 1} of {barrier.name}"
            then = "with nothing that orders this before an arrival in that phase: it could complete without the bytes"
            hint = "start the copy before the last arrival of its phase, or expect the bytes by .arrive.expect_tx"
        self.findings.add(
            "barrier", what, passed.pc, last[0] if last else None, self.lanes.numbers(late), late.size, hint=hint,
            then=then,
        )

    def forget(self, barrier: MBarrier, ctas: Index) -> None:
        """Drop the records of the barriers of `ctas`, which are initialized again."""
        before = self.of.pop(barrier, ())
        for x in before:
            stays = ~np.isin(self.lanes.full["chunk_cta"][x.positions], ctas)
            parts = {name: getattr(x, name)[stays] for name in ("positions", "leaders", "led")}
            self.of.setdefault(barrier, []).append(replace(x, **parts))
