"""Checks of the memory accesses of bulk copies, TMA and wgmma.

When an operation is issued, earlier writes to its source and accesses to its target must be ordered before its issuers,
and visible to the asynchronous proxy: after those by ordinary instructions, a fence.proxy.async is needed. From the
issue until the delivery, every access to the target is an error. Reads are recorded at issue, writes at delivery, as
accesses of an *agent*. One agent performs all copies that signal one barrier, all products of a warpgroup, or the reads
or the writes of all bulk stores of a thread. A wait orders the awaited accesses of an agent before the waiting threads.

source: PTX ISA, "Memory Consistency Model": "Proxies"; "Async proxy".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ...dataclass import dataclass
from ..machine.lanes import Index
from ..machine.operations import ByteSpan, Operations
from ..opcodes.memory import Site
from .access_findings import VERBS
from .clocks import GENERIC
from .order import Message
from .races import AccessChecker
from .records import ACTOR, BARRIER, FOREVER, HALF, IN_FLIGHT, KIND, ONE, SEVERAL, CellAccess, Record, Shadow, real


@dataclass(frozen=True, slots=True)
class Start:
    """The issue of an operation; `site` is one of its accesses."""

    #: the operation's name, for messages
    what: str
    #: positions of the issuing threads (wgmma: each warp's first and last); earlier accesses must happen before all
    issuers: Index
    site: Site
    #: False if earlier accesses by ordinary instructions need no proxy fence
    proxy: bool = True


class Agents:
    def __init__(self, checker: AccessChecker, operations: Operations) -> None:
        self.checker = checker
        self.order = checker.order
        self.report = checker.report
        self.report.operations = operations

    def read(self, spans: Sequence[ByteSpan], start: Start, agent: Hashable, cta: int) -> int:
        """Check the reads of an operation at its issue, and record them for `agent` of `cta`; return their event."""
        event = self.order.tick(start.site.pc)
        actor = self.record_of(agent, cta)
        for span in spans:
            shadow: Shadow = span.region.shadow
            self.examine(span, shadow.writes[span.cells], start, "wrote")
            me = np.full(span.cells.size, actor, np.uint64)
            self.checker.record_read(CellAccess(span.region, start.site, span.cells, me), ONE)
            shadow.agents = True
        return event

    def read_each(self, reads: Sequence[tuple[Sequence[ByteSpan], Start, Hashable, int]]) -> Index:
        # Checking the reads one by one makes a checked matrix product of 16 CTAs take 1.3 times as long.
        if all(len(spans) == 1 and spans[0].region is reads[0][0][0].region for spans, *_ in reads):
            region = reads[0][0][0].region
            shadow: Shadow = region.shadow
            cells = np.stack([spans[0].cells for spans, *_ in reads])
            issuers = np.stack([start.issuers for _, start, *_ in reads])
            if self.order.all_before_barrier(region.space, shadow.writes[cells], issuers):
                site = reads[0][1].site
                event = self.order.tick(site.pc)
                actor = np.array([self.record_of(agent, cta) for *_, agent, cta in reads], np.uint64)
                me = np.repeat(actor, cells.shape[1])
                self.checker.record_read(CellAccess(region, site, cells.reshape(-1), me), ONE)
                shadow.agents = True
                return np.full(len(reads), event)
        return np.array([self.read(*each) for each in reads])

    def write(self, spans: Sequence[ByteSpan], start: Start) -> None:
        """Check the target of an operation at its issue, and mark it as in flight until the delivery."""
        for span in spans:
            shadow: Shadow = span.region.shadow
            cells = span.cells
            self.examine(span, shadow.writes[cells], start, "wrote")
            for column in shadow.read_columns:
                reads = column[cells]
                if np.count_nonzero(reads):
                    self.examine(span, reads, start, "read")
                    column[cells] = 0
            shadow.mark(cells, IN_FLIGHT)
            shadow.agents = True

    def update(self, spans: Sequence[ByteSpan], start: Start, since: int = 0) -> None:
        """Check the target of a reduction at its issue and, for accesses after the event `since`, at the delivery.

        It isn't marked as in flight in between, because other reductions may also be in flight to it.
        """
        for span in spans:
            shadow: Shadow = span.region.shadow
            self.examine(span, shadow.writes[span.cells], start, "wrote", since)
            for column in shadow.read_columns:
                self.examine(span, column[span.cells], start, "read", since)
            shadow.wrote = FOREVER
            shadow.agents = True

    def land(self, spans: Sequence[ByteSpan], agent: Hashable, cta: int, pc: int) -> int:
        """Record the writes of an operation at its delivery; return the event."""
        event = self.order.tick(pc)
        stamp = np.uint64(event << 32 | self.record_of(agent, cta))
        clocks = self.order.need_clocks()
        for span in spans:
            span.region.shadow.writes[span.cells] = stamp
            if span.region.space != "shared":
                clocks.outer_agents.add(clocks.agent(agent))
        return event

    def news(self, agent: Hashable, cta: int, event: int, issued: Index | None = None) -> Message:
        """Return the message that a wait in `cta` for an agent's event acquires. issued: `self.issued` at the issue."""
        clocks = self.order.need_clocks()
        column = clocks.agent_column(agent, cta)
        rows = clocks.nothing()
        rows[GENERIC, cta, column] = event
        if issued is not None:
            rows[clocks.executed, cta, : issued.size] = issued
        return Message(rows, {})

    def issued(self, position: int) -> Index:
        """Return a row of the clocks: the events that the thread at `position` knows to have been executed."""
        return self.order.need_clocks().known_to(position, *self.order.starts())

    def waited(self, positions: Index, agent: Hashable, event: int) -> None:
        """Order an agent's events up to `event` before threads of one CTA that have waited for it."""
        cta = int(self.order.lanes.full["chunk_cta"][positions[0]])
        self.order.learn(positions, self.news(agent, cta, event))

    def is_known(self, agent: Hashable, cta: int, event: int) -> bool:
        clocks = self.order.need_clocks()
        return event <= clocks.latest_known(clocks.agent(agent), cta)

    def examine(self, span: ByteSpan, records: Record, start: Start, did: str, since: int = 0) -> None:
        """Report misuses of marked cells, and recorded accesses unordered or not visible to the asynchronous proxy.

        did: "wrote" or "read", what the recorded accesses did. They must be ordered before all issuers.
        since: if it isn't 0, only later accesses are examined; all of these are unordered.
        """
        # Most accesses precede a barrier; checking that first makes checked matrix products nearly twice as fast.
        if not since and self.order.all_before_barrier(span.region.space, records[None], start.issuers[None]):
            return
        marked = np.flatnonzero(records >= BARRIER)
        if marked.size:
            self.report.marks(self.access(span, start), records, marked)
        shadow: Shadow = span.region.shadow
        different, where = np.unique(records, return_index=True)
        known = real(different)
        different, where = different[known], where[known]
        several = (different & KIND) == SEVERAL
        if np.count_nonzero(several):
            # Of several threads that wrote equal values, one is examined, or none if they are no longer listed.
            different[several] = shadow.log.records[(different[several] & ACTOR).astype(np.int64)]
        single = (different & KIND) == 0
        if start.site.strong:
            # the atomic updates of others are no conflict
            pcs = self.order.pcs_of((different >> HALF).astype(np.int64))
            single &= ~(self.order.facts.strong[pcs] & self.order.facts.wide[pcs])
        single &= (different >> HALF).astype(np.int64) > since
        different, where = different[single], where[single]
        if not different.size:
            return
        issuers = self.order.lanes.full["gid"][start.issuers].astype(np.int64)
        actors = np.repeat((different & ACTOR).astype(np.int64), issuers.size)
        events = np.repeat((different >> HALF).astype(np.int64), issuers.size)
        by = np.tile(issuers, different.size)
        at = np.repeat(where, issuers.size)
        ordered = ((actors == by) | self.order.ordered(actors, events, by)) & (not since)
        wrong = np.flatnonzero(~ordered)
        if wrong.size:
            one = int(wrong[0])
            self.report_access(span, int(at[one]), int(actors[one]), int(events[one]), start, did)
        ask = np.flatnonzero(ordered & ~self.order.need_clocks().is_agent(actors))
        if not ask.size or not start.proxy:
            return
        ask = ask[self.order.near(self.order.home(actors[ask])[0], self.order.home(by[ask])[0])]
        hidden = ask[~self.order.seen_by_proxy(span.region.space, actors[ask], events[ask], by[ask])]
        if not hidden.size:
            return
        # Only warn if a CTA overwrites shared memory that its threads read before its last barrier, or the last barrier
        # of their warp: NVIDIA's libraries refill pipeline stages without a proxy fence.
        cta, warp = self.order.home(by[hidden])
        there, readers = self.order.home(actors[hidden])
        excused = (events[hidden] < self.order.cta_start[cta]) & (there == cta)
        excused |= (events[hidden] < self.order.warp_start[warp]) & (readers == warp)
        excused &= span.region.space == "shared" and (start.site.kind, did) == ("store", "read")
        for level, some in (("error", hidden[~excused]), ("warning", hidden[excused])):
            for one in some[:1]:
                self.report_access(span, int(at[one]), int(actors[one]), int(events[one]), start, did, level)

    def access(self, span: ByteSpan, start: Start) -> CellAccess:
        me = np.full(span.cells.size, self.order.lanes.full["gid"][start.issuers[0]], np.uint64)
        return CellAccess(span.region, start.site, span.cells, me)

    def record_of(self, agent: Hashable, cta: int) -> int:
        clocks = self.order.need_clocks()
        return clocks.agent_record(clocks.agent(agent), cta)

    def report_access(
        self, span: ByteSpan, at: int, actor: int, event: int, start: Start, did: str, hidden: str = ""
    ) -> None:
        """Report an earlier access by another actor. hidden: "", or the level if it is ordered but lacks a fence."""
        pc = int(self.order.pcs[event])
        access, threads = self.describe(span, at, start), self.order.lanes.numbers(start.issuers[:1])
        if self.order.is_agent(actor):
            self.report.add_unwaited(access, start.site.pc, pc, threads, did)
            return
        rule, hint, missing = "race", "put a barrier between the two accesses", "nothing that orders the two"
        if hidden:
            hint = "put fence.proxy.async after the access, before the barrier that orders the two"
            rule, missing = "in-flight", "no fence.proxy.async between the two"
        else:
            access = f"race in {span.region.space} memory: {access}"
        self.report.findings.add(
            rule, access, start.site.pc, pc, threads, hint=hint, level=hidden or "error",
            then=f"and {self.order.lanes.describe(actor)} {did} it, with {missing}",
        )

    def describe(self, span: ByteSpan, at: int, start: Start) -> str:
        thread = self.order.lanes.describe_position(int(start.issuers[0]))
        does, place = VERBS[start.site.kind], self.report.place(self.access(span, start), at)
        return f"{thread} starts a {start.what} that {does} {place}"
