"""Check that the phase of each arrival at a barrier doesn't depend on the schedule.

The other warps' arrivals for the previous phase must happen before a warp's arrival for the next one. Otherwise that
arrival could complete the previous phase in place of a late one, and waiters would hang. At a named barrier every warp
is checked. At an mbarrier, a phase may expect several arrivals from one thread, so a warp that did not arrive in the
previous phase is checked only against warps that arrived in it more than once.

Arrivals of one warp at the same barrier in several CTAs of a cluster count as one, at the time of the first: a consumer
of a ring that several CTAs fill arrives at the barrier of each. Another warp that is ordered after the first of these
arrivals may arrive again before the others, in place of one of them. That is harmless: the late warp has finished its
step, each phase still gets its number of arrivals, and no warp gets two steps ahead.
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ..machine.lanes import Index
from .findings import Findings
from .order import HappensBefore


@dataclass(frozen=True, slots=True)
class First:
    """The first arrival of a warp in a phase."""

    #: the event of this arrival or, if several arrivals count as one, of the first of them
    event: int
    #: the arriving thread
    position: int
    #: True if the warp has arrived in this phase by more than one executed instruction
    again: bool = False


class PhaseOrder:
    """The arrivals at one barrier of each CTA of a chunk."""

    def __init__(self, order: HappensBefore, findings: Findings, any_warp: bool) -> None:
        """any_warp: also check warps without an arrival in the last phase against warps with a single one."""
        self.order = order
        self.findings = findings
        self.lanes = order.lanes
        self.any_warp = any_warp
        #: by CTA and warp, the arrivals in the current phase and in the last complete one
        self.now: list[dict[int, First]] = [{} for _ in range(self.lanes.ctas)]
        self.before: list[dict[int, First]] = [{} for _ in self.now]
        #: by CTA, the warps whose wait for the last complete phase has returned
        self.knows: list[set[int]] = [set() for _ in self.now]
        #: warp → (event of the first of its latest arrivals that count as one, the CTAs of these arrivals)
        self.reached: dict[int, tuple[int, set[int]]] = {}

    def arrive(self, name: str, positions: Index, ctas: Index, pc: int) -> None:
        """Check and record arrivals of threads, in ascending order of warps, at the barriers of CTAs."""
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
        for cta, warp in set(zip(ctas.tolist(), self.lanes.full["chunk_warp"][positions].tolist(), strict=True)):
            self.knows[cta].add(warp)

    def end(self, ctas: Index) -> None:
        for cta in ctas.tolist():
            self.before[cta], self.now[cta], self.knows[cta] = self.now[cta], {}, set()

    def forget(self, ctas: Index) -> None:
        """Drop the arrivals at the barriers of `ctas`. All later arrivals must be ordered after the dropped ones."""
        for cta in ctas.tolist():
            self.before[cta], self.now[cta] = {}, {}

    def check(self, name: str, positions: Index, asked: list[tuple[int, int, First]], pc: int) -> None:
        """Report a warp whose arrival isn't ordered after another warp's arrival in the last complete phase.

        The reverse order is correct, too: the other warp knows that this arrival has happened.
        asked: (arriving thread, event of the first arrival that counts as one with this one, the other's arrival).
        """
        late, events, by = np.array([(x.position, x.event, position) for position, _, x in asked]).T
        warp_of = self.lanes.full["chunk_warp"]
        for k in np.flatnonzero(~self.order.has_happened(late, events, by)).tolist():
            position, start, first = asked[k]
            mine, others = warp_of == warp_of[position], np.flatnonzero(warp_of == warp_of[first.position])
            lanes = positions[mine[positions]]
            if self.order.known(others, first.event, lanes).any():
                continue
            if self.order.known(np.flatnonzero(mine), start, others).any():
                continue
            self.report(name, lanes, pc, first.position, first.event)
            return

    def report(self, name: str, positions: Index, pc: int, late: int, event: int) -> None:
        other = self.lanes.describe_position(late)
        self.findings.add(
            "barrier", f"the arrival of {self.lanes.party(positions)} at {name}", pc, int(self.order.pcs[event]),
            self.lanes.numbers(positions), positions.size, hint=HINT,
            then=f"isn't ordered after the end of the barrier's last phase, for which {other} arrived",
            more="\nin another order, it would count for that phase, and a late thread would hang",
        )


HINT = "between two arrivals, wait for the phase or for something that happens after it"
