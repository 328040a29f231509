"""What happens before what: event numbers, and barriers.

Every executed memory instruction is an event, numbered in the order of the simulation. Barriers of a whole CTA and of
a whole warp are one number each: every event before it has happened for all its threads. Barriers of a part of a CTA
or of a warp have clocks for pairs of warps or of lanes. What threads learn of each other besides is a part: `flags`.

source: PTX ISA, "Memory Consistency Model": "Causality order"; "Parallel Synchronization and Communication
Instructions".
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ..decode.ordering import Ordering
from ..machine.lanes import WARP, WARPGROUP, Index, Lanes
from .clock_sets import NOTHING
from .clocks import GENERIC, PROXY_PLANES, Clocks, RowOfEach, products_of
from .pages import Rows
from .records import HALF, LOW, Record
from .release_acquire import Flags


@dataclass(slots=True)
class Message:
    """What CTAs are told by a barrier of a part of them. rows: of clocks; frontiers: of some CTAs."""

    rows: RowOfEach
    frontiers: dict[int, Rows]

    def clear(self, ctas: Index) -> None:
        """Forget what it says in these CTAs of the chunk."""
        self.rows[:, ctas] = 0
        for cta in ctas.tolist() if self.frontiers else ():
            self.frontiers.pop(cta, None)

    def part(self, ctas: Index) -> Message:
        """What it says in these CTAs."""
        rows = np.zeros_like(self.rows)
        rows[:, ctas] = self.rows[:, ctas]
        chosen = set(ctas.tolist()) if self.frontiers else set()
        return Message(rows, {cta: row for cta, row in self.frontiers.items() if cta in chosen})


class HappensBefore:
    """Event numbers, and since which event each CTA and warp is synchronised.

    clocks: what the warps of a CTA know of each other, where something orders a part of them.
    lane_clock: per warp, lane and other lane of it, the same of barriers of a part of the warp.
    flags: what threads know of each other by releases and acquires.
    """

    def __init__(self, ctas: int, warps: int, lanes: Lanes, collectives_order: bool, facts: Ordering) -> None:
        """collectives_order: shuffles and the like order memory."""
        self.event = 1
        self.pcs = array("I", [0, 0])
        self.cta_start = np.zeros(ctas, np.int64)
        self.warp_start = np.zeros(warps, np.int64)
        self.common_start: int | None = 0
        self.collectives_order = collectives_order
        self.facts = facts
        self.clocks: Clocks | None = None
        self.flags = Flags(self)
        self.begin(lanes)

    def begin(self, lanes: Lanes) -> None:
        """Start a chunk."""
        self.lanes = lanes
        self.clocks = Clocks(lanes, self.facts.proxies, self.clocks) if self.facts.clocks else None
        self.lane_clock: Index | None = None
        self.flags.begin(lanes)

    def tick(self, pc: int) -> int:
        self.event += 1
        self.pcs.append(pc)
        return self.event

    def pcs_of(self, events: Index) -> Index:
        """The instruction of each event."""
        # The array can't grow while NumPy holds its buffer: no view of it may leave this function.
        log = np.frombuffer(self.pcs, np.uint32)
        result: Index = log[np.minimum(events, log.size - 1)].astype(np.int64)
        return result

    def position(self, thread: Index) -> Index:
        """The place in the chunk of threads by their number in the grid."""
        return thread - (1 + self.lanes.first * self.lanes.threads)

    # barriers

    def cta_barrier(self, ctas: Index, all_of_chunk: bool) -> None:
        """All threads of these CTAs have met."""
        self.tick(0)
        self.cta_start[ctas] = self.event
        self.common_start = self.event if all_of_chunk else None
        if self.clocks is not None:
            self.clocks.meet_ctas(ctas - self.lanes.first)
        if self.flags.frontier is not None:
            self.flags.share((ctas - self.lanes.first)[:, None] * self.lanes.threads + np.arange(self.lanes.threads))

    def warp_barrier(self, positions: Index) -> None:
        """All threads of the warps that these threads belong to have met."""
        self.tick(0)
        warps = self.lanes.full["warp"]
        self.warp_start[warps if positions.size == warps.size else warps[positions]] = self.event
        if self.clocks is not None:
            self.clocks.meet_warps(positions)
        if self.flags.frontier is not None:
            warp = self.lanes.full["chunk_warp"][positions]
            self.flags.share_runs(positions, np.flatnonzero(np.diff(warp, prepend=-1)))

    def lanes_meet(self, positions: Index, groups: Index) -> None:
        """Threads with the same number in `groups`, lanes of one warp, have met."""
        now = self.tick(0)
        if self.lane_clock is None:
            self.lane_clock = np.zeros((self.lanes.ctas * self.lanes.warps_per_cta, WARP, WARP), np.int64)
        by_group = np.argsort(groups, kind="stable")
        positions, groups = positions[by_group], groups[by_group]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        which = np.repeat(np.arange(starts.size), np.diff(np.append(starts, groups.size)))
        warp, lane = self.lanes.full["chunk_warp"][positions], self.lanes.full["lane"][positions]
        together = np.maximum.reduceat(self.lane_clock[warp, lane], starts)
        together[which, lane] = now
        self.lane_clock[warp, lane] = together[which]
        if self.clocks is not None:
            self.clocks.meet_lanes(positions, starts)
        if self.flags.frontier is not None:
            self.flags.share_runs(positions, starts)

    def starts(self) -> tuple[Index, Index]:
        """Since which event each CTA and each warp of the chunk is synchronised."""
        first, warps = self.lanes.first, self.lanes.warps_per_cta
        ctas = slice(first, first + self.lanes.ctas)
        return self.cta_start[ctas], self.warp_start[first * warps : (first + self.lanes.ctas) * warps]

    def release(self, positions: Index) -> Message:
        """What these threads release to others of their CTAs by a barrier of a part of it."""
        clocks = self.need_clocks()
        rows = clocks.released(positions, self.tick(0), *self.starts())
        if self.lane_clock is not None:
            rows = self.lanes_released(clocks, positions, rows)
        frontiers: dict[int, Rows] = {}
        if self.flags.frontier is not None:
            home = self.lanes.full["chunk_cta"][positions]
            for cta in fast_unique(home).tolist():
                row = self.flags.together(positions[home == cta])
                if row is not None:
                    frontiers[cta] = row
        return Message(rows, frontiers)

    def told_to(self, message: Message, rank: int | None = None) -> Message:
        """What CTAs have released, as a message to the CTA of a rank of their cluster, or to all of it."""
        rows = message.rows.reshape(message.rows.shape[0], -1, self.lanes.ranks, message.rows.shape[-1])
        told = np.zeros_like(rows)
        told[:, :, slice(None) if rank is None else slice(rank, rank + 1)] = rows.max(axis=2, keepdims=True)
        frontiers: dict[int, Rows] = {}
        widened = self.flags.frontiers.widened
        for cta, row in message.frontiers.items():
            first = cta // self.lanes.ranks * self.lanes.ranks
            for other in range(first, first + self.lanes.ranks) if rank is None else (first + rank,):
                before = frontiers.get(other)
                frontiers[other] = row if before is None else np.maximum(widened(before), widened(row))
        return Message(told.reshape(message.rows.shape), frontiers)

    def unseen(self, message: Message, agents: bool) -> Message:
        """What a message says of execution alone, whose accesses it doesn't let others see.

        agents: but for those of agents that write nothing but shared memory.
        """
        clocks = self.need_clocks()
        rows = clocks.widened(message.rows).copy()
        hidden = ~clocks.of_shared_agents() if agents else np.ones(clocks.width, bool)
        for plane in range(len(rows)):
            if plane != clocks.executed:
                rows[plane, :, hidden] = 0
        return Message(rows, {})

    def has_come(self, thread: int, event: int, by: Index) -> NDArray[np.bool_]:
        """Whether each of the threads `by`, by position, knows that one of its cluster has executed an event."""
        clocks = self.need_clocks()
        assert clocks.executed is not None, "only clusters of several CTAs keep that"
        result: NDArray[np.bool_] = event <= clocks.events_of(clocks.executed, np.full(by.size, thread), by)
        return result

    def lanes_released(self, clocks: Clocks, positions: Index, rows: RowOfEach) -> RowOfEach:
        """The rows of a message with what threads know of lanes with which they have met without their warp."""
        assert self.lane_clock is not None
        full = self.lanes.full
        lane = full["lane"][positions]
        clock = self.lane_clock[full["chunk_warp"][positions], lane]
        at, other = np.nonzero(clock)
        others = positions[at] - lane[at] + other
        columns = clocks.need_columns(others)
        rows = clocks.widened(rows)
        np.maximum.at(rows[GENERIC], (full["chunk_cta"][others], columns), clock[at, other])
        return rows

    def nothing(self) -> Message:
        """A message that says nothing."""
        return Message(self.need_clocks().nothing(), {})

    def joined(self, messages: Sequence[Message]) -> Message:
        """What messages say together."""
        clocks = self.need_clocks()
        frontiers: dict[int, Rows] = {}
        for cta, row in (x for message in messages for x in message.frontiers.items()):
            other = frontiers.get(cta)
            widened = self.flags.frontiers.widened
            frontiers[cta] = row if other is None else np.maximum(widened(row), widened(other))
        # one after the other: a ufunc's own reduction would copy them all first
        return Message(reduce(np.maximum, (clocks.widened(x.rows) for x in messages)), frontiers)

    def learn(self, positions: Index, message: Message) -> None:
        """These threads learn what a message says."""
        self.need_clocks().learn(positions, message.rows)
        home = self.lanes.full["chunk_cta"][positions]
        for cta, row in message.frontiers.items():
            here = positions[home == cta]
            if here.size:
                self.flags.pass_on(row, here)

    def tells(self, message: Message, positions: Index, event: int) -> NDArray[np.bool_]:
        """Whether a message says of threads of its CTAs that an event of theirs has happened."""
        clocks = self.need_clocks()
        rows = clocks.widened(message.rows)[GENERIC]
        home, warps = clocks.at_home(positions)
        rank = home % clocks.ranks
        columns = clocks.columns[self.lanes.full["thread"][positions]]
        own = np.where(columns >= 0, rows[home, columns + rank], 0)
        said = np.maximum(rows[home, clocks.warp_columns(home, warps)], own)
        groups = warps * WARP // WARPGROUP
        for group in fast_unique(groups).tolist() if clocks.agents else ():
            agent = clocks.agents.get(products_of(group))
            if agent is not None:
                here = groups == group
                columns = clocks.agent_columns[agent] + rank[here]
                said[here] = np.maximum(said[here], rows[home[here], columns])
        result: NDArray[np.bool_] = event <= said
        return result

    def need_clocks(self) -> Clocks:
        assert self.clocks is not None, "a kernel that orders a part of a CTA has clocks"
        return self.clocks

    def fence_proxy(self, positions: Index, space: str) -> None:
        """A fence of these threads between their accesses and those of the asynchronous proxy. space: "" for all."""
        if self.clocks is not None:
            self.clocks.fence_proxy(positions, space, self.tick(0), *self.starts())

    def seen_by_proxy(self, space: str, who: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Whether accesses of threads of a CTA may be seen by the asynchronous proxy where threads `by` start it."""
        clocks, plane = self.need_clocks(), PROXY_PLANES[space]
        mine = self.position(by)
        result: NDArray[np.bool_] = events <= clocks.events_of(plane, who, mine)
        if self.flags.frontier is None:
            return result
        # flags tell nothing of fences: of who learnt by one it is enough that either side has fenced since the access
        told = np.flatnonzero(~result & (events > clocks.events_of(GENERIC, who, mine)))
        (cta, warp), (_, my_warp) = self.home(who[told]), self.home(by[told])
        by_barrier = events[told] < self.cta_start[cta]
        by_barrier |= (warp == my_warp) & (events[told] < self.warp_start[warp])
        told = told[~by_barrier]
        fenced = np.maximum(clocks.events_of(plane, who, self.position(who)), clocks.events_of(plane, by, mine))
        result[told] = events[told] <= fenced[told]
        return result

    # the question

    def all_before_barrier(self, space: str, records: Record, by: Index) -> bool:
        """True if all records of a row are of threads of one CTA, before its last barrier and a fence.

        The barrier orders them before the threads of the same row of `by`, which are of that CTA; the fence shows them
        to the asynchronous proxy. Records of agents, of several writers, and marks have greater numbers than threads.
        """
        if not records.size:
            return True
        ctas = self.lanes.full["cta"][by[:, 0]]
        newest = (records.max(axis=1) >> HALF).astype(np.int64)
        if (newest >= self.cta_start[ctas]).any():
            return False
        thread = (records & LOW).astype(np.int64) - 1 - ctas[:, None] * self.lanes.threads
        if thread.min() < 0 or thread.max() >= self.lanes.threads:
            return False
        return bool((newest <= self.need_clocks().seen_of_all_warps(PROXY_PLANES[space], by)).all())

    def ordered(self, thread: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Whether events of threads have happened before whatever threads `by` do now."""
        cta, warp = self.home(thread)
        mine = self.position(by)
        my_cta, my_warp = self.lanes.full["cta"][mine], self.lanes.full["warp"][mine]
        result = (cta == my_cta) & (events < self.cta_start[my_cta])
        result |= (warp == my_warp) & (events < self.warp_start[my_warp])
        # A barrier waits for no agent; agents have no warp.
        agents = np.flatnonzero(warp < 0)
        result[agents] = False
        if self.clocks is not None:
            at = np.flatnonzero(~result & self.near(cta, my_cta))
            if at.size:
                seen = self.clocks.events_of(GENERIC, thread[at], mine[at])
                result[at] = events[at] <= seen
        if self.lane_clock is not None:
            at = np.flatnonzero(~result & (warp == my_warp))
            here = my_warp[at] - self.lanes.first * self.lanes.warps_per_cta
            lane, theirs = ((x[at] - 1) % self.lanes.threads % WARP for x in (by, thread))
            result[at] = events[at] <= self.lane_clock[here, lane, theirs]
        if self.flags.frontier is not None:
            numbers = self.flags.frontier[mine]
            asked = ~result & (numbers != NOTHING)
            if agents.size:
                at = agents[asked[agents]]
                asked[agents] = False
                which = self.flags.numbered(*self.need_clocks().agent_of(thread[at]))
                result[at] = self.flags.frontiers.reach_agents(numbers[at], which, events[at])
            ask = np.flatnonzero(asked)
            if ask.size:
                result[ask] = self.flags.frontiers.reach(numbers[ask], thread[ask], warp[ask], cta[ask], events[ask])
        answer: NDArray[np.bool_] = result
        return answer

    def has_happened(self, late: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Whether threads `by` know that threads `late` have executed events, all by position.

        It doesn't matter whether they may see what those have written.
        """
        gid, clocks = self.lanes.full["gid"], self.need_clocks()
        who = gid[late].astype(np.int64)
        plane = GENERIC if clocks.executed is None else clocks.executed
        result: NDArray[np.bool_] = events <= clocks.events_of(plane, who, by)
        ask = np.flatnonzero(~result)
        if ask.size:
            result[ask] = self.ordered(who[ask], events[ask], gid[by[ask]].astype(np.int64))
        return result

    def near(self, cta: Index, other: Index) -> NDArray[np.bool_]:
        """Whether CTAs are of one cluster."""
        ranks = self.lanes.ranks
        result: NDArray[np.bool_] = cta == other if ranks == 1 else cta // ranks == other // ranks
        return result

    def reached(self, cta: Index) -> Index:
        """What a scope that isn't wide reaches, by a CTA: the same number for all CTAs of its cluster, or its own.

        Where a kernel has scopes of both kinds, it is its own: a race may be told of that there isn't.
        """
        return cta if self.lanes.ranks == 1 or self.facts.within else cta // self.lanes.ranks

    def is_agent(self, who: int) -> bool:
        """Whether somebody that a record names is no thread."""
        return self.clocks is not None and bool(self.clocks.is_agent(np.array([who]))[0])

    def home(self, thread: Index) -> tuple[Index, Index]:
        """(CTA, warp) of thread numbers, both counted over the grid; of an agent its CTA, -1 if it is gone, and -1."""
        at = thread - 1
        cta = at // self.lanes.threads
        warp = cta * self.lanes.warps_per_cta + at % self.lanes.threads // WARP
        if self.clocks is not None and self.clocks.any_agents:
            agents = np.flatnonzero(self.clocks.is_agent(thread))
            if agents.size:
                number, home = self.clocks.agent_of(thread[agents])
                cta[agents] = np.where(number >= 0, home + self.lanes.first, -1)
                warp[agents] = -1
        return cta, warp
