"""Releases, and acquires, which advance the frontiers (`clock_sets.py`) of single threads.

A release is kept with the location that it writes. If a thread later reads the location by a strong access, and this
access or a later fence acquires, the release's frontier is joined into the thread's frontier, provided that the scope
of each side includes the other thread.

source: PTX ISA, "Memory Consistency Model": "Release and Acquire Patterns", "Memory synchronization", "Causality
order"; "Parallel Synchronization and Communication Instructions: membar / fence".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, field
from ...fast_unique import fast_unique
from ..machine.lanes import WARP, Index, Lanes
from ..opcodes.memory import Site
from .clock_sets import AGENT, CTA_OF, NOTHING, STEP_ELEMENTS, THREAD, WARP_OF, ClockSets, Rows
from .clocks import GENERIC, Clocks
from .records import Shadow

if TYPE_CHECKING:
    from .order import HappensBefore

# Kinds of releasing fences: all, those whose scope includes all CTAs, and those that are also sequentially consistent.
# Each thread's last fence of each kind is kept.
ANY, WIDE, CONSISTENT = 0, 1, 2


@dataclass(slots=True)
class ReleasedLocation:
    """The releases that a reader of a location may acquire."""

    #: the thread that released last, numbered in the grid from 1
    thread: int
    #: the frontier of the releases whose scope includes all CTAs
    wide: int = NOTHING
    #: CTA or cluster (`HappensBefore.reached`) → the frontier of its threads' releases; unused without narrow scopes
    near: dict[int, int] = field(default_factory=dict)

    def seen_by(self, group: int, wide: bool, frontiers: ClockSets) -> int:
        """Return the frontier that a reader in CTA or cluster `group` acquires. wide: its scope includes all CTAs."""
        near = self.near.get(group, NOTHING)
        return frontiers.join(near, self.wide) if wide else near


class ReleaseAcquire:
    """The frontiers of a chunk's threads, as part of a launch's `HappensBefore`."""

    def __init__(self, order: HappensBefore) -> None:
        self.order = order
        self.facts = order.facts
        self.clock_sets: ClockSets | None = None
        #: the records of the regions that may contain releases
        self.shadows: list[Shadow] = []

    def begin(self, lanes: Lanes) -> None:
        self.lanes = lanes
        #: the frontier of each thread of the chunk; None until it is needed
        self.frontier: Index | None = None
        #: True if a thread has executed a fence
        self.fences = False
        self.shadows = [shadow for shadow in self.shadows if not shadow.shared]

    @property
    def frontiers(self) -> ClockSets:
        if self.clock_sets is None:
            ctas = self.order.cta_start.size
            self.clock_sets = ClockSets(ctas * self.lanes.threads, self.order.warp_start.size, ctas)
        return self.clock_sets

    def need_frontiers(self) -> Index:
        """Return the threads' frontiers. This may renumber frontiers, so call it before reading any of them."""
        if self.frontier is None:
            total = self.lanes.total
            self.frontier = np.zeros(total, np.int64)
            #: scope (narrow, wide) of a later fence x thread → the frontier of the releases that the fence acquires
            self.seen = np.zeros((2, total), np.int64)
            #: kind of fence x (event, frontier, CTA start, warp start) x thread: the state at the thread's last fence
            self.fenced = np.zeros((3, 4, total), np.int64)
            #: thread → the frontier of releases by sequentially consistent fences that were shared at barriers
            self.spread = np.zeros(total, np.int64)
            #: thread → the frontier of releases that were read but not acquired, and then shared at barriers
            self.awaited = np.zeros(total, np.int64)
        elif self.frontiers.needs_sweep:
            self.sweep(self.frontier)
        return self.frontier

    def sweep(self, frontier: Index) -> None:
        locations = [x for shadow in self.shadows for x in shadow.releases.values()]
        wide = np.array([x.wide for x in locations], np.int64)
        near = np.array([number for x in locations for number in x.near.values()], np.int64)
        self.frontiers.sweep([frontier, self.seen, self.fenced[:, 1], self.spread, self.awaited, wide, near])
        renamed = iter(near.tolist())
        for location, number in zip(locations, wide.tolist(), strict=True):
            location.wide = number
            location.near = {cta: next(renamed) for cta in location.near}

    def learn(self, row: Rows, waiting: Index) -> None:
        frontier = self.need_frontiers()
        number = self.frontiers.number_of(self.frontiers.widened(row))
        frontier[waiting] = self.frontiers.joined(frontier[waiting], np.full(waiting.size, number))

    def joined_row(self, positions: Index) -> Rows | None:
        """Return the join of threads' frontiers as a row, or None if it is empty."""
        if self.frontier is None:
            return None
        row = self.frontiers.joined_row(fast_unique(self.frontier[positions]))
        return row if np.count_nonzero(row) else None

    def share_runs(self, positions: Index, starts: Index) -> None:
        sizes = np.diff(np.append(starts, positions.size))
        for size in fast_unique(sizes):
            self.share(positions[starts[sizes == size, None] + np.arange(size)])

    def share(self, groups: Index) -> None:
        """Synchronize the threads of each row: all get the join of their frontiers."""
        self.share_column(self.need_frontiers(), groups)
        if not self.facts.consistent:
            return
        self.share_column(self.spread, groups)
        self.share_column(self.awaited, groups)
        fenced = self.fenced[CONSISTENT][0][groups] > 0
        rows = np.flatnonzero(fenced.any(axis=1))
        if rows.size:
            self.share_fences(groups[rows], fenced[rows])
        seen = self.seen[1][groups]
        rows = np.flatnonzero(seen.any(axis=1))
        if rows.size:
            members = groups[rows]
            numbers = self.frontiers.joined_groups(seen[rows])
            self.awaited[members] = self.frontiers.joined(self.awaited[members[:, 0]], numbers)[:, None]

    def share_column(self, column: Index, groups: Index) -> None:
        values = column[groups]
        rows = np.flatnonzero((values != values[:, :1]).any(axis=1))
        if rows.size:
            column[groups[rows]] = self.frontiers.joined_groups(values[rows])[:, None]

    def share_fences(self, groups: Index, fenced: NDArray[np.bool_]) -> None:
        """Let the threads of each row release what the last sequentially consistent fence of each of them releases."""
        row, _ = np.nonzero(fenced)
        positions = groups[fenced]
        event, frontier, _, _ = self.fenced[CONSISTENT][:, positions]
        # if a whole warp has executed a fence together, one of its threads is enough
        warp = self.lanes.full["chunk_warp"][positions]
        _, firsts, which, counts = np.unique(
            np.stack([row, warp, event, frontier]), axis=1, return_index=True, return_inverse=True, return_counts=True
        )
        inside = self.lanes.threads - WARP * (warp % self.lanes.warps_per_cta)
        whole = counts[which.reshape(-1)] == np.minimum(WARP, inside)
        stays = ~whole
        stays[firsts] = True
        pasts = self.past(positions[stays], CONSISTENT, whole[stays])
        starts = np.flatnonzero(np.diff(row[stays], prepend=-1))
        rows = np.maximum.reduceat(pasts, starts, axis=0)
        self.spread[groups] = self.frontiers.raised(self.spread[groups[:, 0]], rows)[:, None]
        self.fenced[CONSISTENT][0][positions] = 0

    def fence(self, positions: Index, sem: str, wide: bool) -> None:
        """Execute a fence. sem: "sc", "acq_rel", "acquire" or "release". wide: the scope includes all CTAs."""
        now = self.order.tick(0)
        frontier = self.need_frontiers()
        self.fences = True
        if sem != "release":
            self.acquire(positions, self.seen[int(wide)][positions])
            if sem == "sc" and wide:
                self.acquire(positions, self.awaited[positions])
        if sem == "acquire":
            return
        numbers = frontier[positions]
        if self.order.clocks is not None:
            numbers = self.frontiers.raised(numbers, self.known_by_clocks(self.order.clocks, positions))
        kinds = [ANY, *([WIDE] if wide else []), *([CONSISTENT] if wide and sem == "sc" else [])]
        for kind in kinds:
            row = self.fenced[kind]
            row[0][positions] = now
            row[1][positions] = numbers
            row[2][positions] = self.order.cta_start[self.lanes.full["cta"][positions]]
            row[3][positions] = self.order.warp_start[self.lanes.full["warp"][positions]]

    def acquire(self, positions: Index, numbers: Index) -> None:
        assert self.frontier is not None
        self.frontier[positions] = self.frontiers.joined(self.frontier[positions], numbers)

    def past(self, positions: Index, kind: int | None = None, whole: NDArray[np.bool_] | None = None) -> Rows:
        """Return, as rows, the events that happen before each thread's last fence of `kind`.

        kind: None for the events that happen before each thread's next event.
        whole: mask of the threads whose entire warp has executed that fence together.
        """
        assert self.frontier is not None
        full = self.lanes.full
        thread, cta, warp = (full[x][positions].astype(np.int64) for x in ("gid", "cta", "warp"))
        if kind is None:
            numbers = self.frontier[positions]
            events = np.full(positions.size, self.order.event)
            cta_start, warp_start = self.order.cta_start[cta], self.order.warp_start[warp]
        else:
            events, numbers, cta_start, warp_start = self.fenced[kind][:, positions]
        frontiers = self.frontiers
        ctas, warps = frontiers.columns(CTA_OF, cta), frontiers.columns(WARP_OF, warp)
        mine = warps
        if whole is None or not whole.all():
            alone = np.flatnonzero(~whole) if whole is not None else slice(None)
            mine = warps.copy()
            mine[alone] = frontiers.columns(THREAD, thread[alone])
        each = np.arange(positions.size)
        leaves = [(each, ctas, cta_start - 1), (each, warps, warp_start - 1), (each, mine, events)]
        leaves.extend(self.neighbours(positions, events))
        if kind is None and self.order.clocks is not None:
            leaves.extend(self.neighbours_in_clocks(self.order.clocks, positions))
        rows = frontiers.widened(frontiers.rows(numbers))
        for at, columns, until in leaves:
            rows[at, columns] = np.maximum(rows[at, columns].astype(np.int64), until)
        return rows

    def neighbours(self, positions: Index, events: Index) -> list[tuple[Index, Index, Index]]:
        """List what partial warp barriers order before threads' `events`: (index into `positions`, column, event)."""
        full = self.lanes.full
        inside = full["chunk_warp"][positions]
        result = []
        if self.order.lane_clock is not None:
            lane = full["lane"][positions]
            clock = self.order.lane_clock[inside, lane]
            at, other = np.nonzero((clock > 0) & (clock <= events[:, None]))
            others = (full["gid"][positions].astype(np.int64) - lane)[at] + other
            result.append((at, self.frontiers.columns(THREAD, others), clock[at, other]))
        return result

    def known_by_clocks(self, clocks: Clocks, positions: Index) -> Rows:
        leaves = self.neighbours_in_clocks(clocks, positions)
        rows = np.zeros((positions.size, self.frontiers.width), np.uint32)
        for at, columns, until in leaves:
            rows[at, columns] = until
        return rows

    def neighbours_in_clocks(self, clocks: Clocks, positions: Index) -> list[tuple[Index, Index, Index]]:
        """List what `clocks` order before threads' next events: (index into `positions`, column, event)."""
        full = self.lanes.full
        cta, mine = clocks.ctas_and_warps(positions)
        view = clocks.views[GENERIC][cta, mine]
        own = clocks.rows[full["thread"][positions]]
        alone = np.flatnonzero(own >= 0)
        view[alone] = np.maximum(view[alone], clocks.views[GENERIC][cta[alone], own[alone]])
        first = cta // clocks.ranks * clocks.ranks
        at, other = np.nonzero(view[:, : clocks.ranks * clocks.warps])
        others = (first[at] + self.lanes.first) * clocks.warps + other
        leaves = [(at, self.frontiers.columns(WARP_OF, others), view[at, other])]
        threads = np.flatnonzero(clocks.columns >= 0)
        for rank in range(clocks.ranks):
            events = view[:, clocks.columns[threads] + rank]
            at, other = np.nonzero(events)
            others = (first[at] + self.lanes.first + rank) * self.lanes.threads + threads[other] + 1
            leaves.append((at, self.frontiers.columns(THREAD, others), events[at, other]))
            events = view[:, np.array(clocks.agent_columns, np.int64) + rank]
            at, other = np.nonzero(events)
            agents = self.frontiers.columns(AGENT, self.numbered(other, first[at] + rank))
            leaves.append((at, agents, events[at, other]))
        return leaves

    def numbered(self, agents: Index, ctas: Index) -> Index:
        """Return the numbers in the launch of agents of the chunk's CTAs."""
        return self.order.need_clocks().earlier_agents + agents * self.lanes.ctas + ctas

    def released(self, positions: Index, site: Site) -> tuple[Rows, Rows]:
        """Return the rows that a strong write of each thread releases to all CTAs, and to its narrow scope."""
        parts: list[tuple[Index, Rows, bool]] = []
        if site.release:
            parts.append((np.arange(positions.size), self.past(positions), site.wide))
        if self.fences:
            any_event, wide_event = self.fenced[ANY][0][positions], self.fenced[WIDE][0][positions]
            for kind, has in ((WIDE, wide_event > 0), (ANY, any_event > wide_event)):
                at = np.flatnonzero(has)
                if at.size:
                    parts.append((at, self.past(positions[at], kind), kind == WIDE and site.wide))
            at = np.flatnonzero(self.spread[positions])
            if at.size:
                parts.append((at, self.frontiers.rows(self.spread[positions[at]]), site.wide))
        wide = np.zeros((positions.size, self.frontiers.width), np.uint32)
        near = wide.copy() if self.facts.narrow else wide
        for at, rows, reaches in parts:
            rows = self.frontiers.widened(rows)
            if reaches:
                wide[at] = np.maximum(wide[at], rows)
            if self.facts.narrow:
                near[at] = np.maximum(near[at], rows)
        return wide, near

    def strong_read(self, shadow: Shadow, cells: Index, positions: Index, site: Site) -> None:
        """Let threads acquire releases that they read, now or at a later fence. cells: each location's first cell."""
        if not shadow.releases:
            return
        assert shadow.released is not None
        hits = np.flatnonzero(shadow.released[cells])
        if not hits.size:
            return
        self.need_frontiers()
        keys, positions = cells[hits], positions[hits]
        group = self.order.reached(self.lanes.full["cta"][positions])
        if self.facts.narrow:
            keys = keys * self.order.cta_start.size + group
        _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
        which = which.reshape(-1)
        scopes = [(0, False)] if self.facts.narrow and not site.acquire else []
        for row, wide in (*scopes, (1, site.wide)):
            numbers = np.array([
                shadow.releases[int(cells[hits[i]])].seen_by(int(group[i]), wide, self.frontiers) for i in firsts
            ])[which]
            # an acquire leaves nothing for a later fence
            if site.acquire:
                self.acquire(positions, numbers)
            else:
                self.seen[row][positions] = self.frontiers.joined(self.seen[row][positions], numbers)

    def strong_write(
        self, shadow: Shadow, cells: Index, positions: Index, site: Site, writes: NDArray[np.bool_] | bool = True
    ) -> None:
        """Record strong stores, or atomic updates in thread order, which may also read.

        cells: as in `strong_read`. writes: a mask of the threads that write; the others only read.
        """
        concerned = np.full(cells.size, site.release)
        if self.fences:
            concerned |= (self.fenced[ANY][0][positions] > 0) | (self.spread[positions] > 0)
        concerned &= writes
        if not np.count_nonzero(concerned):
            if site.kind == "atomic" and site.reads:
                self.strong_read(shadow, cells, positions, site)
            if site.kind == "atomic" or not shadow.releases:
                return
        marks = shadow.need_released()
        self.need_frontiers()
        if shadow not in self.shadows:
            self.shadows.append(shadow)
        if concerned.all():
            at = np.arange(cells.size)
        else:
            at = np.flatnonzero(np.isin(cells, cells[concerned]) | marks[cells])
        at = at[np.argsort(cells[at], kind="stable")]
        # Each of these threads may add a column to the frontiers.
        step = max(1, STEP_ELEMENTS // (self.frontiers.width + at.size))
        for begin in range(0, at.size, step):
            some = at[begin : begin + step]
            wide, near = self.released(positions[some], site)
            wide[~concerned[some]] = 0
            near[~concerned[some]] = 0
            firsts = np.flatnonzero(np.diff(cells[some], prepend=-1)).tolist()
            for first, end in zip(firsts, [*firsts[1:], some.size], strict=True):
                members = some[first:end]
                write = self.update if site.kind == "atomic" else self.replace
                write(shadow, int(cells[members[0]]), positions[members], concerned[members],
                      wide[first:end], near[first:end], site)

    def replace(
        self, shadow: Shadow, cell: int, positions: Index, concerned: NDArray[np.bool_], wide: Rows, near: Rows,
        site: Site,
    ) -> None:
        """Record stores to a location, which drop its releases, unless only the thread that released last stores."""
        thread = int(self.lanes.full["gid"][positions[-1]])
        location = shadow.releases.get(cell)
        if location is not None and (positions.size > 1 or location.thread != thread):
            location = None
        if concerned[-1]:
            location = location or ReleasedLocation(thread)
            self.add(location, positions[-1:], wide[-1], near[-1:])
        shadow.release_at(cell, location)

    def update(
        self, shadow: Shadow, cell: int, positions: Index, concerned: NDArray[np.bool_], wide: Rows, near: Rows,
        site: Site,
    ) -> None:
        """Record updates of a location in thread order. Each adds its releases; if it reads, it sees earlier ones."""
        location = shadow.releases.get(cell)
        group = self.order.reached(self.lanes.full["cta"][positions])
        to_all = chain(self.frontiers.row(location.wide if location is not None else NOTHING), wide)
        to_mine = to_all
        if self.facts.narrow:
            to_mine = np.zeros_like(to_all)
            for one in fast_unique(group).tolist():
                at = np.flatnonzero(group == one)
                start = location.near.get(one, NOTHING) if location is not None else NOTHING
                to_mine[at] = chain(self.frontiers.row(start), near[at])[:-1]
        if site.reads:
            reached = np.maximum(to_all, to_mine)[:-1] if site.wide else to_mine[:-1]
            assert self.frontier is not None
            if site.acquire:
                self.frontier[positions] = self.frontiers.raised(self.frontier[positions], reached)
            else:
                for row, rows in ((0, to_mine[:-1]), (1, reached))[not self.facts.narrow :]:
                    self.seen[row][positions] = self.frontiers.raised(self.seen[row][positions], rows)
        releasing = positions[concerned]
        if not releasing.size:
            return
        if location is None:
            location = ReleasedLocation(0)
            shadow.release_at(cell, location)
        location.thread = int(self.lanes.full["gid"][releasing[-1]])
        self.add(location, positions, to_all[-1], near)

    def add(self, location: ReleasedLocation, positions: Index, wide: Rows, near: Rows) -> None:
        """Add releases to a location. wide: the row for all CTAs. near: a row per thread, for its narrow scope."""
        location.wide = self.frontiers.raised_one(location.wide, wide)
        if not self.facts.narrow:
            return
        group = self.order.reached(self.lanes.full["cta"][positions])
        for one in fast_unique(group).tolist():
            rows = near[group == one].max(axis=0)
            location.near[one] = self.frontiers.raised_one(location.near.get(one, NOTHING), rows)

    def weak_write(self, shadow: Shadow, cells: Index) -> None:
        for cell in cells[shadow.need_released()[cells]].tolist():
            shadow.release_at(cell, None)


def chain(start: Rows, rows: Rows) -> Rows:
    """Return the running joins of `start` with the rows: before each row, and after the last one."""
    result = np.empty((len(rows) + 1, start.size), np.uint32)
    result[0] = start
    # np.maximum.accumulate takes three to nine times as long
    for i, row in enumerate(rows):
        np.maximum(result[i], row, out=result[i + 1])
    return result
