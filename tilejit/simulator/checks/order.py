"""The happens-before relation: event numbers and barriers.

Each execution of a memory or synchronization instruction by a group of threads is an event, numbered in the order of
the simulation. A barrier of a whole CTA or warp is stored as one event number: its threads' earlier events happen
before their later ones. Barriers of a part of a CTA need a clock for each pair of warps (`clocks.py`), and barriers of
a part of a warp one for each pair of lanes. Releases and acquires at memory locations are in `release_acquire.py`.

source: PTX ISA, "Memory Consistency Model": "Causality order"; "Parallel Synchronization and Communication
Instructions".
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...fast_unique import fast_unique
from ..decode.ordering import Ordering
from ..machine.lanes import WARP, WARPGROUP, Index, Lanes
from .clock_sets import NOTHING, Rows
from .clocks import GENERIC, PROXY_PLANES, Clocks, RowOfEach, products_of
from .records import HALF, LOW, Record
from .release_acquire import ReleaseAcquire


@dataclass(slots=True)
class Message:
    """The events that a wait orders before the threads that have waited."""

    #: for each plane and each CTA of the chunk, a row of the clocks
    rows: RowOfEach
    #: CTA of the chunk → a frontier's row
    frontiers: dict[int, Rows]

    def clear(self, ctas: Index) -> None:
        self.rows[:, ctas] = 0
        for cta in ctas.tolist() if self.frontiers else ():
            self.frontiers.pop(cta, None)

    def part(self, ctas: Index) -> Message:
        rows = np.zeros_like(self.rows)
        rows[:, ctas] = self.rows[:, ctas]
        chosen = set(ctas.tolist()) if self.frontiers else set()
        return Message(rows, {cta: row for cta, row in self.frontiers.items() if cta in chosen})


@dataclass(slots=True)
class Releases:
    """The messages released by arrivals at one barrier of each CTA: in its current phase, and in completed phases."""

    coming: Message | None = None
    done: Message | None = None

    def add(self, order: HappensBefore, message: Message) -> None:
        self.coming = message if self.coming is None else order.joined([self.coming, message])

    def complete(self, order: HappensBefore, ctas: Index, keep: bool) -> None:
        """Let waits in `ctas` acquire the releases of the current phase and, with `keep`, of all earlier phases."""
        if self.coming is None:
            return
        fresh = self.coming.part(ctas)
        if self.done is not None:
            if not keep:
                self.done.clear(ctas)
            fresh = order.joined([self.done, fresh])
        self.done = fresh
        self.coming.clear(ctas)


class HappensBefore:
    """The happens-before relation of a launch's events."""

    def __init__(self, ctas: int, lanes: Lanes, collectives_order: bool, facts: Ordering) -> None:
        """ctas: the grid's CTA count. collectives_order: True if shuffles, votes, matches and redux order accesses."""
        self.event = 1
        #: event → index of its instruction; 0 for barriers of threads, releases and fences
        self.pcs = array("I", [0, 0])
        #: the event of the last barrier of each CTA, and of each warp, of the grid
        self.cta_start = np.zeros(ctas, np.int64)
        self.warp_start = np.zeros(ctas * lanes.warps_per_cta, np.int64)
        #: the event of the last barrier if all CTAs of the chunk have executed it together, else None
        self.common_start: int | None = 0
        self.collectives_order = collectives_order
        self.facts = facts
        #: None if the kernel doesn't need them (`Ordering.clocks`)
        self.clocks: Clocks | None = None
        self.flags = ReleaseAcquire(self)
        self.begin(lanes)

    def begin(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.clocks = Clocks(lanes, self.facts.proxies, self.clocks) if self.facts.clocks else None
        #: warp x lane x other lane → the other lane's last event that partial warp barriers order before the lane
        self.lane_clock: Index | None = None
        self.flags.begin(lanes)

    def tick(self, pc: int) -> int:
        self.event += 1
        self.pcs.append(pc)
        return self.event

    def pcs_of(self, events: Index) -> Index:
        # The array can't grow while NumPy holds its buffer, so no view of it may leave this function.
        log = np.frombuffer(self.pcs, np.uint32)
        return log[np.minimum(events, log.size - 1)].astype(np.int64)

    def position(self, thread: Index) -> Index:
        return thread - (1 + self.lanes.first * self.lanes.threads)

    def cta_barrier(self, ctas: Index, all_of_chunk: bool) -> None:
        self.tick(0)
        self.cta_start[ctas] = self.event
        self.common_start = self.event if all_of_chunk else None
        if self.clocks is not None:
            self.clocks.join_ctas(ctas - self.lanes.first)
        if self.flags.frontier is not None:
            self.flags.share((ctas - self.lanes.first)[:, None] * self.lanes.threads + np.arange(self.lanes.threads))

    def warp_barrier(self, positions: Index) -> None:
        self.tick(0)
        warps = self.lanes.full["warp"]
        self.warp_start[warps if positions.size == warps.size else warps[positions]] = self.event
        if self.clocks is not None:
            self.clocks.join_warps(positions)
        if self.flags.frontier is not None:
            warp = self.lanes.full["chunk_warp"][positions]
            self.flags.share_runs(positions, np.flatnonzero(np.diff(warp, prepend=-1)))

    def lane_barrier(self, positions: Index, groups: Index) -> None:
        """Synchronize the threads of each group: those with equal values in `groups`, all of them lanes of one warp."""
        now = self.tick(0)
        if self.lane_clock is None:
            self.lane_clock = np.zeros((self.lanes.ctas * self.lanes.warps_per_cta, WARP, WARP), np.int64)
        by_group = np.argsort(groups, kind="stable")
        positions, groups = positions[by_group], groups[by_group]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        which = np.repeat(np.arange(starts.size), np.diff(np.append(starts, groups.size)))
        warp, lane = self.lanes.full["chunk_warp"][positions], self.lanes.full["lane"][positions]
        joined = np.maximum.reduceat(self.lane_clock[warp, lane], starts)
        joined[which, lane] = now
        self.lane_clock[warp, lane] = joined[which]
        if self.clocks is not None:
            self.clocks.join_lanes(positions, starts)
        if self.flags.frontier is not None:
            self.flags.share_runs(positions, starts)

    def starts(self) -> tuple[Index, Index]:
        first, warps = self.lanes.first, self.lanes.warps_per_cta
        ctas = slice(first, first + self.lanes.ctas)
        return self.cta_start[ctas], self.warp_start[first * warps : (first + self.lanes.ctas) * warps]

    def release(self, positions: Index) -> Message:
        clocks = self.need_clocks()
        rows = clocks.released(positions, self.tick(0), *self.starts())
        if self.lane_clock is not None:
            rows = self.lanes_released(clocks, positions, rows)
        frontiers: dict[int, Rows] = {}
        if self.flags.frontier is not None:
            home = self.lanes.full["chunk_cta"][positions]
            for cta in fast_unique(home).tolist():
                row = self.flags.joined_row(positions[home == cta])
                if row is not None:
                    frontiers[cta] = row
        return Message(rows, frontiers)

    def nothing(self) -> Message:
        return Message(self.need_clocks().nothing(), {})

    def redirect(self, message: Message, rank: int | None = None) -> Message:
        """Redirect a message from the releasing CTAs to the CTA of `rank` (None: all CTAs) in their clusters."""
        rows = message.rows.reshape(message.rows.shape[0], -1, self.lanes.ranks, message.rows.shape[-1])
        redirected = np.zeros_like(rows)
        redirected[:, :, slice(None) if rank is None else slice(rank, rank + 1)] = rows.max(axis=2, keepdims=True)
        received: list[tuple[int, Rows]] = []
        for cta, row in message.frontiers.items():
            first = cta // self.lanes.ranks * self.lanes.ranks
            ctas = range(first, first + self.lanes.ranks) if rank is None else (first + rank,)
            received.extend((other, row) for other in ctas)
        return Message(redirected.reshape(message.rows.shape), self.joined_rows(received))

    def joined_rows(self, rows: Iterable[tuple[int, Rows]]) -> dict[int, Rows]:
        """Return, for each CTA, the join of its frontiers' rows."""
        result: dict[int, Rows] = {}
        for cta, row in rows:
            other = result.get(cta)
            widened = self.flags.frontiers.widened
            result[cta] = row if other is None else np.maximum(widened(row), widened(other))
        return result

    def execution_only(self, message: Message, agents: bool) -> Message:
        """Reduce a message to the set of executed events. agents: also keep agents' accesses to shared memory."""
        clocks = self.need_clocks()
        rows = clocks.widened(message.rows).copy()
        hidden = ~clocks.shared_agent_columns() if agents else np.ones(clocks.width, bool)
        for plane in range(len(rows)):
            if plane != clocks.executed:
                rows[plane, :, hidden] = 0
        return Message(rows, {})

    def lanes_released(self, clocks: Clocks, positions: Index, rows: RowOfEach) -> RowOfEach:
        """Add to a message the events of lanes that partial warp barriers have ordered before these threads."""
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

    def joined(self, messages: Sequence[Message]) -> Message:
        clocks = self.need_clocks()
        frontiers = self.joined_rows(x for message in messages for x in message.frontiers.items())
        # Join the rows one by one: np.maximum.reduce would first copy them all.
        return Message(reduce(np.maximum, (clocks.widened(x.rows) for x in messages)), frontiers)

    def learn(self, positions: Index, message: Message) -> None:
        self.need_clocks().learn(positions, message.rows)
        home = self.lanes.full["chunk_cta"][positions]
        for cta, row in message.frontiers.items():
            here = positions[home == cta]
            if here.size:
                self.flags.learn(row, here)

    def includes(self, message: Message, positions: Index, event: int | Index) -> NDArray[np.bool_]:
        """Return a mask of the threads whose `event`, or a later product, is included in the message to their CTA."""
        clocks = self.need_clocks()
        rows = clocks.widened(message.rows)
        rows = rows[GENERIC] if clocks.executed is None else np.maximum(rows[GENERIC], rows[clocks.executed])
        home, warps = clocks.ctas_and_warps(positions)
        rank = home % clocks.ranks
        columns = clocks.columns[self.lanes.full["thread"][positions]]
        own = np.where(columns >= 0, rows[home, columns + rank], 0)
        known = np.maximum(rows[home, clocks.warp_columns(home, warps)], own)
        groups = warps * WARP // WARPGROUP
        for group in fast_unique(groups).tolist() if clocks.agents else ():
            agent = clocks.agents.get(products_of(group))
            if agent is not None:
                here = groups == group
                columns = clocks.agent_columns[agent] + rank[here]
                known[here] = np.maximum(known[here], rows[home[here], columns])
        result: NDArray[np.bool_] = event <= known
        return result

    def need_clocks(self) -> Clocks:
        assert self.clocks is not None, "a kernel with partial barriers has clocks"
        return self.clocks

    def fence_proxy(self, positions: Index, space: str | None) -> None:
        if self.clocks is not None:
            self.clocks.fence_proxy(positions, space, self.tick(0), *self.starts())

    def seen_by_proxy(self, space: str, actors: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Return a mask of the accesses that are visible to the asynchronous operations that threads `by` issue."""
        clocks, plane = self.need_clocks(), PROXY_PLANES[space]
        mine = self.position(by)
        result: NDArray[np.bool_] = events <= clocks.events_of(plane, actors, mine)
        if self.flags.frontier is None:
            return result
        # Frontiers don't record proxy fences. If a frontier orders the access, a fence by either thread is enough.
        ask = np.flatnonzero(~result & (events > clocks.events_of(GENERIC, actors, mine)))
        (cta, warp), (_, my_warp) = self.home(actors[ask]), self.home(by[ask])
        by_barrier = events[ask] < self.cta_start[cta]
        by_barrier |= (warp == my_warp) & (events[ask] < self.warp_start[warp])
        ask = ask[~by_barrier]
        fenced = np.maximum(clocks.events_of(plane, actors, self.position(actors)), clocks.events_of(plane, by, mine))
        result[ask] = events[ask] <= fenced[ask]
        return result

    def all_before_barrier(self, space: str, records: Record, by: Index) -> bool:
        """True only if each row's records are by threads of one CTA and precede its last barrier and a proxy fence.

        by: for each row, positions in that CTA, before which the barrier orders the recorded accesses. A mark, 0, and
        a record of an agent or several writers give False: their low halves are 0 or exceed all thread numbers.
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
        """Return a mask, True if the event of the actor in `thread` happens before the next event of `by`."""
        cta, warp = self.home(thread)
        mine = self.position(by)
        my_cta, my_warp = self.lanes.full["cta"][mine], self.lanes.full["warp"][mine]
        result: NDArray[np.bool_] = (cta == my_cta) & (events < self.cta_start[my_cta])
        result |= (warp == my_warp) & (events < self.warp_start[my_warp])
        # Barriers don't wait for agents, which have no warp.
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
        return result

    def has_happened(self, late: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Return a mask, True if the thread at `by` knows that the thread at `late` has executed the event."""
        gid, clocks = self.lanes.full["gid"], self.need_clocks()
        actors = gid[late].astype(np.int64)
        plane = GENERIC if clocks.executed is None else clocks.executed
        result: NDArray[np.bool_] = events <= clocks.events_of(plane, actors, by)
        ask = np.flatnonzero(~result)
        if ask.size:
            result[ask] = self.ordered(actors[ask], events[ask], gid[by[ask]].astype(np.int64))
        return result

    def known(self, late: Index, event: int, by: Index) -> NDArray[np.bool_]:
        """Return a matrix: True if `by[j]` is or knows that `late[i]` has executed the event. Both are positions."""
        each, others = np.repeat(late, by.size), np.tile(by, late.size)
        known = (each == others) | self.has_happened(each, np.full(each.size, event), others)
        result: NDArray[np.bool_] = known.reshape(late.size, by.size)
        return result

    def near(self, cta: Index, other: Index) -> NDArray[np.bool_]:
        ranks = self.lanes.ranks
        result: NDArray[np.bool_] = cta == other if ranks == 1 else cta // ranks == other // ranks
        return result

    def reached(self, cta: Index) -> Index:
        """Return the index of the group of CTAs that each CTA's narrow scopes include: its cluster, or the CTA alone.

        In kernels with .cta scopes it is the CTA alone. If they also use .cluster, this may cause false race reports.
        """
        return cta if self.lanes.ranks == 1 or self.facts.within else cta // self.lanes.ranks

    def is_agent(self, actor: int) -> bool:
        return self.clocks is not None and bool(self.clocks.is_agent(np.array([actor]))[0])

    def home(self, thread: Index) -> tuple[Index, Index]:
        """Return each actor's CTA and warp in the grid: warp -1 for agents, CTA -1 for agents of earlier chunks."""
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
