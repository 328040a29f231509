"""What happens before what: event numbers, barriers, and what threads learn of each other through flags.

Every executed memory instruction is an event, numbered in the order of the simulation. Barriers of a whole CTA and of
a whole warp are one number each: every event before it has happened for all its threads. Barriers of a
part of a CTA or of a warp have clocks for pairs of warps or of lanes. Releases and acquires move the frontiers of
single threads.

A release is kept with the location that it wrote. Who reads that location later by a strong access, and acquires by it
or by a fence behind it, joins the frontier of the release to its own, if the scopes of both reach the other thread.

source: PTX ISA, "Memory Consistency Model": "Release and Acquire Patterns", "Memory synchronization", "Causality
order"; "Parallel Synchronization and Communication Instructions: membar / fence".
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
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

    warp_clock: per CTA, warp and other warp of it, the event up to which barriers of a part of the CTA order the other.
    lane_clock: per warp, lane and other lane of it, the same of barriers of a part of the warp.
    frontier: of each thread of the chunk, None until a release moves one.
    seen: per thread, what it read by strong accesses and hasn't acquired: from its own CTA, and from everywhere.
    fenced: per thread and kind of fence, the event, frontier, start of CTA and of warp at the last one.
    spread: per thread, what sequentially consistent fences in front of a barrier released, whoever executed them.
    awaited: the same of what others read in front of a barrier.
    """

    def __init__(self, ctas: int, warps: int, lanes: Lanes, collectives_order: bool, narrow_fences: bool) -> None:
        """collectives_order: shuffles and the like order memory; narrow_fences: some fence reaches one CTA only."""
        self.event = 1
        self.pcs = array("I", [0, 0])
        self.cta_start = np.zeros(ctas, np.int64)
        self.warp_start = np.zeros(warps, np.int64)
        self.common_start: int | None = 0
        self.collectives_order = collectives_order
        self.narrow_fences = narrow_fences
        self.frontiers = Frontiers()
        self.begin(lanes)

    def begin(self, lanes: Lanes) -> None:
        """Start a chunk."""
        self.lanes = lanes
        self.frontier: Index | None = None
        self.warp_clock: Index | None = None
        self.lane_clock: Index | None = None
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
        if self.frontier is not None:
            for start, end in zip(starts, [*starts[1:], groups.size], strict=True):
                self.share(positions[None, start:end])

    def warps_meet(self, ctas: Index, events: Index, waits: NDArray[np.bool_]) -> None:
        """Warps have met at a barrier of a part of each CTA; those that waited there go on.

        shape: events and waits have a row for each CTA of the chunk, an element for each warp.
        events: when each warp arrived, 0 if it didn't.
        """
        if self.warp_clock is None:
            warps = self.lanes.warps_per_cta
            self.warp_clock = np.zeros((self.lanes.ctas, warps, warps), np.int64)
        rows, arrived = self.warp_clock[ctas], events[ctas]
        joined = np.where(arrived[:, :, None] > 0, rows, 0).max(axis=1)
        joined = np.maximum(joined, arrived)[:, None, :]
        self.warp_clock[ctas] = np.where(waits[ctas][:, :, None], np.maximum(rows, joined), rows)

    def pass_on(self, numbers: Iterable[int], waiting: Index) -> None:
        """Threads that waited at a barrier learn the frontiers of those that arrived."""
        frontier = self.need_frontiers()
        result = self.frontiers.join_all(numbers)
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
        if positions.size == 1:
            return self.past(int(positions[0]), CONSISTENT)
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
        ascending = np.argsort(keys)
        leaf = self.frontiers.leaf(np.array(keys)[ascending], np.array(events)[ascending])
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
        if positions.size == 1:
            self.frontier[positions] = self.frontiers.join(int(self.frontier[positions[0]]), int(numbers[0]))
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
        return self.frontiers.join_all((frontier, leaf, *self.neighbours(position, event)))

    def neighbours(self, position: int, event: int) -> Iterator[int]:
        """What a thread knows of its warp and its CTA by barriers of a part, no later than an event."""
        full = self.lanes.full
        warp, inside = int(full["warp"][position]), int(full["chunk_warp"][position])
        if self.lane_clock is not None:
            row = self.lane_clock[inside, full["lane"][position]]
            below = np.flatnonzero((row > 0) & (row <= event))
            yield self.frontiers.leaf(int(full["gid"][position] - full["lane"][position]) + below, row[below])
        if self.warp_clock is not None:
            cta, mine = divmod(inside, self.lanes.warps_per_cta)
            row = self.warp_clock[cta, mine]
            below = np.flatnonzero((row > 0) & (row <= event))
            yield self.frontiers.leaf((warp - mine + below) | WARP_KEY, row[below])

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
        for row, wide in ((0, False), (1, site.wide))[not self.narrow_fences :]:
            number = release.seen_by(cta, wide, self.frontiers)
            if positions.size == 1:
                self.seen[row][positions] = self.frontiers.join(int(self.seen[row][positions[0]]), number)
                continue
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
        if self.warp_clock is not None:
            at = np.flatnonzero(~result & (cta == my_cta))
            per_cta = self.lanes.warps_per_cta
            here = my_cta[at] - self.lanes.first
            result[at] = events[at] <= self.warp_clock[here, my_warp[at] % per_cta, warp[at] % per_cta]
        if self.lane_clock is not None:
            at = np.flatnonzero(~result & (warp == my_warp))
            here = my_warp[at] - self.lanes.first * self.lanes.warps_per_cta
            mine, theirs = ((x[at] - 1) % self.lanes.threads % WARP for x in (by, thread))
            result[at] = events[at] <= self.lane_clock[here, mine, theirs]
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
