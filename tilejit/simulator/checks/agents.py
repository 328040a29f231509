"""What asynchronous operations do to memory: whether they may, and who may touch it before they have been waited for.

An operation is compared with earlier accesses when it is issued, as if its issuers made the accesses themselves: they
must be ordered, and ordinary ones seen by the asynchronous proxy: what it reads must have been written in front of a
fence.proxy.async, what it writes read and written in front of one. From then on until its delivery what it writes is
closed to everybody. What it reads is recorded at the issue, what it writes at the delivery, as an access of an agent:
a barrier's copies, a warpgroup's products, a thread's stores. Who waits learns of the agent's events up to then.

source: PTX ISA, "Memory Consistency Model": "Proxies"; "Async proxy".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ...dataclass import dataclass
from ..machine.lanes import Index
from ..machine.operations import ByteSpan, Operations
from ..opcodes.memory import Site
from .order import Message
from .races import AccessChecker
from .records import BARRIER, FOREVER, HALF, IN_FLIGHT, KIND, ONE, SEVERAL, UNWRITTEN, WHO, Record, Shadow, real


@dataclass(frozen=True, slots=True)
class Start:
    """An operation that is issued. what: its name; issuers: positions of threads that must be ordered with others.

    site: of the memory instruction, for messages.
    """

    what: str
    issuers: Index
    site: Site


class Agents:
    """The checks of a chunk's asynchronous operations."""

    def __init__(self, checker: AccessChecker, operations: Operations) -> None:
        self.checker = checker
        self.order = checker.order
        self.report = checker.report
        self.report.operations = operations

    # at the issue

    def read(self, spans: Sequence[ByteSpan], start: Start, agent: Hashable, cta: int) -> int:
        """An agent of a CTA of the chunk is going to read. returns: the event."""
        event = self.order.tick(start.site.pc)
        who = self.record_of(agent, cta)
        for span in spans:
            shadow: Shadow = span.region.shadow
            writes = shadow.writes[span.cells]
            self.examine_closed(span, writes, start)
            never = np.flatnonzero(writes == UNWRITTEN)
            if never.size:
                self.report.uninitialized(span.region, span.cells, self.me(span, start), never, start.site)
            self.examine(span, writes, start, "reads", "wrote")
            me = np.full(span.cells.size, who, np.uint64)
            self.checker.record_read(shadow, span.cells, me, me + np.uint64(event << 32), ONE)
            shadow.agents = True
        return event

    def read_each(self, reads: Sequence[tuple[Sequence[ByteSpan], Start, Hashable, int]]) -> Index:
        """Check and record reads by one instruction for several agents: the arguments of `read`. Return the events."""
        # Together, because one by one they make a checked product of 16 CTAs 1.3 times as slow.
        if all(len(spans) == 1 and spans[0].region is reads[0][0][0].region for spans, *_ in reads):
            region = reads[0][0][0].region
            shadow: Shadow = region.shadow
            cells = np.stack([spans[0].cells for spans, *_ in reads])
            issuers = np.stack([start.issuers for _, start, *_ in reads])
            if self.order.all_before_barrier(region.space, shadow.writes[cells], issuers):
                event = self.order.tick(reads[0][1].site.pc)
                who = np.array([self.record_of(agent, cta) for *_, agent, cta in reads], np.uint64)
                me = np.repeat(who, cells.shape[1])
                self.checker.record_read(shadow, cells.reshape(-1), me, me + np.uint64(event << 32), ONE)
                shadow.agents = True
                return np.full(len(reads), event)
        return np.array([self.read(*each) for each in reads])

    def write(self, spans: Sequence[ByteSpan], start: Start) -> None:
        """An operation is going to write: nobody may touch the cells until then."""
        for span in spans:
            shadow: Shadow = span.region.shadow
            cells = span.cells
            writes = shadow.writes[cells]
            self.examine_closed(span, writes, start)
            self.examine(span, writes, start, "writes", "wrote")
            columns = [shadow.first_reads, shadow.last_reads]
            columns.extend([] if shadow.group_reads is None else shadow.group_reads)
            for column in columns:
                reads = column[cells]
                if np.count_nonzero(reads):
                    self.examine(span, reads, start, "writes", "read")
                    column[cells] = 0
            shadow.writes[cells] = IN_FLIGHT
            shadow.wrote = FOREVER
            shadow.agents = True

    # later

    def land(self, spans: Sequence[ByteSpan], agent: Hashable, cta: int, pc: int) -> int:
        """An operation has written its cells. returns: the event."""
        event = self.order.tick(pc)
        stamp = np.uint64(event << 32 | self.record_of(agent, cta))
        clocks = self.order.need_clocks()
        for span in spans:
            span.region.shadow.writes[span.cells] = stamp
            if span.region.space != "shared":
                clocks.outer_agents.add(clocks.agent(agent))
        return event

    def news(self, agent: Hashable, cta: int, event: int, issued: Index | None = None) -> Message:
        """Return the clock that a waiter for an agent's event learns. issued: what the issuer knew to be executed."""
        clocks = self.order.need_clocks()
        column = clocks.agent_column(agent, cta)
        message = self.order.nothing()
        message.rows[0, cta, column] = event
        if issued is not None:
            message.rows[clocks.executed, cta, : issued.size] = issued
        return message

    def issued(self, position: int) -> Index:
        """Return what a thread knows to be executed, as a row of clocks."""
        return self.order.need_clocks().known_to(position, *self.order.starts())

    def waited(self, positions: Index, agent: Hashable, event: int) -> None:
        """Threads of one CTA have waited for an agent's events up to this one."""
        cta = int(self.order.lanes.full["chunk_cta"][positions[0]])
        self.order.learn(positions, self.news(agent, cta, event))

    def is_known(self, agent: Hashable, cta: int, event: int) -> bool:
        """Whether some thread of the agent's CTA knows of an event of its."""
        clocks = self.order.need_clocks()
        return event <= clocks.latest_known(clocks.agent(agent), cta)

    # the comparison

    def examine(self, span: ByteSpan, records: Record, start: Start, does: str, did: str) -> None:
        """Report where an earlier access isn't ordered with the issuers, or hidden from the asynchronous proxy."""
        # Most cells were accessed before a barrier: asking only that makes checked products nearly twice as fast.
        if self.order.all_before_barrier(span.region.space, records[None], start.issuers[None]):
            return
        shadow: Shadow = span.region.shadow
        different, where = np.unique(records, return_index=True)
        known = real(different)
        different, where = different[known], where[known]
        several = (different & KIND) == SEVERAL
        if np.count_nonzero(several):
            # of several writers of one value one stands for all
            different[several] = shadow.log.records[(different[several] & WHO).astype(np.int64)]
        single = (different & KIND) == 0
        different, where = different[single], where[single]
        if not different.size:
            return
        issuers = self.order.lanes.full["gid"][start.issuers].astype(np.int64)
        who = np.repeat((different & WHO).astype(np.int64), issuers.size)
        events = np.repeat((different >> HALF).astype(np.int64), issuers.size)
        by = np.tile(issuers, different.size)
        at = np.repeat(where, issuers.size)
        ordered = (who == by) | self.order.ordered(who, events, by)
        wrong = np.flatnonzero(~ordered)
        if wrong.size:
            self.report_unordered(span, int(at[wrong[0]]), int(who[wrong[0]]), int(events[wrong[0]]), start, does, did)
        ask = np.flatnonzero(ordered & ~self.order.need_clocks().is_agent(who))
        if not ask.size:
            return
        ask = ask[self.order.near(self.order.home(who[ask])[0], self.order.home(by[ask])[0])]
        hidden = ask[~self.order.seen_by_proxy(span.region.space, who[ask], events[ask], by[ask])]
        if not hidden.size:
            return
        # NVIDIA's libraries copy into a stage that was read before a barrier of its CTA, and document that
        cta = self.order.home(by[hidden])[0]
        vendors = (events[hidden] < self.order.cta_start[cta]) & (self.order.home(who[hidden])[0] == cta)
        vendors &= span.region.space == "shared" and (does, did) == ("writes", "read")
        for level, some in (("error", hidden[~vendors]), ("warning", hidden[vendors])):
            for one in some[:1]:
                self.report_hidden(span, int(at[one]), int(who[one]), int(events[one]), start, does, did, level)

    def examine_closed(self, span: ByteSpan, writes: Record, start: Start) -> None:
        closed = np.flatnonzero(writes == IN_FLIGHT)
        if closed.size:
            self.report.target_in_flight(span.region, span.cells, self.me(span, start), closed, start.site)
        owned = np.flatnonzero(writes == BARRIER)
        self.report.of_barrier(span.region, span.cells, self.me(span, start), owned, start.site)

    def me(self, span: ByteSpan, start: Start) -> Record:
        """The first issuer, for each cell."""
        return np.full(span.cells.size, self.order.lanes.full["gid"][start.issuers[0]], np.uint64)

    def record_of(self, agent: Hashable, cta: int) -> int:
        clocks = self.order.need_clocks()
        return clocks.agent_record(clocks.agent(agent), cta)

    # in words

    def report_unordered(
        self, span: ByteSpan, at: int, who: int, event: int, start: Start, does: str, did: str
    ) -> None:
        pc = int(self.order.pcs[event])
        if self.order.need_clocks().is_agent(np.array([who]))[0]:
            self.report.add_unwaited(self.intent(span, at, start, does), start.site.pc, pc, self.threads(start), did)
            return
        self.report.findings.add(
            "race",
            f"race in {span.region.space} memory: {self.intent(span, at, start, does)}\n"
            f"and {self.order.lanes.describe(who)} {did} it, with nothing that orders the two\n"
            f"  {self.report.places.describe(pc)}",
            start.site.pc, pc, self.threads(start), hint="put a barrier between the two accesses",
        )

    def report_hidden(
        self, span: ByteSpan, at: int, who: int, event: int, start: Start, does: str, did: str, level: str
    ) -> None:
        pc = int(self.order.pcs[event])
        self.report.findings.add(
            "in-flight",
            f"{self.intent(span, at, start, does)}\nand {self.order.lanes.describe(who)} {did} it, with no "
            f"fence.proxy.async between the two\n  {self.report.places.describe(pc)}",
            start.site.pc, pc, self.threads(start),
            hint="put fence.proxy.async after the access, before the barrier that orders the two", level=level,
        )

    def intent(self, span: ByteSpan, at: int, start: Start, does: str) -> str:
        who = self.order.lanes.describe_position(int(start.issuers[0]))
        place = self.report.place(span.region, int(span.cells[at]), start.site)
        return f"{who} starts a {start.what} that {does} {place}\n  {self.report.places.describe(start.site.pc)}"

    def threads(self, start: Start) -> list[int]:
        return self.order.lanes.numbers(start.issuers[:1])


