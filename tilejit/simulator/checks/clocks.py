"""Vector clocks of a cluster: what its warps know of each other's accesses, and of what other agents do.

For kernels in which something orders a part of a CTA's threads: named barriers, mbarriers, asynchronous operations. A
view is a row of events: the accesses of the column's threads, or agent, up to that event have happened.

    columns   the cluster's warps, rank by rank; threads that have released something without their warp, and agents:
              of each as many as there are ranks
    rows      a CTA's warps; threads that have learnt something without their warp, until their warp synchronises
    planes    what ordinary accesses see; what the asynchronous proxy sees of shared, and of global memory; in clusters
              of several CTAs and with asynchronous copies, what has been executed, whether or not its accesses are seen

A fence between proxies copies the first plane into another. Whatever passes views on passes all planes on, but for
messages to other CTAs (`order.py`). A message is what threads release, and others learn: a row for each CTA that
learns. Rows and columns are alike in all CTAs of a chunk. Without clusters each CTA is one.

source: PTX ISA, "Memory Consistency Model": "Causality order", "Proxy"; "mbarrier".
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import WARP, WARPGROUP, Index, Lanes

#: (plane, CTA of the chunk, column) → event
RowOfEach = NDArray[np.int64]
GENERIC = 0
#: the planes of the asynchronous proxy, by state space
PROXY_PLANES = {"shared": 1, "global": 2}
# Agents count down from here as those whom records name; threads count up from 1.
LAST_AGENT = (1 << 30) - 1
NOBODY = np.zeros(0, np.int64)


def products_of(group: int) -> Hashable:
    """The agent that carries out the products of a CTA's warpgroup.

    All four warps issue a product. So who knows of an event of this agent knows that they have all come so far.
    """
    return "products", group


class Clocks:
    """The views of a chunk's CTAs.

    views: plane x CTA x row x column → event.
    rows, columns: of a CTA's threads, -1 for those without; a column is that of rank 0, the others follow.
    rows_of: warp → the rows of its threads. executed: the plane of that, None without.
    own: the planes in which threads know what they have done themselves.
    agents: what each agent is called by those who made it → its number, of which `agent_columns` has the column of rank
    0; who they are to records: see `agent_record`.
    outer_agents: the numbers of those that have written other memory than shared.
    last_agent: the first agent to records; those of earlier chunks have greater numbers.
    """

    def __init__(self, lanes: Lanes, proxies: bool, before: Clocks | None) -> None:
        """proxies: whether the kernel has fences or operations of the asynchronous proxy. before: of the last chunk."""
        self.last_agent = LAST_AGENT if before is None else before.next_agent
        self.lanes = lanes
        self.warps = lanes.warps_per_cta
        self.ranks = lanes.ranks
        planes = 1 + len(PROXY_PLANES) * proxies
        self.has_proxies = proxies
        self.executed = planes if self.ranks > 1 or proxies else None
        self.own = (GENERIC,) if self.executed is None else (GENERIC, self.executed)
        planes += self.executed is not None
        self.views = np.zeros((planes, lanes.ctas, self.warps, self.ranks * self.warps), np.int64)
        self.rows, self.columns = np.full((2, lanes.threads), -1)
        self.rows_of: dict[int, list[int]] = {}
        self.agents: dict[Hashable, int] = {}
        self.agent_columns: list[int] = []
        self.outer_agents: set[int] = set()
        sizes = np.full(self.warps, WARP)
        sizes[-1] = lanes.threads - WARP * (self.warps - 1)
        self.warp_sizes = np.tile(sizes, lanes.ctas)

    @property
    def width(self) -> int:
        return self.views.shape[-1]

    def nothing(self) -> RowOfEach:
        """A message that says nothing."""
        return np.zeros((self.views.shape[0], self.lanes.ctas, self.width), np.int64)

    def widened(self, message: RowOfEach) -> RowOfEach:
        """A message with all columns that there are by now."""
        missing = self.width - message.shape[-1]
        return np.pad(message, ((0, 0), (0, 0), (0, missing))) if missing else message

    # who has a row or a column

    def need_rows(self, positions: Index) -> Index:
        """The rows of threads of their own."""
        threads = self.lanes.full["thread"][positions]
        fresh = np.unique(threads[self.rows[threads] < 0])
        if fresh.size:
            first = self.views.shape[2]
            self.rows[fresh] = np.arange(first, first + fresh.size)
            self.views = np.pad(self.views, ((0, 0), (0, 0), (0, fresh.size), (0, 0)))
            for thread in fresh.tolist():
                self.rows_of.setdefault(thread // WARP, []).append(int(self.rows[thread]))
        result: Index = self.rows[threads]
        return result

    def need_columns(self, positions: Index) -> Index:
        """The columns of threads of their own."""
        threads = self.lanes.full["thread"][positions]
        fresh = np.unique(threads[self.columns[threads] < 0])
        if fresh.size:
            self.columns[fresh] = self.width + self.ranks * np.arange(fresh.size)
            self.widen(self.ranks * fresh.size)
        result: Index = self.columns[threads]
        return result if self.ranks == 1 else result + self.lanes.full["chunk_cta"][positions] % self.ranks

    def agent(self, name: Hashable) -> int:
        """The number of an agent of each CTA, such as a barrier's copies or a warpgroup's products."""
        if name not in self.agents:
            self.agents[name] = len(self.agent_columns)
            self.agent_columns.append(self.width)
            self.widen(self.ranks)
        return self.agents[name]

    def agent_column(self, name: Hashable, cta: int) -> int:
        """The column of an agent of a CTA of the chunk."""
        return self.agent_columns[self.agent(name)] + cta % self.ranks

    def warp_columns(self, ctas: Index, warps: Index) -> Index:
        """The columns of warps of CTAs."""
        return warps if self.ranks == 1 else ctas % self.ranks * self.warps + warps

    def raise_all_warps(self, rows: RowOfEach, ctas: Index, events: Index) -> None:
        """All warps of each row's CTA have come to an event."""
        if self.ranks == 1:
            rows[:, : self.warps] = np.maximum(rows[:, : self.warps], events[:, None])
            return
        each = np.arange(ctas.size)[:, None]
        columns = self.warp_columns(ctas[:, None], np.arange(self.warps))
        rows[each, columns] = np.maximum(rows[each, columns], events[:, None])

    def of_shared_agents(self) -> NDArray[np.bool_]:
        """Which columns are those of agents that write nothing but shared memory."""
        columns = [first for number, first in enumerate(self.agent_columns) if number not in self.outer_agents]
        result = np.zeros(self.width, bool)
        result[(np.array(columns, np.int64)[:, None] + np.arange(self.ranks)).reshape(-1)] = True
        return result

    def agent_record(self, agent: int, cta: int) -> int:
        """Who a CTA's agent is in records of accesses."""
        # each is a warp of its own, so that of two agents that read one place none hides the other
        return self.last_agent - WARP * (agent * self.lanes.ctas + cta)

    def agent_of(self, who: Index) -> tuple[Index, Index]:
        """(agent, CTA of the chunk) of those whom records name; the agent is negative for one of an earlier chunk."""
        agent, cta = np.divmod((self.last_agent - who) // WARP, self.lanes.ctas)
        return agent, cta

    @property
    def next_agent(self) -> int:
        """Who the next agent of the first CTA would be in records."""
        return self.agent_record(len(self.agent_columns), 0)

    @property
    def any_agents(self) -> bool:
        """Whether records may name some."""
        return self.next_agent < LAST_AGENT

    def is_agent(self, who: Index) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = who > self.next_agent
        return result

    def widen(self, count: int) -> None:
        self.views = np.pad(self.views, ((0, 0), (0, 0), (0, 0), (0, count)))

    # what threads release, learn and fence

    def parted(self, positions: Index) -> tuple[Index, Index, Index]:
        """(CTA, warp) of each warp that is whole among threads, and the positions of the others."""
        warp = self.lanes.full["chunk_warp"][positions]
        counts = np.bincount(warp, minlength=self.warp_sizes.size)
        whole = counts == self.warp_sizes
        if not np.count_nonzero(whole):
            return NOBODY, NOBODY, positions
        ctas, warps = np.divmod(np.flatnonzero(whole), self.warps)
        alone = positions[~whole[warp]]
        return ctas, warps, alone

    def at_home(self, positions: Index) -> tuple[Index, Index]:
        """(CTA of the chunk, warp of it) of threads."""
        ctas, warps = np.divmod(self.lanes.full["chunk_warp"][positions], self.warps)
        return ctas, warps

    def released(self, positions: Index, now: int, cta_start: Index, warp_start: Index) -> RowOfEach:
        """What threads know and have done until the event `now`.

        cta_start, warp_start: since which event the CTAs and warps of the chunk are synchronised.
        """
        ctas, warps, alone = self.parted(positions)
        columns = self.need_columns(alone)
        message = self.nothing()
        concerned = np.zeros(self.lanes.ctas, bool)
        if ctas.size:
            self.gather(message, ctas, self.views[:, ctas, warps])
            for warp, own in self.rows_of.items():
                at = ctas[warps == warp]
                message[:, at] = np.maximum(message[:, at], self.views[:, at][:, :, own].max(axis=2))
            for plane in self.own:
                message[plane, ctas, self.warp_columns(ctas, warps)] = now
            concerned[ctas] = True
        if alone.size:
            home, warps_alone = self.at_home(alone)
            self.gather(message, home, self.views[:, home, warps_alone])
            rows = self.rows[self.lanes.full["thread"][alone]]
            has = rows >= 0
            self.gather(message, home[has], self.views[:, home[has], rows[has]])
            starts = warp_start[self.lanes.full["chunk_warp"][alone]] - 1
            for plane in self.own:
                np.maximum.at(message[plane], (home, self.warp_columns(home, warps_alone)), starts)
                message[plane, home, columns] = now
            concerned[home] = True
        home = np.flatnonzero(concerned)
        for plane in self.own:
            rows = message[plane, home]
            self.raise_all_warps(rows, home, cta_start[home] - 1)
            message[plane, home] = rows
        return message

    def known_to(self, position: int, cta_start: Index, warp_start: Index) -> Index:
        """Return up to which event a thread knows each column's threads to have executed."""
        cta, warp = divmod(int(self.lanes.full["chunk_warp"][position]), self.warps)
        thread = position % self.lanes.threads
        known: Index = self.views[self.executed, cta, warp].copy()
        if self.rows[thread] >= 0:
            np.maximum(known, self.views[self.executed, cta, self.rows[thread]], out=known)
        first = cta % self.ranks * self.warps
        np.maximum(known[first : first + self.warps], cta_start[cta] - 1, out=known[first : first + self.warps])
        known[first + warp] = max(known[first + warp], warp_start[cta * self.warps + warp] - 1)
        return known

    def gather(self, message: RowOfEach, ctas: Index, rows: RowOfEach) -> None:
        """Join rows to those of a message, by their CTAs, which ascend."""
        if not ctas.size:
            return
        starts = np.flatnonzero(np.diff(ctas, prepend=-1))
        if starts.size < ctas.size:
            rows = np.maximum.reduceat(rows, starts, axis=1)
            ctas = ctas[starts]
        message[:, ctas] = np.maximum(message[:, ctas], rows)

    def learn(self, positions: Index, message: RowOfEach) -> None:
        """Threads learn what a message says: their warp, where it does so as a whole."""
        message = self.widened(message)
        ctas, warps, alone = self.parted(positions)
        if ctas.size:
            self.views[:, ctas, warps] = np.maximum(self.views[:, ctas, warps], message[:, ctas])
        if alone.size:
            rows = self.need_rows(alone)
            home, _ = self.at_home(alone)
            self.views[:, home, rows] = np.maximum(self.views[:, home, rows], message[:, home])

    def learn_products(self, warps: Index, events: Index) -> None:
        """All threads of these warps of the chunk have waited for their warpgroups' products up to these events."""
        ctas, inside = np.divmod(warps, self.warps)
        groups = (inside * WARP // WARPGROUP).tolist()
        columns = [self.agent_column(products_of(g), c) for g, c in zip(groups, ctas.tolist(), strict=True)]
        self.views[GENERIC, ctas, inside, columns] = np.maximum(self.views[GENERIC, ctas, inside, columns], events)

    def fence_proxy(self, positions: Index, space: str, now: int, cta_start: Index, warp_start: Index) -> None:
        """What threads know and have done may now be seen by the asynchronous proxy. space: "" for both.

        A fence of a whole warp counts for its lanes' accesses wherever these are known: also for a lane that learns of
        one from a message that was released before the fence, which is too lenient.
        """
        if not self.has_proxies:
            return
        planes = [PROXY_PLANES[space]] if space else list(PROXY_PLANES.values())
        ctas, warps, alone = self.parted(positions)
        columns = self.need_columns(alone)
        rows = self.need_rows(alone)
        home, warp = self.at_home(alone)
        for plane in planes:
            view = self.views[plane]
            if ctas.size:
                told = np.maximum(view[ctas, warps], self.views[GENERIC, ctas, warps])
                self.raise_all_warps(told, ctas, cta_start[ctas] - 1)
                told[np.arange(ctas.size), self.warp_columns(ctas, warps)] = now
                view[ctas, warps] = told
                for of_warp, own in self.rows_of.items():
                    at = ctas[warps == of_warp][:, None]
                    view[at, own] = np.maximum(view[at, own], self.views[GENERIC, at, own])
            if alone.size:
                told = np.maximum(self.views[GENERIC, home, warp], self.views[GENERIC, home, rows])
                self.raise_all_warps(told, home, cta_start[home] - 1)
                each = np.arange(alone.size)
                starts = warp_start[self.lanes.full["chunk_warp"][alone]] - 1
                mine = self.warp_columns(home, warp)
                told[each, mine] = np.maximum(told[each, mine], starts)
                told[each, columns] = now
                view[home, rows] = np.maximum(view[home, rows], told)

    # who meets

    def meet_ctas(self, ctas: Index) -> None:
        """All threads of these CTAs have met."""
        self.views[:, ctas] = self.views[:, ctas].max(axis=2, keepdims=True)

    def meet_warps(self, positions: Index) -> None:
        """All threads of the warps of these threads have met."""
        if not self.rows_of:
            return
        met = np.zeros((self.lanes.ctas, self.warps), bool)
        met.reshape(-1)[self.lanes.full["chunk_warp"][positions]] = True
        for warp, rows in self.rows_of.items():
            ctas = np.flatnonzero(met[:, warp])
            if ctas.size:
                together = self.views[:, ctas][:, :, rows].max(axis=2)
                self.views[:, ctas, warp] = np.maximum(self.views[:, ctas, warp], together)

    def meet_lanes(self, positions: Index, starts: Index) -> None:
        """Threads from each start to the next, lanes of one warp, have met."""
        if not self.rows_of:
            return
        for members in np.split(positions, starts[1:]):
            threads = self.lanes.full["thread"][members]
            rows = self.rows[threads]
            if (rows < 0).all():
                continue
            cta = int(self.lanes.full["chunk_cta"][members[0]])
            together = self.views[:, cta, rows[rows >= 0]].max(axis=1)
            rows = self.need_rows(members)
            self.views[:, cta, rows] = together[:, None]

    # the question

    def events_of(self, plane: int, who: Index, by: Index) -> Index:
        """Up to which event each thread `by`, by its position, sees the accesses of somebody of its own cluster."""
        rows_of_cta, width = self.views.shape[2:]
        flat = self.views[plane].reshape(-1)
        chunk_warp = self.lanes.full["chunk_warp"][by]
        ctas = chunk_warp // self.warps
        first = ctas * rows_of_cta
        row = (first + chunk_warp - ctas * self.warps) * width
        own = self.rows[self.lanes.full["thread"][by]] if self.rows_of else None
        alone = np.flatnonzero(own >= 0) if own is not None else NOBODY
        own_row = (first[alone] + own[alone]) * width if own is not None else NOBODY
        result = np.zeros(who.size, np.int64)
        for columns in self.columns_of(who):
            at = np.flatnonzero(columns >= 0)
            if at.size == columns.size:
                np.maximum(result, flat[row + columns], out=result)
            else:
                result[at] = np.maximum(result[at], flat[row[at] + columns[at]])
            if alone.size:
                seen = np.where(columns[alone] >= 0, flat[own_row + columns[alone]], 0)
                result[alone] = np.maximum(result[alone], seen)
        return result

    def seen_of_all_warps(self, plane: int, by: Index) -> Index:
        """For each row of `by`, threads of one CTA, return up to which event all see the accesses of all its warps."""
        ctas, warps = self.at_home(by)
        columns = ctas[:, :1] % self.ranks * self.warps + np.arange(self.warps)
        result: Index = self.views[plane, ctas[:, :, None], warps[:, :, None], columns[:, None]].min(axis=(1, 2))
        return result

    def latest_known(self, agent: int, cta: int) -> int:
        """Up to which event some thread of a CTA of the chunk sees the accesses of an agent of its."""
        return int(self.views[GENERIC, cta, :, self.agent_columns[agent] + cta % self.ranks].max())

    def executed_for(self, cta: int, who: Index) -> Index:
        """Up to which event some thread of a CTA of the chunk knows that threads of its cluster have come."""
        assert self.executed is not None, "clusters of several CTAs keep that"
        known = self.views[self.executed, cta].max(axis=0)
        result = np.zeros(who.size, np.int64)
        for columns in self.columns_of(who):
            result = np.maximum(result, np.where(columns >= 0, known[columns], 0))
        return result

    def columns_of(self, who: Index) -> list[Index]:
        """The columns that speak of each thread or agent; -1 for none."""
        threads = (who - 1) % self.lanes.threads
        warps = threads // WARP
        own = self.columns[threads]
        if self.ranks > 1:
            rank = (who - 1) // self.lanes.threads % self.ranks
            warps = warps + rank * self.warps
            own = np.where(own >= 0, own + rank, own)
        if self.agent_columns:
            agents = self.is_agent(who)
            if np.count_nonzero(agents):
                number, cta = self.agent_of(who)
                columns = np.array(self.agent_columns)[np.where(agents, number, 0)] + cta % self.ranks
                warps = np.where(agents, columns, warps)
                own = np.where(agents, -1, own)
        return [warps, own] if np.count_nonzero(own >= 0) else [warps]
