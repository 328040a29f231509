"""Who has passed a wait, and must have before the barrier's parity comes back: else one that lags waits for ever.

An mbarrier shows a phase's number by its lowest bit. So who waits for phase n must have passed before phase n + 1
completes, whether or not it lags here: its passing must be ordered in front of an arrival in that phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ..machine.lanes import Index, Lanes
from ..machine.mbarrier import MBarrier
from .findings import Findings
from .order import HappensBefore, Message
from .places import PtxPlaces


@dataclass(frozen=True, slots=True)
class Passed:
    """Threads that found a phase complete, asked for by its number, at an event.

    leaders: who was the first to lead each of them after that, -1 for nobody; led: the event of that.
    """

    phase: int
    pc: int
    event: int
    positions: Index
    leaders: Index
    led: Index


class Laggards:
    """The threads of a chunk that have passed waits which are asked for by number. of: by barrier, while it matters."""

    def __init__(self, order: HappensBefore, lanes: Lanes, places: PtxPlaces, findings: Findings) -> None:
        self.order = order
        self.lanes = lanes
        self.places = places
        self.findings = findings
        self.of: dict[MBarrier, list[Passed]] = {}

    def note(self, barrier: MBarrier, threads: Index, asked: Index, pc: int) -> None:
        """Executing threads have found the phases complete that each has asked for by its number."""
        if not threads.size:
            return
        event = self.order.tick(pc)
        positions = self.lanes.positions()[threads]
        cta_of = self.lanes.full["chunk_cta"]
        before = self.of.get(barrier, [])
        kept = self.of[barrier] = [x for x in before if (barrier.phase[cta_of[x.positions]] < x.phase + 2).any()]
        for n in fast_unique(asked).tolist():
            who = positions[asked == n]
            kept.append(Passed(n, pc, event, who, np.full(who.size, -1), np.zeros(who.size, np.int64)))

    def note_led(self, leader: Any, pc: int) -> None:
        """Executing lanes have come together: that all have passed their waits is now known of whoever leads them."""
        if not any(self.of.values()):
            return
        positions, event = self.lanes.positions(), self.order.tick(pc)
        leader_of = np.full(self.lanes.total, -1)
        leader_of[positions] = positions - self.lanes.get("lane") + leader
        for x in (x for kept in self.of.values() for x in kept):
            fresh = (x.leaders < 0) & (leader_of[x.positions] >= 0)
            x.leaders[fresh], x.led[fresh] = leader_of[x.positions[fresh]], event

    def check(self, barrier: MBarrier, coming: Message, ctas: Index) -> None:
        """Who waits for phase n must have passed before phase n + 1 completes: then the parity is what it was.

        Else a thread that lags waits for ever, even if none did here.
        """
        cta_of = self.lanes.full["chunk_cta"]
        done = np.zeros(barrier.live.size, bool)
        done[ctas] = True
        for x in self.of.get(barrier, []):
            late = np.flatnonzero((done & (barrier.phase == x.phase + 2))[cta_of[x.positions]])
            if late.size:
                late = late[~self.order.tells(coming, x.positions[late], x.event)]
            led = late[x.leaders[late] >= 0]
            if led.size:
                told = [bool(self.order.tells(coming, x.leaders[k : k + 1], int(x.led[k]))[0]) for k in led.tolist()]
                late = np.setdiff1d(late, led[told])
            if late.size:
                self.report(barrier, x, x.positions[late])

    def report(self, barrier: MBarrier, passed: Passed, late: Index) -> None:
        cta = int(self.lanes.full["chunk_cta"][late[0]])
        last = [x.pc for x in barrier.arrivals if (x.ctas == cta).any()][-1:]
        after = "".join(f"\n  {self.places.describe(pc)}" for pc in last)
        n = passed.phase
        self.findings.add(
            "barrier",
            f"{self.lanes.party(late)} passed the wait for phase {n} of {barrier.name}\n"
            f"  {self.places.describe(passed.pc)}\n"
            f"and phase {n + 1} completed, with nothing that orders the two: who lags waits for ever{after}",
            passed.pc, last[0] if last else None, self.lanes.numbers(late), late.size,
            hint="let those who have waited synchronise before one of them arrives for all",
        )
