"""Vector clocks of the warps of a cluster.

They are kept for kernels with mbarriers, barriers of a part of a CTA or of a cluster, or the asynchronous proxy. A
*view* is a row with an event per column: the accesses of the column's threads, or agent, up to that event happen before
what the view's owner does next. Some threads need a row or column of their own, because they have released or acquired
something, executed a proxy fence or synchronized at a warp barrier without the rest of their warp.

    columns   the cluster's warps, rank by rank; then, with one column per rank, such threads and agents (`agents.py`)
    rows      a CTA's warps, and such threads
    planes    the clocks for ordinary accesses; in kernels with the asynchronous proxy, its clocks for shared and for
              global memory; in these and in clusters of several CTAs, the events known to be executed, whether or not
              their accesses are visible

A proxy fence joins the first plane into one or both of the proxy's planes. Barriers and messages update all planes,
except messages about agents and some to other CTAs (`order.py`). A *message* lists the events that some threads release
and others acquire: in each plane, a row for each acquiring CTA. Rows and columns have the same meaning in all CTAs of
a chunk. Without clusters, each CTA is a cluster.

source: PTX ISA, "Memory Consistency Model": "Causality order", "Proxies"; "mbarrier".
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
# In records, agents are numbered down from here in steps of WARP, and threads up from 1.
LAST_AGENT = (1 << 30) - 1
EMPTY = np.zeros(0, np.int64)


def products_of(group: int) -> Hashable:
    """Return the name of the agent that performs the matrix products of a CTA's warpgroup.

    All four warps issue a product together, so an event of this agent implies that all of them have reached it.
    """
    return "products", group


class Clocks:
    """The views of a chunk's CTAs."""

    def __init__(self, lanes: Lanes, proxies: bool, before: Clocks | None) -> None:
        """proxies: True if the kernel uses the asynchronous proxy. before: the clocks of the previous chunk, if any."""
        #: the number of the chunk's first agent in records; agents of earlier chunks have larger numbers
        self.last_agent = LAST_AGENT if before is None else before.next_agent
        self.lanes = lanes
        self.warps = lanes.warps_per_cta
        self.ranks = lanes.ranks
        planes = 1 + len(PROXY_PLANES) * proxies
        #: the plane of executed events, if there is one
        self.executed = planes if self.ranks > 1 or proxies else None
        #: the planes in which a thread's own events count without a proxy fence
        self.own = (GENERIC,) if self.executed is None else (GENERIC, self.executed)
        planes += self.executed is not None
        #: plane x CTA x row x column → event
        self.views = np.zeros((planes, lanes.ctas, self.warps, self.ranks * self.warps), np.int64)
        #: the row of each thread of a CTA, and its column for rank 0; -1 for none
        self.rows, self.columns = np.full((2, lanes.threads), -1)
        #: warp → the rows of its threads
        self.rows_of: dict[int, list[int]] = {}
        #: name of an agent → its index
        self.agents: dict[Hashable, int] = {}
        #: agent → its column for rank 0
        self.agent_columns: list[int] = []
        #: indices of the agents that have written memory other than shared
        self.outer_agents: set[int] = set()
        sizes = np.full(self.warps, WARP)
        sizes[-1] = lanes.threads - WARP * (self.warps - 1)
        self.warp_sizes = np.tile(sizes, lanes.ctas)

    @property
    def width(self) -> int:
        return self.views.shape[-1]

    def nothing(self) -> RowOfEach:
        return np.zeros((self.views.shape[0], self.lanes.ctas, self.width), np.int64)

    def widened(self, message: RowOfEach) -> RowOfEach:
        missing = self.width - message.shape[-1]
        return np.pad(message, ((0, 0), (0, 0), (0, missing))) if missing else message

    def need_rows(self, positions: Index) -> Index:
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
        threads = self.lanes.full["thread"][positions]
        fresh = np.unique(threads[self.columns[threads] < 0])
        if fresh.size:
            self.columns[fresh] = self.width + self.ranks * np.arange(fresh.size)
            self.widen(self.ranks * fresh.size)
        result: Index = self.columns[threads]
        return result if self.ranks == 1 else result + self.lanes.full["chunk_cta"][positions] % self.ranks

    def agent(self, name: Hashable) -> int:
        """Return the index of the agents called `name`, of which each CTA has one; add them if they are new."""
        if name not in self.agents:
            self.agents[name] = len(self.agent_columns)
            self.agent_columns.append(self.width)
            self.widen(self.ranks)
        return self.agents[name]

    def agent_column(self, name: Hashable, cta: int) -> int:
        return self.agent_columns[self.agent(name)] + cta % self.ranks

    def warp_columns(self, ctas: Index, warps: Index) -> Index:
        return warps if self.ranks == 1 else ctas % self.ranks * self.warps + warps

    def raise_all_warps(self, rows: RowOfEach, ctas: Index, events: Index) -> None:
        if self.ranks == 1:
            rows[:, : self.warps] = np.maximum(rows[:, : self.warps], events[:, None])
            return
        each = np.arange(ctas.size)[:, None]
        columns = self.warp_columns(ctas[:, None], np.arange(self.warps))
        rows[each, columns] = np.maximum(rows[each, columns], events[:, None])

    def shared_agent_columns(self) -> NDArray[np.bool_]:
        columns = [first for number, first in enumerate(self.agent_columns) if number not in self.outer_agents]
        result = np.zeros(self.width, bool)
        result[(np.array(columns, np.int64)[:, None] + np.arange(self.ranks)).reshape(-1)] = True
        return result

    def agent_record(self, agent: int, cta: int) -> int:
        # Each agent has its own warp number, so that `read_by_group` rarely merges agents that read one cell.
        return self.last_agent - WARP * (agent * self.lanes.ctas + cta)

    def agent_of(self, actors: Index) -> tuple[Index, Index]:
        """Return (agent, CTA of the chunk) of actors in records; indices of earlier chunks' agents are negative."""
        agent, cta = np.divmod((self.last_agent - actors) // WARP, self.lanes.ctas)
        return agent, cta

    @property
    def earlier_agents(self) -> int:
        """The number of agents of earlier chunks."""
        return (LAST_AGENT - self.last_agent) // WARP

    @property
    def next_agent(self) -> int:
        return self.agent_record(len(self.agent_columns), 0)

    @property
    def any_agents(self) -> bool:
        return self.next_agent < LAST_AGENT

    def is_agent(self, actors: Index) -> NDArray[np.bool_]:
        return actors > self.next_agent

    def widen(self, count: int) -> None:
        self.views = np.pad(self.views, ((0, 0), (0, 0), (0, 0), (0, count)))

    def split_warps(self, positions: Index) -> tuple[Index, Index, Index]:
        """Return the CTA and the index in the CTA of each complete warp in `positions`, and the other threads."""
        warp = self.lanes.full["chunk_warp"][positions]
        counts = np.bincount(warp, minlength=self.warp_sizes.size)
        whole = counts == self.warp_sizes
        if not np.count_nonzero(whole):
            return EMPTY, EMPTY, positions
        ctas, warps = np.divmod(np.flatnonzero(whole), self.warps)
        alone = positions[~whole[warp]]
        return ctas, warps, alone

    def ctas_and_warps(self, positions: Index) -> tuple[Index, Index]:
        ctas, warps = np.divmod(self.lanes.full["chunk_warp"][positions], self.warps)
        return ctas, warps

    def released(self, positions: Index, now: int, cta_start: Index, warp_start: Index) -> RowOfEach:
        """Return a message of threads' events up to `now`, and of those that their views or barriers order before it.

        cta_start, warp_start: the event of the last barrier of each CTA and warp of the chunk.
        """
        ctas, warps, alone = self.split_warps(positions)
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
            home, warps_alone = self.ctas_and_warps(alone)
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
        """Join rows into a message. ctas: the CTA of each row, ascending."""
        if not ctas.size:
            return
        starts = np.flatnonzero(np.diff(ctas, prepend=-1))
        if starts.size < ctas.size:
            rows = np.maximum.reduceat(rows, starts, axis=1)
            ctas = ctas[starts]
        message[:, ctas] = np.maximum(message[:, ctas], rows)

    def learn(self, positions: Index, message: RowOfEach) -> None:
        message = self.widened(message)
        ctas, warps, alone = self.split_warps(positions)
        if ctas.size:
            self.views[:, ctas, warps] = np.maximum(self.views[:, ctas, warps], message[:, ctas])
        if alone.size:
            rows = self.need_rows(alone)
            home, _ = self.ctas_and_warps(alone)
            self.views[:, home, rows] = np.maximum(self.views[:, home, rows], message[:, home])

    def learn_products(self, warps: Index, events: Index) -> None:
        """Order matrix products up to these events before all threads of these warps, which have waited for them."""
        ctas, inside = np.divmod(warps, self.warps)
        groups = (inside * WARP // WARPGROUP).tolist()
        columns = [self.agent_column(products_of(g), c) for g, c in zip(groups, ctas.tolist(), strict=True)]
        self.views[GENERIC, ctas, inside, columns] = np.maximum(self.views[GENERIC, ctas, inside, columns], events)

    def fence_proxy(self, positions: Index, space: str | None, now: int, cta_start: Index, warp_start: Index) -> None:
        """Make all accesses ordered before these threads visible to the asynchronous proxy. space: None for both.

        This is too lenient in one case: a fence by a whole warp also covers its lanes' earlier accesses for threads
        that acquired them from a message released before the fence.
        """
        planes = [PROXY_PLANES[space]] if space else list(PROXY_PLANES.values())
        ctas, warps, alone = self.split_warps(positions)
        columns = self.need_columns(alone)
        rows = self.need_rows(alone)
        home, warp = self.ctas_and_warps(alone)
        for plane in planes:
            view = self.views[plane]
            if ctas.size:
                known = np.maximum(view[ctas, warps], self.views[GENERIC, ctas, warps])
                self.raise_all_warps(known, ctas, cta_start[ctas] - 1)
                known[np.arange(ctas.size), self.warp_columns(ctas, warps)] = now
                view[ctas, warps] = known
                for of_warp, own in self.rows_of.items():
                    at = ctas[warps == of_warp][:, None]
                    view[at, own] = np.maximum(view[at, own], self.views[GENERIC, at, own])
            if alone.size:
                known = np.maximum(self.views[GENERIC, home, warp], self.views[GENERIC, home, rows])
                self.raise_all_warps(known, home, cta_start[home] - 1)
                each = np.arange(alone.size)
                starts = warp_start[self.lanes.full["chunk_warp"][alone]] - 1
                mine = self.warp_columns(home, warp)
                known[each, mine] = np.maximum(known[each, mine], starts)
                known[each, columns] = now
                view[home, rows] = np.maximum(view[home, rows], known)

    def join_ctas(self, ctas: Index) -> None:
        self.views[:, ctas] = self.views[:, ctas].max(axis=2, keepdims=True)

    def join_warps(self, positions: Index) -> None:
        if not self.rows_of:
            return
        joining = np.zeros((self.lanes.ctas, self.warps), bool)
        joining.reshape(-1)[self.lanes.full["chunk_warp"][positions]] = True
        for warp, rows in self.rows_of.items():
            ctas = np.flatnonzero(joining[:, warp])
            if ctas.size:
                joined = self.views[:, ctas][:, :, rows].max(axis=2)
                self.views[:, ctas, warp] = np.maximum(self.views[:, ctas, warp], joined)

    def join_lanes(self, positions: Index, starts: Index) -> None:
        if not self.rows_of:
            return
        for members in np.split(positions, starts[1:]):
            threads = self.lanes.full["thread"][members]
            rows = self.rows[threads]
            if (rows < 0).all():
                continue
            cta = int(self.lanes.full["chunk_cta"][members[0]])
            joined = self.views[:, cta, rows[rows >= 0]].max(axis=1)
            rows = self.need_rows(members)
            self.views[:, cta, rows] = joined[:, None]

    def events_of(self, plane: int, actors: Index, by: Index) -> Index:
        """Return each actor's last event in the view, in `plane`, of the thread at the same index of `by`; or 0."""
        rows_of_cta, width = self.views.shape[2:]
        flat = self.views[plane].reshape(-1)
        chunk_warp = self.lanes.full["chunk_warp"][by]
        ctas = chunk_warp // self.warps
        first = ctas * rows_of_cta
        row = (first + chunk_warp - ctas * self.warps) * width
        own = self.rows[self.lanes.full["thread"][by]] if self.rows_of else None
        alone = np.flatnonzero(own >= 0) if own is not None else EMPTY
        own_row = (first[alone] + own[alone]) * width if own is not None else EMPTY
        result = np.zeros(actors.size, np.int64)
        for columns in self.columns_of(actors):
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
        """Return, for each row of `by` (threads of one CTA), the event up to which they all see all the CTA's warps."""
        ctas, warps = self.ctas_and_warps(by)
        columns = ctas[:, :1] % self.ranks * self.warps + np.arange(self.warps)
        result: Index = self.views[plane, ctas[:, :, None], warps[:, :, None], columns[:, None]].min(axis=(1, 2))
        return result

    def latest_known(self, agent: int, cta: int) -> int:
        return int(self.views[GENERIC, cta, :, self.agent_columns[agent] + cta % self.ranks].max())

    def executed_for(self, cta: int, actors: Index) -> Index:
        assert self.executed is not None, "clusters of several CTAs have this plane"
        known = self.views[self.executed, cta].max(axis=0)
        result = np.zeros(actors.size, np.int64)
        for columns in self.columns_of(actors):
            result = np.maximum(result, np.where(columns >= 0, known[columns], 0))
        return result

    def columns_of(self, actors: Index) -> list[Index]:
        """Return each actor's warp or agent column; if any has a thread column, also each one's thread column or -1."""
        threads = (actors - 1) % self.lanes.threads
        warps = threads // WARP
        own = self.columns[threads]
        if self.ranks > 1:
            rank = (actors - 1) // self.lanes.threads % self.ranks
            warps = warps + rank * self.warps
            own = np.where(own >= 0, own + rank, own)
        if self.agent_columns:
            agents = self.is_agent(actors)
            if np.count_nonzero(agents):
                number, cta = self.agent_of(actors)
                columns = np.array(self.agent_columns)[np.where(agents, number, 0)] + cta % self.ranks
                warps = np.where(agents, columns, warps)
                own = np.where(agents, -1, own)
        return [warps, own] if np.count_nonzero(own >= 0) else [warps]
