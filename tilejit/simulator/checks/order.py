"""What happens before what: event numbers, barriers, and what threads learn of each other through flags.

Every executed memory instruction is an event, numbered in the order of the simulation. Barriers of a whole CTA and of
a whole warp are one number each: every event before it has happened for all its threads. Anything else (named
barriers, barriers of a part of a warp, releases and acquires) moves the frontiers of single threads.

A release is kept with the location that it wrote. Who reads that location later by a strong access, and acquires by it
or by a fence behind it, joins the frontier of the release to its own, if the scopes of both reach the other thread.

source: PTX ISA, "Memory Consistency Model": "Release and Acquire Patterns", "Memory synchronization", "Causality
order"; "Parallel Synchronization and Communication Instructions: membar / fence".
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..machine.lanes import WARP, Index, Lanes
from ..opcodes.memory import Site
from .frontiers import CTA_KEY, NOTHING, WARP_KEY, Frontiers
from .records import Shadow

# Rows of what a thread's fences keep: the last fence of any scope, the last that reaches other CTAs, and the last of
# those that is sequentially consistent.
ANY, WIDE, CONSISTENT = 0, 1, 2


@dataclass(slots=True)
class Release:
    """What one write released to a location, behind the releases that its chain of atomics continues.

    wide: reaches other CTAs. every_wide: so do all in front of it.
    seen: by whom → the frontier that the whole chain gives; None for readers everywhere.
    """

    frontier: int
    thread: int
    cta: int
    wide: bool
    before: Release | None
    every_wide: bool = False
    seen: dict[tuple[int, bool] | None, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.every_wide = self.wide and (self.before is None or self.before.every_wide)

    def seen_by(self, cta: int, wide: bool, frontiers: Frontiers) -> int:
        """The frontier that a reader in `cta` gets, whose scope reaches other CTAs if `wide`."""
        key = None if wide and self.every_wide else (cta, wide)
        chain: list[Release] = []
        release: Release | None = self
        while release is not None and key not in release.seen:
            chain.append(release)
            release = release.before
        result = release.seen[key] if release is not None else NOTHING
        for release in reversed(chain):
            if release.cta == cta or (release.wide and wide):
                result = frontiers.join(result, release.frontier)
            release.seen[key] = result
        return result


class Order:
    """Event numbers, since which event each CTA and warp is synchronised, and each thread's frontier.

    frontier: of each thread of the chunk, None until something moves one.
    seen: per thread, what it read by strong accesses and hasn't acquired: from its own CTA, and from everywhere.
    fenced: per thread and kind of fence, the event, frontier, start of CTA and of warp at the last one.
    spread: per thread, what sequentially consistent fences in front of a barrier released, whoever executed them.
    awaited: the same of what others read in front of a barrier.
    """

    def __init__(self, ctas: int, warps: int, lanes: Lanes, collectives_order: bool) -> None:
        self.event = 1
        self.pcs = array("I", [0, 0])
        self.cta_start = np.zeros(ctas, np.int64)
        self.warp_start = np.zeros(warps, np.int64)
        self.common_start: int | None = 0
        self.collectives_order = collectives_order
        self.frontiers = Frontiers()
        self.begin(lanes)

    def begin(self, lanes: Lanes) -> None:
        """Start a chunk."""
        self.lanes = lanes
        self.frontier: Index | None = None
        self.fences = False

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

    def need_frontiers(self) -> Index:
        """The threads' frontiers, made at the first use in a chunk."""
        if self.frontier is None:
            total = self.lanes.total
            self.frontier = np.zeros(total, np.int64)
            self.seen = np.zeros((2, total), np.int64)
            self.fenced = np.zeros((3, 4, total), np.int64)
            self.spread = np.zeros(total, np.int64)
            self.awaited = np.zeros(total, np.int64)
        return self.frontier

    def position(self, thread: Index) -> Index:
        """The place in the chunk of threads by their number in the grid."""
        return thread - (1 + self.lanes.first * self.lanes.threads)

    # barriers

    def cta_barrier(self, ctas: Index, all_of_chunk: bool) -> None:
        """All threads of these CTAs have met."""
        self.tick(0)
        self.cta_start[ctas] = self.event
        self.common_start = self.event if all_of_chunk else None
        if self.frontier is not None:
            self.share((ctas - self.lanes.first)[:, None] * self.lanes.threads + np.arange(self.lanes.threads))

    def warp_barrier(self, positions: Index) -> None:
        """All threads of the warps that these threads belong to have met."""
        self.tick(0)
        warps = self.lanes.full["warp"]
        self.warp_start[warps if positions.size == warps.size else warps[positions]] = self.event
        if self.frontier is not None:
            warp = self.lanes.full["chunk_warp"][positions]
            if positions.size % WARP == 0 and (warp.reshape(-1, WARP) == warp[::WARP, None]).all():
                self.share(positions.reshape(-1, WARP))
                return
            for one in np.unique(warp):
                self.share(positions[warp == one][None])

    def lanes_meet(self, positions: Index, groups: Index) -> None:
        """Threads with the same number in `groups`, lanes of one warp, have met."""
        now = self.tick(0)
        frontier = self.need_frontiers()
        for group in np.unique(groups):
            members = positions[groups == group]
            threads = self.lanes.full["gid"][members].astype(np.int64)
            together = self.frontiers.leaf(threads, np.full(members.size, now))
            frontier[members] = self.frontiers.join(together, self.joined(members))
            self.share(members[None])

    def some_meet(self, arrived: list[tuple[Index, int, int]], waiting: Index) -> None:
        """A barrier of a part of a CTA: (threads, event of their arrival, their frontiers joined); who waited goes on.

        All threads of their warps have arrived.
        """
        frontier = self.need_frontiers()
        result = NOTHING
        for positions, event, joined in arrived:
            warps = np.unique(self.lanes.full["warp"][positions])
            leaf = self.frontiers.leaf(warps | WARP_KEY, np.full(warps.size, event))
            result = self.frontiers.join(self.frontiers.join(result, leaf), joined)
        for old in np.unique(frontier[waiting]):
            at = waiting[frontier[waiting] == old]
            frontier[at] = self.frontiers.join(int(old), result)

    def joined(self, positions: Index) -> int:
        """What threads know together."""
        if self.frontier is None:
            return NOTHING
        return self.frontiers.join_all(np.unique(self.frontier[positions]))

    def share(self, groups: Index) -> None:
        """Threads of a row, which have met, know together what each knew."""
        assert self.frontier is not None
        for column in (self.frontier, self.spread, self.awaited):
            values = column[groups]
            for row in np.flatnonzero((values != values[:, :1]).any(axis=1)):
                column[groups[row]] = self.frontiers.join_all(np.unique(values[row]))
        consistent = self.fenced[CONSISTENT][0][groups]
        for row in np.flatnonzero(consistent.any(axis=1)):
            members = groups[row]
            fenced = members[consistent[row] > 0]
            self.spread[members] = self.frontiers.join(int(self.spread[members[0]]), self.at_fences(fenced))
            self.fenced[CONSISTENT][0][fenced] = 0
        seen = self.seen[1][groups]
        for row in np.flatnonzero(seen.any(axis=1)):
            members = groups[row]
            joined = self.frontiers.join_all(np.unique(seen[row]))
            self.awaited[members] = self.frontiers.join(int(self.awaited[members[0]]), joined)

    def at_fences(self, positions: Index) -> int:
        """What had happened at the last sequentially consistent fences of threads."""
        event, frontier, _, _ = self.fenced[CONSISTENT][:, positions]
        lanes = self.lanes
        keys, events = [], []
        for warp in np.unique(lanes.full["chunk_warp"][positions]):
            at = np.flatnonzero(lanes.full["chunk_warp"][positions] == warp)
            cta, inside = divmod(int(warp), lanes.warps_per_cta)
            if at.size == min(WARP, lanes.threads - WARP * inside) and (event[at] == event[at[0]]).all():
                keys.append((warp + lanes.first * lanes.warps_per_cta) | WARP_KEY)
                events.append(event[at[0]])
                continue
            keys.extend(lanes.full["gid"][positions[at]].astype(np.int64))
            events.extend(event[at])
        leaf = self.frontiers.leaf(keys, events)
        barriers = [self.past(int(p), CONSISTENT) for p in positions[:1]]
        return self.frontiers.join_all([leaf, *barriers, *np.unique(frontier)])

    # fences, releases and acquires

    def fence(self, positions: Index, sem: str, wide: bool) -> None:
        """A fence of these threads. sem: "sc" | "acq_rel" | "acquire" | "release"; wide: reaches other CTAs."""
        now = self.tick(0)
        frontier = self.need_frontiers()
        self.fences = True
        if sem != "release":
            self.acquire(positions, self.seen[int(wide)][positions])
            if sem == "sc" and wide:
                self.acquire(positions, self.awaited[positions])
        if sem == "acquire":
            return
        kinds = [ANY, *([WIDE] if wide else []), *([CONSISTENT] if wide and sem == "sc" else [])]
        for kind in kinds:
            row = self.fenced[kind]
            row[0][positions] = now
            row[1][positions] = frontier[positions]
            row[2][positions] = self.cta_start[self.lanes.full["cta"][positions]]
            row[3][positions] = self.warp_start[self.lanes.full["warp"][positions]]

    def acquire(self, positions: Index, numbers: Index) -> None:
        """Join frontiers to those of threads, one each."""
        assert self.frontier is not None
        if not np.count_nonzero(numbers):
            return
        pairs = np.stack([self.frontier[positions], numbers])
        each, which = np.unique(pairs, axis=1, return_inverse=True)
        joined = np.array([self.frontiers.join(int(a), int(b)) for a, b in each.T])
        self.frontier[positions] = joined[which.reshape(-1)]

    def past(self, position: int, kind: int | None = None) -> int:
        """What has happened for one thread: at its last fence of a kind, or now."""
        full = self.lanes.full
        thread, cta, warp = (int(full[x][position]) for x in ("gid", "cta", "warp"))
        if kind is None:
            frontier = NOTHING if self.frontier is None else int(self.frontier[position])
            event, cta_start, warp_start = self.event, int(self.cta_start[cta]), int(self.warp_start[warp])
        else:
            event, frontier, cta_start, warp_start = (int(x) for x in self.fenced[kind][:, position])
        leaf = self.frontiers.leaf((thread, warp | WARP_KEY, cta | CTA_KEY), (event, warp_start - 1, cta_start - 1))
        return self.frontiers.join(frontier, leaf)

    def releases(self, position: int, site: Site) -> list[tuple[int, bool]]:
        """(frontier, whether it reaches other CTAs) of what a strong write of a thread releases."""
        result: list[tuple[int, bool]] = []
        if site.release:
            result.append((self.past(position), site.wide))
        if not self.fences:
            return result
        assert self.frontier is not None
        any_event, wide_event = (int(self.fenced[kind][0][position]) for kind in (ANY, WIDE))
        if wide_event:
            result.append((self.past(position, WIDE), site.wide))
        if any_event > wide_event:
            result.append((self.past(position, ANY), False))
        if self.spread[position]:
            result.append((int(self.spread[position]), site.wide))
        return result

    def strong_read(self, shadow: Shadow, cells: Index, positions: Index, site: Site) -> None:
        """Threads look at locations, the cells at which they begin: they see what was released there."""
        if not shadow.releases:
            return
        assert shadow.released is not None
        hits = np.flatnonzero(shadow.released[cells])
        if not hits.size:
            return
        self.need_frontiers()
        keys = cells[hits] * self.cta_start.size + self.lanes.full["cta"][positions[hits]]
        _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
        for i, first in enumerate(firsts):
            at = positions[hits[which == i]]
            self.see(shadow.releases[int(cells[hits[first]])], at, site)

    def see(self, release: Release, positions: Index, site: Site) -> None:
        """Threads of one CTA have read what was written with a release."""
        assert self.frontier is not None
        cta = int(self.lanes.full["cta"][positions[0]])
        for row, wide in ((0, False), (1, site.wide)):
            number = release.seen_by(cta, wide, self.frontiers)
            for old in np.unique(self.seen[row][positions]):
                at = positions[self.seen[row][positions] == old]
                self.seen[row][at] = self.frontiers.join(int(old), number)
        if site.acquire:
            number = release.seen_by(cta, site.wide, self.frontiers)
            self.acquire(positions, np.full(positions.size, number))

    def strong_write(self, shadow: Shadow, cells: Index, positions: Index, site: Site) -> None:
        """Threads store to locations, or update them one after the other: they release, and atomics see too."""
        update = site.kind == "atomic"
        concerned = np.full(cells.size, site.release)
        if self.fences:
            concerned |= (self.fenced[ANY][0][positions] > 0) | (self.spread[positions] > 0)
        if not shadow.releases and not np.count_nonzero(concerned):
            return
        released = shadow.need_released()
        at = np.flatnonzero(np.isin(cells, cells[concerned]) | released[cells])
        self.need_frontiers()
        for i in at.tolist():
            cell, position = int(cells[i]), int(positions[i])
            before = shadow.releases.get(cell)
            fresh = self.releases(position, site) if concerned[i] else []
            thread, cta = int(self.lanes.full["gid"][position]), int(self.lanes.full["cta"][position])
            if update and before is not None and site.reads:
                self.see(before, positions[i : i + 1], site)
            if not update and before is not None and before.thread != thread:
                # a plain store ends the chain, but continues what the same thread released there before
                before = None
            for frontier, wide in fresh:
                before = Release(frontier, thread, cta, wide, before)
            shadow.release_at(cell, before)

    def weak_write(self, shadow: Shadow, cells: Index) -> None:
        """Stores that are not strong: what was released there is gone."""
        if shadow.releases:
            for cell in cells[shadow.need_released()[cells]].tolist():
                shadow.release_at(cell, None)

    # the question

    def ordered(self, thread: Index, events: Index, by: Index) -> NDArray[np.bool_]:
        """Whether events of threads have happened before whatever threads `by` do now."""
        cta, warp = self.home(thread)
        my_cta, my_warp = self.home(by)
        result = (cta == my_cta) & (events < self.cta_start[my_cta])
        result |= (warp == my_warp) & (events < self.warp_start[my_warp])
        if self.frontier is not None:
            numbers = self.frontier[self.position(by)]
            ask = np.flatnonzero(~result & (numbers != NOTHING))
            if ask.size:
                keys = thread[ask], warp[ask] | WARP_KEY, cta[ask] | CTA_KEY
                result[ask] = self.frontiers.reach(numbers[ask], keys, events[ask])
        answer: NDArray[np.bool_] = result
        return answer

    def home(self, thread: Index) -> tuple[Index, Index]:
        """(CTA, warp) of thread numbers, both counted over the grid."""
        at = thread - 1
        cta = at // self.lanes.threads
        return cta, cta * self.lanes.warps_per_cta + at % self.lanes.threads // WARP
