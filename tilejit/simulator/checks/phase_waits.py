"""Check that each wait for a phase of an mbarrier returns for that phase, in any schedule.

A wait tests only the parity of a phase's number. Therefore, a thread that waits for phase n

- must know that phase n - 1 is complete. Otherwise the wait may return at once because phase n - 2 is complete.
- must have returned before phase n + 1 completes: its return must be ordered before an arrival in that phase.
  Otherwise it may hang.

Likewise, a thread that starts a copy whose bytes count for phase n must know that phase n - 1 is complete. Otherwise
they may count for that phase. An expect_tx in a phase must be ordered before an arrival in that phase. Otherwise the
phase may complete without the expected bytes.

A thread knows that a phase is complete if its own wait for this or a later phase has returned, or if it is ordered
after such a wait of another thread or, unless the phase got bytes, after all arrivals in the phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ..machine.lanes import WARP, Index
from ..machine.mbarrier import MBarrier
from .findings import Findings
from .order import HappensBefore, Message

#: the number of waits at a barrier up to which those that no longer matter aren't dropped
FEW = 4


@dataclass(frozen=True, slots=True)
class Passed:
    """Threads whose waits for phase number `phase` returned at event `event`, or that expected bytes in `phase` + 1."""

    phase: int
    pc: int
    event: int
    positions: Index
    #: for each thread, the event of the first election after its wait (0: none), and the position of the leader
    led: Index
    #: True for expect_tx
    expects: bool = False


class PhaseWaits:
    """The waits of a chunk's threads that have returned, and their expectations of bytes."""

    def __init__(self, order: HappensBefore, findings: Findings) -> None:
        self.order = order
        self.lanes = order.lanes
        self.findings = findings
        #: True if an instruction is `Ordering.relaxed`: then only late waits for phases of known numbers are reported
        self.relaxed = order.facts.relaxed
        #: the waits at each barrier; when waits are added, those for phase n may be dropped if phase n + 2 is complete
        self.passed: dict[MBarrier, list[Passed]] = {}
        #: the threads of each warp whose copies have arrived in the current phase
        self.copies: dict[MBarrier, list[Index]] = {}
        #: for each thread, the last phase of its CTA's barrier for which it has waited; initially -1
        self.known: dict[MBarrier, Index] = {}
        #: (barrier, its CTA, thread) → the last phase known to be complete when the thread started a copy
        self.known_afar: dict[tuple[MBarrier, int, int], int] = {}

    def wait(self, barrier: MBarrier, positions: Index, phases: Index, pc: int, kind: str, heeded: bool) -> None:
        """Check and record waits for complete `phases`, whose event is the last one.

        kind: as for `MBarriers.wait`. heeded: True if the waits order something.
        """
        if heeded and not self.relaxed:
            known = self.known.get(barrier)
            if known is None:
                known = self.known[barrier] = np.full(self.lanes.total, -1)
            ask = known[positions] < phases - 1
            # a state is that of the current phase or the one before
            if kind != "state" and np.count_nonzero(ask):
                self.check_early(barrier, positions[ask], phases[ask], pc)
            known[positions] = phases
        elif kind != "number":
            return
        self.note(barrier, positions, phases, pc)

    def note(self, barrier: MBarrier, positions: Index, phases: Index, pc: int, expects: bool = False) -> None:
        """Record waits for `phases`, or expectations of bytes in the phases after these, at the last event."""
        kept = self.passed.get(barrier, [])
        if len(kept) > FEW:
            cta_of = self.lanes.full["chunk_cta"]
            kept = [x for x in kept if np.count_nonzero(barrier.phase[cta_of[x.positions]] < x.phase + 3)]
        self.passed[barrier] = kept
        for n in sorted(set(phases.tolist())):
            here = positions[phases == n]
            kept.append(Passed(n, pc, self.order.event, here, np.zeros((2, here.size), np.int64), expects))

    def note_led(self, leader: Any, pc: int) -> None:
        """Record that the executing lanes have elected `leader`, a lane of their warp, which may arrive for them."""
        if not any(self.passed.values()):
            return
        positions = self.lanes.positions()
        elected = np.zeros((2, self.lanes.total), np.int64)
        elected[0, positions] = self.order.tick(pc)
        elected[1, positions] = positions - self.lanes.get("lane") + leader
        for kept in self.passed.values():
            for x in kept:
                fresh = x.led[0] == 0
                x.led[:, fresh] = elected[:, x.positions[fresh]]

    def arrived(self, barrier: MBarrier, positions: Index) -> None:
        """Record that copies of threads of one warp have arrived at a barrier, by cp.async.mbarrier.arrive."""
        self.copies.setdefault(barrier, []).append(positions)

    def check_early(self, barrier: MBarrier, positions: Index, phases: Index, pc: int) -> None:
        ctas = self.lanes.full["chunk_cta"][positions]
        for cta, phase in sorted(set(zip(ctas.tolist(), phases.tolist(), strict=True))):
            here = positions[(ctas == cta) & (phases == phase)]
            early = here[~self.knows(barrier, cta, phase - 1, here)]
            if early.size:
                what = f"{self.lanes.party(early)} waited for phase {phase}"
                otherwise = "this wait could return before its phase is complete"
                self.report_early(barrier, cta, phase, early, pc, what, otherwise)

    def start_copy(self, barrier: MBarrier, cta: int, position: int, pc: int, phase: int) -> None:
        """Check that a thread whose copy signals `phase` of a barrier knows that the phase before is complete."""
        key = barrier, cta, position
        if self.relaxed or not phase or self.known_afar.get(key, -1) >= phase - 1:
            return
        self.known_afar[key] = phase - 1
        if not self.knows(barrier, cta, phase - 1, np.array([position])).all():
            self.report_copy(barrier, cta, position, pc, phase)

    def report_copy(self, barrier: MBarrier, cta: int, position: int, pc: int, phase: int) -> None:
        what = f"{self.lanes.describe_position(position)} started a copy whose bytes count for phase {phase}"
        self.report_early(barrier, cta, phase, np.array([position]), pc, what, "they could count for that phase")

    def knows(self, barrier: MBarrier, cta: int, phase: int, positions: Index) -> NDArray[np.bool_]:
        """Return a mask of the threads that know that `phase` of the barrier of `cta` is complete."""
        cta_of = self.lanes.full["chunk_cta"]
        result = np.zeros(positions.size, bool)
        if barrier in self.known:
            result |= (cta_of[positions] == cta) & (self.known[barrier][positions] >= phase)
        for x in reversed(self.passed.get(barrier, [])):
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

    def report_early(
        self, barrier: MBarrier, cta: int, phase: int, early: Index, pc: int, what: str, otherwise: str
    ) -> None:
        then = f"with nothing that orders this after the end of phase {phase - 1}: in another order, {otherwise}"
        hint = "wait for each phase in turn, or for something that happens after it"
        self.report(barrier, cta, early, pc, f"{what} of {barrier.name}", then, hint)

    def end(self, barrier: MBarrier, coming: Message | None, ctas: Index) -> None:
        """Report waits that aren't ordered before any arrival in the next phase of their barrier.

        coming: the message that these arrivals release. ctas: CTAs in which a phase of the barrier has just completed.
        """
        if coming is None and self.relaxed:
            return
        message = coming or self.order.nothing()
        cta_of = self.lanes.full["chunk_cta"]
        done = np.zeros(barrier.live.size, bool)
        done[ctas] = True
        ended = [n - 2 for n in barrier.phase[ctas].tolist()]
        for x in self.passed.get(barrier, ()):
            if x.phase not in ended:
                continue
            late = (done & (barrier.phase == x.phase + 2))[cta_of[x.positions]].nonzero()[0]
            late = late[~self.order.includes(message, x.positions[late], x.event)]
            if not late.size:
                continue
            elections, leaders = x.led[:, late]
            late = late[(elections == 0) | ~self.order.includes(message, leaders, elections)]
            for positions in self.copies.get(barrier, ()):
                late = late[~self.order.known(x.positions[late], x.event, positions).any(axis=1)]
            if late.size:
                self.report_late(barrier, x, x.positions[late])
        if barrier in self.copies:
            self.copies[barrier] = [x for x in self.copies[barrier] if not done[cta_of[x[0]]]]

    def report_late(self, barrier: MBarrier, passed: Passed, late: Index) -> None:
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
        self.report(barrier, int(self.lanes.full["chunk_cta"][late[0]]), late, passed.pc, what, then, hint)

    def report(self, barrier: MBarrier, cta: int, wrong: Index, pc: int, what: str, then: str, hint: str) -> None:
        last = barrier.last_arrival(cta)
        self.findings.add(
            "barrier", what, pc, last[0] if last else None, self.lanes.numbers(wrong), wrong.size, hint=hint, then=then
        )

    def forget(self, barrier: MBarrier, ctas: Index) -> None:
        """Drop what is known of the barriers of `ctas`, which are initialized again."""
        cta_of = self.lanes.full["chunk_cta"]
        if barrier in self.known:
            self.known[barrier][np.isin(cta_of, ctas)] = -1
        for key in [x for x in self.known_afar if x[0] is barrier and x[1] in ctas]:
            del self.known_afar[key]
        for x in self.passed.pop(barrier, ()):
            stays = ~np.isin(cta_of[x.positions], ctas)
            fewer = replace(x, positions=x.positions[stays], led=x.led[:, stays])
            self.passed.setdefault(barrier, []).append(fewer)
