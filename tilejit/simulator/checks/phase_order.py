"""Arrivals at barriers whose phase depends on the order of threads.

A warp that arrives for a phase must know that the other warps have arrived for the phase before. Else its arrival can
complete that phase in place of a late one, and waiters hang, even if none does in this run. Several arrivals of one
warp in one phase of an mbarrier are right if the phase expects them; a named barrier expects one of each thread.

Arrivals of a warp at the barriers that the CTAs of a cluster have at one address count as one arrival, made with the
first of them: a consumer of a ring that CTAs fill together arrives at the barrier of each. Another warp that knows of
one of these may arrive again before the rest have come, in place of one of them. That is harmless: the late warp has
finished its step, each phase still gets its number of arrivals, and no warp gets a second step ahead of it.
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ..machine.lanes import Index
from .findings import Findings
from .order import HappensBefore


@dataclass(frozen=True, slots=True)
class First:
    """The first arrival of a warp in a phase. again: it has arrived once more in this phase.

    position: the thread that made it. event: if it counts as one with earlier arrivals, that of the first of these.
    """

    event: int
    position: int
    again: bool = False


class PhaseOrder:
    """The arrivals at one barrier of each CTA of a chunk.

    now, before: by CTA, the arrivals of warps in the current phase and in the last complete one.
    knows: by CTA, the warps that have found the last phase complete by a wait.
    reached: by warp, the event of the first of its arrivals that count as one, and the CTAs at which they are.
    """

    def __init__(self, order: HappensBefore, findings: Findings, any_warp: bool) -> None:
        """any_warp: also check warps that arrive for the first time, after others that have arrived once."""
        self.order = order
        self.findings = findings
        self.lanes = order.lanes
        self.any_warp = any_warp
        self.now: list[dict[int, First]] = [{} for _ in range(self.lanes.ctas)]
        self.before: list[dict[int, First]] = [{} for _ in self.now]
        self.knows: list[set[int]] = [set() for _ in self.now]
        self.reached: dict[int, tuple[int, set[int]]] = {}

    def arrive(self, name: str, positions: Index, ctas: Index, pc: int) -> None:
        """Check and record arrivals of threads at the barriers of CTAs, in ascending order of warps."""
        event = self.order.tick(pc)
        asked: list[tuple[int, int, First]] = []
        warp = -1
        warps = self.lanes.full["chunk_warp"][positions].tolist()
        for position, cta, own in zip(positions.tolist(), ctas.tolist(), warps, strict=True):
            if own == warp:
                continue
            warp, now, before = own, self.now[cta], self.before[cta]
            start = event if self.lanes.ranks == 1 else self.start(warp, cta, event)
            if warp not in self.knows[cta]:
                every = self.any_warp or warp in before
                asked += [(position, start, x) for w, x in before.items() if w != warp and (every or x.again)]
            first = now.get(warp)
            now[warp] = First(start, position) if first is None else First(first.event, first.position, True)
        if asked:
            self.check(name, positions, asked, pc)

    def start(self, warp: int, cta: int, event: int) -> int:
        """Return the event of the first arrival of a warp that counts as one with its arrival at a CTA's barrier."""
        start, ctas = self.reached.get(warp, (event, set()))
        if cta in ctas:
            start, ctas = event, set()
        ctas.add(cta)
        self.reached[warp] = start, ctas
        return start

    def passed(self, positions: Index, ctas: Index) -> None:
        """Threads have found the last phase complete."""
        for cta, warp in set(zip(ctas.tolist(), self.lanes.full["chunk_warp"][positions].tolist(), strict=True)):
            self.knows[cta].add(warp)

    def end(self, ctas: Index) -> None:
        """The current phase of the barriers of CTAs is complete."""
        for cta in ctas.tolist():
            self.before[cta], self.now[cta], self.knows[cta] = self.now[cta], {}, set()

    def forget(self, ctas: Index) -> None:
        """All that follows is ordered after the arrivals at the barriers of CTAs."""
        for cta in ctas.tolist():
            self.before[cta], self.now[cta] = {}, {}

    def check(self, name: str, positions: Index, asked: list[tuple[int, int, First]], pc: int) -> None:
        """Report a warp that doesn't know of another's arrival in the last phase, if either has arrived again.

        A warp that isn't in the last phase has arrived late for it if another has arrived there again. Then it is
        enough that the other one knows of it.
        asked: (thread that arrives, event of the first arrival that counts as one with this one, the other's arrival).
        """
        late, events, by = np.array([(x.position, x.event, position) for position, _, x in asked]).T
        warp_of = self.lanes.full["chunk_warp"]
        for k in np.flatnonzero(~self.order.has_happened(late, events, by)).tolist():
            position, start, first = asked[k]
            mine, others = warp_of == warp_of[position], np.flatnonzero(warp_of == warp_of[first.position])
            lanes = positions[mine[positions]]
            if self.any_knows(others, first.event, lanes) or self.any_knows(np.flatnonzero(mine), start, others):
                continue
            self.report(name, lanes, pc, first.position, first.event)
            return

    def any_knows(self, late: Index, event: int, by: Index) -> bool:
        """True if one of the threads `by` knows that one of the threads `late` has come to an event."""
        who = np.repeat(late, by.size)
        return bool(self.order.has_happened(who, np.full(who.size, event), np.tile(by, late.size)).any())

    def report(self, name: str, positions: Index, pc: int, late: int, event: int) -> None:
        """Report threads that arrive for a phase though nothing orders that after a late thread's arrival."""
        places, other_pc = self.findings.places, int(self.order.pcs[event])
        self.findings.add(
            "barrier",
            f"{self.lanes.party(positions)} arrives at {name}\n  {places.describe(pc)}\n"
            f"and nothing orders that after the end of its last phase, for which {self.lanes.describe_position(late)} "
            f"arrived\n  {places.describe(other_pc)}\n"
            "in another order the arrival counts for that phase, and a thread who lags waits for ever",
            pc, other_pc, self.lanes.numbers(positions), positions.size, hint=HINT,
        )


HINT = "between two arrivals, wait for the phase or for something that happens after it"
