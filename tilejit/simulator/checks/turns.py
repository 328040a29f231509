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

from ..machine.lanes import Index
from .findings import Findings
from .order import Order


class Turns:
    """The arrivals at one barrier of each CTA of a chunk. Rows are CTAs, columns the warps of their clusters.

    now, before: the event of each warp's first arrival in the current phase and in the last complete one, 0 for none;
    now_by, by: the position of the thread that made it.
    several: warps that have arrived more than once in the current phase; several_before: in the last complete one.
    knows: warps that have found the last phase complete by a wait.
    start: of each warp of the chunk, the first of its arrivals that count as one; last: its last arrival at each CTA.
    """

    def __init__(self, order: Order, findings: Findings, any_warp: bool) -> None:
        """any_warp: also check warps that arrive for the first time, after others that have arrived once."""
        self.order = order
        self.findings = findings
        self.lanes = order.lanes
        self.any_warp = any_warp
        self.columns = self.lanes.ranks * self.lanes.warps_per_cta
        self.now, self.before, self.now_by, self.by, self.last = np.zeros((5, self.lanes.ctas, self.columns), np.int64)
        self.several, self.several_before, self.knows = np.zeros((3, *self.now.shape), bool)
        self.start = np.zeros(self.lanes.ctas * self.lanes.warps_per_cta, np.int64)

    def arrive(self, name: str, positions: Index, ctas: Index, pc: int) -> None:
        """Check and record arrivals of threads at the barriers of CTAs, in ascending order of warps."""
        warps = self.lanes.full["chunk_warp"][positions]
        if warps.size > 1:
            first = np.flatnonzero(np.diff(warps, prepend=-1))
            leaders, ctas, warps = positions[first], ctas[first], warps[first]
        else:
            leaders = positions
        at = ctas, warps % self.columns
        event = self.order.tick(pc)
        start = self.start[warps]
        start[self.last[at] >= start] = event
        self.start[warps], self.last[at] = start, event
        now = self.now[at]
        if not self.knows[at].all():
            self.check(name, positions, leaders, at, pc)
        self.several[at] = now > 0
        self.now[at] = np.where(now > 0, now, start)
        self.now_by[at] = np.where(now > 0, self.now_by[at], leaders)

    def passed(self, positions: Index, ctas: Index) -> None:
        """Threads have found the last phase complete."""
        self.knows[ctas, self.lanes.full["chunk_warp"][positions] % self.columns] = True

    def end(self, ctas: Index) -> None:
        """The current phase of the barriers of CTAs is complete."""
        self.before[ctas], self.by[ctas] = self.now[ctas], self.now_by[ctas]
        self.several_before[ctas] = self.several[ctas]
        self.now[ctas] = 0
        self.several[ctas] = self.knows[ctas] = False

    def forget(self, ctas: Index) -> None:
        """All that follows is ordered after the arrivals at the barriers of CTAs."""
        self.now[ctas] = self.before[ctas] = 0
        self.several[ctas] = self.several_before[ctas] = False

    def check(self, name: str, positions: Index, leaders: Index, at: tuple[Index, Index], pc: int) -> None:
        """Report a warp that doesn't know of another's arrival in the last phase, if either has arrived again.

        A warp that isn't in the last phase has arrived late for it if another has arrived there again. Then it is
        enough that the other one knows of it.
        """
        before = self.before[at[0]]
        pairs = before > 0
        pairs[np.arange(leaders.size), at[1]] = False
        pairs[self.knows[at]] = False
        if not self.any_warp:
            pairs &= (self.before[at] > 0)[:, None] | self.several_before[at[0]]
        i, column = np.nonzero(pairs)
        if not i.size:
            return
        late, events = self.by[at[0][i], column], before[i, column]
        warp_of = self.lanes.full["chunk_warp"]
        for k in np.flatnonzero(~self.order.has_happened(late, events, leaders[i])).tolist():
            mine, other = warp_of[leaders[i[k]]], warp_of[late[k]]
            lanes, others = positions[warp_of[positions] == mine], np.flatnonzero(warp_of == other)
            if self.any_knows(others, events[k], lanes):
                continue
            if not self.any_knows(np.flatnonzero(warp_of == mine), self.start[mine], others):
                self.report(name, lanes, pc, int(late[k]), int(events[k]))
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
