"""Arrivals at barriers whose phase depends on the order of threads.

A thread that arrives for a phase must know that the phase before is complete. Else its arrival can complete that phase
in place of a thread that is late, and waiters hang, even if none does in this run. Several arrivals of one thread in
one phase of an mbarrier are right if the phase expects them; a named barrier expects one of each thread.
"""

from __future__ import annotations

import numpy as np

from ...distinct import distinct
from ..machine.lanes import Index
from .findings import Findings
from .order import Order


class Turns:
    """The arrivals at one barrier of each CTA of a chunk. Rows are CTAs, columns the threads of their clusters.

    now, before: the events of arrivals in the current phase and in the last complete one, 0 for none.
    times: how often each thread has arrived. knows: threads that have found the last phase complete by a wait.
    """

    def __init__(self, order: Order, findings: Findings, any_thread: bool) -> None:
        """any_thread: also check threads that arrive for the first time, after others that have arrived once."""
        self.order = order
        self.findings = findings
        self.lanes = order.lanes
        self.size = self.lanes.ranks * self.lanes.threads
        self.any_thread = any_thread
        self.now, self.before, self.times = np.zeros((3, self.lanes.ctas, self.size), np.int64)
        self.knows = np.zeros(self.now.shape, bool)

    def arrive(self, name: str, positions: Index, ctas: Index, pc: int) -> None:
        """Check and record arrivals of threads at the barriers of CTAs, in ascending order of warps."""
        inside = positions % self.size
        ask = np.flatnonzero(~self.knows[ctas, inside])
        if ask.size:
            self.check(name, positions[ask], ctas[ask], pc)
        self.now[ctas, inside] = self.order.tick(pc)
        self.times[ctas, inside] += 1

    def passed(self, positions: Index, ctas: Index) -> None:
        """Threads have found the last phase complete."""
        self.knows[ctas, positions % self.size] = True

    def end(self, ctas: Index) -> None:
        """The current phase of the barriers of CTAs is complete."""
        self.before[ctas] = self.now[ctas]
        self.now[ctas] = 0
        self.knows[ctas] = False

    def forget(self, ctas: Index) -> None:
        """All that follows is ordered after the arrivals at the barriers of CTAs."""
        for each in (self.now, self.before, self.times):
            each[ctas] = 0

    def check(self, name: str, positions: Index, ctas: Index, pc: int) -> None:
        """Report a warp's threads that don't know of an arrival in the last phase, if either has arrived twice.

        The lanes of a warp arrive together: it is enough that one of them knows, of one lane of the other warp.
        """
        homes = distinct(ctas) if ctas.size > 1 else ctas
        row, inside = np.nonzero(self.before[homes])
        if not row.size:
            return
        warp_of = self.lanes.full["chunk_warp"]
        late = homes[row] * self.lanes.threads // self.size * self.size + inside
        first = starts(row * self.order.need_clocks().warp_sizes.size + warp_of[late])
        late, late_cta, events = late[first], homes[row[first]], self.before[homes[row[first]], inside[first]]
        warps = warp_of[positions]
        first = starts(warps)
        repeats = self.any_thread | (self.times[ctas[first], positions[first] % self.size] > 0)[:, None]
        repeats = repeats | (self.times[late_cta, late % self.size] > 1)
        by, other = np.nonzero(repeats & (ctas[first, None] == late_cta) & (warps[first, None] != warp_of[late]))
        if not by.size:
            return
        known = self.order.has_happened(late[other], events[other], positions[first[by]])
        for pair in np.flatnonzero(~known).tolist():
            lanes = positions[warps == warps[first[by[pair]]]]
            again = np.repeat(late[other[pair]], lanes.size), np.repeat(events[other[pair]], lanes.size)
            if not self.order.has_happened(*again, lanes).any():
                self.report(name, lanes, pc, int(late[other[pair]]), int(events[other[pair]]))
                return

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


def starts(values: Index) -> Index:
    """Return where runs of equal values begin."""
    begins = np.ones(values.size, bool)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return np.flatnonzero(begins)


HINT = "between two arrivals, wait for the phase or for something that happens after it"
