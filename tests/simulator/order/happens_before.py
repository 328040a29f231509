"""An independent race check: vector clocks over the recorded events of a launch, and every pair of accesses.

It shares nothing with the simulator's checks and takes no short cuts, so it is for small launches. A clock has one
entry per actor, the threads of the grid and their asynchronous operations: up to which event that actor's accesses have
happened. Where proxies are used, a clock has these entries for each view, too: what a proxy sees of ordinary accesses.
Two accesses to a byte, one of them a write, race if neither has happened before the other, unless both are strong with
scopes that reach each other, or are equal stores of one operation. A reader may be unordered with one of several equal
stores, if another of them has happened before it. The end of a CTA counts as a store to its shared memory.

source: PTX ISA, "Memory Consistency Model".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import events as ev
from .events import MemoryEvent, Stream, Threads

NOTHING = 0
# The most pairs that are compared at once.
MOST_PAIRS = 1 << 21
STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel"}


class Races(NamedTuple):
    """Pairs of PTX lines, the lower first. unseen: of `Comparison.unseen`."""

    races: set[tuple[int, int]]
    unseen: set[tuple[int, int]]


@dataclass(frozen=True)
class Semantics:
    """What an opcode says about order."""

    strong: bool
    acquire: bool
    release: bool
    scope: int
    constant: bool

    @staticmethod
    def of(opcode: str) -> Semantics:
        words = set(opcode.split("."))
        strong = opcode.startswith(("atom.", "red.", "cp.reduce.")) or bool(words & STRONG)
        if opcode.startswith(("mbarrier.", "tensormap.")):
            # what they order, other events say
            return Semantics(opcode == "mbarrier.atomic", False, False, ev.GPU, False)
        scope = ev.CTA if "cta" in words else ev.CLUSTER if "cluster" in words else ev.GPU
        return Semantics(
            strong, bool(words & {"acquire", "acq_rel"}), bool(words & {"release", "acq_rel"}), scope, "nc" in words
        )

    @property
    def wide(self) -> bool:
        return self.strong and self.scope == ev.GPU


@dataclass
class Location:
    """What was released by the last write to an address: clocks by (scope reaches other CTAs, CTA of the writer).

    carried: what sequentially consistent fences before that write had seen.
    """

    thread: int | None
    clocks: dict[tuple[bool, int], int] = field(default_factory=dict)
    carried: int = NOTHING


class Clocks:
    """The clock of every thread, as a number into `table`."""

    def __init__(self, stream: Stream) -> None:
        self.per_cta = stream.threads_per_cta
        self.ranks = stream.ranks
        self.threads, self.actors = stream.threads, stream.actors
        self.homes = stream.homes()
        self.table = [np.zeros(stream.actors * views_of(stream), np.int32)]
        self.joins: dict[frozenset[int], int] = {}
        self.now = 0
        self.clock = np.zeros(stream.actors, np.int64)
        #: what sequentially consistent fences have seen that precede whatever the thread does next
        self.carried = np.zeros(stream.threads, np.int64)
        #: per thread, what strong reads have observed: (with CTA scope, with wide scope); a fence acquires it
        self.observed: dict[int, tuple[int, int]] = {}
        #: per thread, its clock at the last fence, and at the last one that reaches other CTAs
        self.fenced: dict[int, int] = {}
        self.fenced_wide: dict[int, int] = {}
        self.locations: dict[int, Location] = {}
        self.arrivals: dict[tuple[int, int], tuple[int, int]] = {}
        #: place → what arrivals there released: (phase, CTA, scope, clock)
        self.phases: dict[Hashable, list[tuple[int, int, int, int]]] = defaultdict(list)
        #: (kind, thread) → when it committed its groups of operations
        self.groups: dict[tuple[str, int], list[int]] = defaultdict(list)

    def enter(self, clock: NDArray[np.int32]) -> int:
        self.table.append(clock)
        return len(self.table) - 1

    def join(self, *numbers: int) -> int:
        each = frozenset(int(x) for x in numbers) - {NOTHING}
        if len(each) < 2:
            return next(iter(each), NOTHING)
        if each not in self.joins:
            self.joins[each] = self.enter(np.maximum.reduce([self.table[x] for x in each]))
        return self.joins[each]

    def of(self, threads: Threads) -> int:
        """What some threads know together now, all that they have done included."""
        clock = self.table[self.join(*np.unique(self.clock[threads]))].copy()
        clock[threads] = self.now
        return self.enter(clock)

    def done(self, actors: Threads, until: int) -> int:
        """What is known of operations that are complete, those up to an event."""
        clock = np.zeros_like(self.table[0])
        clock[actors] = until
        return self.enter(clock)

    def fork(self, event: ev.ForkEvent) -> None:
        for actor, issuers in zip(event.actors.tolist(), event.issuers, strict=True):
            each = self.of(issuers[:1])
            if issuers.size > 1:
                clocks = np.stack([self.table[x] for x in self.clock[issuers]])
                clocks[np.arange(issuers.size), issuers] = self.now
                each = self.enter(clocks.min(axis=0))
            self.clock[actor] = each

    def fence_proxy(self, event: ev.ProxyFenceEvent) -> None:
        for thread in event.threads.tolist():
            clock = self.table[self.of(np.array([thread]))]
            views = clock.reshape(-1, self.actors)
            for origin, view in event.moves:
                views[view] = np.maximum(views[view], views[origin])
            self.clock[thread] = self.enter(clock)

    def release(self, event: ev.ReleaseEvent) -> None:
        arrived = event.threads[0] < self.threads
        clock = self.of(event.threads) if arrived else self.done(event.threads, event.until or self.now)
        self.phases[event.place].append((event.phase, event.home, event.scope, clock))

    def learn(self, event: ev.AcquireEvent) -> None:
        for cta in np.unique(event.threads // self.per_cta).tolist():
            clocks = [
                clock for phase, home, scope, clock in self.phases[event.place]
                if phase <= event.phase and reaches(home, cta, min(scope, event.scope), self.ranks)
            ]
            together = self.join(*clocks)
            threads = event.threads[event.threads // self.per_cta == cta]
            for before in np.unique(self.clock[threads]):
                self.clock[threads[self.clock[threads] == before]] = self.join(before, together)

    def commit(self, event: ev.CommitEvent) -> None:
        for thread in event.threads.tolist():
            self.groups[event.kind, thread].append(self.now)

    def wait(self, event: ev.WaitEvent) -> None:
        for thread, actor in zip(event.threads.tolist(), event.actors.tolist(), strict=True):
            groups = self.groups[event.kind, thread]
            if len(groups) > event.newest:
                until = groups[len(groups) - event.newest - 1]
                self.acquire(thread, self.done(np.array([actor]), until))

    def arrive(self, event: ev.ArriveEvent) -> None:
        for cta in np.unique(event.threads // self.per_cta):
            threads = event.threads[event.threads // self.per_cta == cta]
            self.arrivals[event.key, int(cta)] = self.of(threads), self.join(*np.unique(self.carried[threads]))

    def synchronize(self, event: ev.MeetEvent) -> None:
        threads = event.threads
        if not threads.size:
            return
        arrived = [self.arrivals[key, int(threads[0]) // self.per_cta] for key in event.arrivals]
        self.clock[threads] = self.join(self.of(threads), *(a for a, _ in arrived))
        self.carried[threads] = self.join(*np.unique(self.carried[threads]), *(c for _, c in arrived))

    def fence(self, event: ev.FenceEvent) -> None:
        for thread in event.threads.tolist():
            near, far = self.observed.get(thread, (NOTHING, NOTHING))
            if event.sem != "release":
                self.acquire(thread, far if event.wide else near)
            consistent = event.sem == "sc" and event.wide
            if consistent:
                self.acquire(thread, self.carried[thread])
            if event.sem == "acquire":
                continue
            here = self.of(np.array([thread]))
            self.fenced[thread] = here
            if event.wide:
                self.fenced_wide[thread] = here
            if consistent:
                self.carried[thread] = self.join(self.carried[thread], here)

    def acquire(self, thread: int, number: Any) -> None:
        self.clock[thread] = self.join(self.clock[thread], number)

    def read(self, thread: int, address: int, means: Semantics) -> None:
        """A strong read of what the last write to an address released."""
        location = self.locations.get(address)
        if location is None:
            return
        cta = int(self.homes[thread])
        near = [c for (_, home), c in location.clocks.items() if home == cta]
        far = [c for (wide, home), c in location.clocks.items() if wide and means.wide and home != cta]
        before = self.observed.get(thread, (NOTHING, NOTHING))
        self.observed[thread] = self.join(before[0], *near), self.join(before[1], *near, *far)
        if means.wide:
            self.carried[thread] = self.join(self.carried[thread], location.carried)
        if means.acquire:
            self.acquire(thread, self.join(*near, *far))

    def write(self, thread: int, address: int, means: Semantics, update: bool) -> None:
        """A strong write; an update goes on with what the writes before it released."""
        cta = int(self.homes[thread])
        before = self.locations.get(address)
        if before is None or not (update or before.thread == thread):
            before = Location(thread)
        here = Location(thread if before.thread == thread else None, dict(before.clocks), before.carried)
        if means.release:
            self.add(here, (means.wide, cta), self.of(np.array([thread])))
        if thread in self.fenced_wide:
            self.add(here, (means.wide, cta), self.fenced_wide[thread])
        if thread in self.fenced:
            self.add(here, (False, cta), self.fenced[thread])
        if means.wide:
            here.carried = self.join(here.carried, self.carried[thread])
        self.locations[address] = here

    def add(self, location: Location, key: tuple[bool, int], clock: int) -> None:
        location.clocks[key] = self.join(location.clocks.get(key, NOTHING), clock)

    def access(self, event: MemoryEvent, means: Semantics) -> None:
        """What strong accesses release and read, thread by thread; weak stores end what was released."""
        if not means.strong:
            if event.kind == "store" and self.locations:
                for address in event.addresses.tolist():
                    self.locations.pop(address, None)
            return
        reduction = event.opcode.startswith("red.")
        writes = np.full(event.threads.size, event.kind != "load")
        if event.succeeds is not None:
            writes &= event.succeeds
        for thread, address, writing in zip(event.threads.tolist(), event.addresses.tolist(), writes, strict=True):
            if event.kind != "store" and not reduction:
                self.read(thread, address, means)
            if writing:
                self.write(thread, address, means, event.kind == "atomic")


def reaches(one: Any, other: Any, scope: Any, ranks: int) -> Any:
    """Whether a scope of one CTA includes another CTA."""
    return (one == other) | ((scope >= ev.CLUSTER) & (one // ranks == other // ranks)) | (scope >= ev.GPU)


def views_of(stream: Stream) -> int:
    """How many views clocks must have."""
    proxies = (isinstance(e, ev.ProxyFenceEvent) or (isinstance(e, MemoryEvent) and e.view) for e in stream.events)
    return len(ev.VIEWS) if any(proxies) else 1


@dataclass
class Accesses:
    """Of every cell that some actor touches by some instruction: columns of equal length.

    time: the event; clock: the actor's, then. event: which of the accesses; value: of a store.
    """

    cell: NDArray[np.int64]
    thread: NDArray[np.int64]
    time: NDArray[np.int64]
    clock: NDArray[np.int64]
    event: NDArray[np.int64]
    value: NDArray[np.int64]

    def pick(self, which: NDArray[Any]) -> Accesses:
        return Accesses(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def races(stream: Stream) -> Races:
    """The races of a launch."""
    events = memory_events(stream)
    if not any(e.kind != "load" for e in events):
        return Races(set(), set())
    accesses, table = follow(stream, events)
    return Comparison(accesses, events, table, stream).races()


def memory_events(stream: Stream) -> list[MemoryEvent]:
    """All accesses, and the ends of CTAs whose shared memory others access."""
    events = [e for e in stream.events if isinstance(e, MemoryEvent)]
    return [*events, *ends(stream, events)]


def ends(stream: Stream, events: list[MemoryEvent]) -> list[MemoryEvent]:
    """The end of each CTA: a store, by its first thread, to what others access of its shared memory; its line is 0."""
    found: dict[tuple[int, int], list[Threads]] = defaultdict(list)
    homes, guests = stream.homes(), np.array([False] * stream.threads + [x.outlives for x in stream.others])
    if not guests.any() and stream.ranks == 1:
        return []
    for event in events:
        for region in stream.shared:
            copy, offset = np.divmod(event.addresses - region.start, region.stride)
            inside = (copy >= 0) & (copy < region.ctas) & (offset < region.size)
            foreign = inside & (guests[event.threads] | (homes[event.threads] != copy + region.first))
            for cta in np.unique(copy[foreign]).tolist():
                found[cta + region.first, event.width].append(event.addresses[foreign & (copy == cta)])
    return [
        MemoryEvent(0, "exit", ("exit", cta), "store", np.full(each.size, cta * stream.threads_per_cta), each, width)
        for (cta, width), parts in found.items() for each in [np.unique(np.concatenate(parts))]
    ]


def follow(
    stream: Stream, events: list[MemoryEvent], counts: Callable[[ev.Removable], bool] = lambda event: True
) -> tuple[Accesses, NDArray[np.int32]]:
    """Go through the events: every access with its actor's clock, and all clocks.

    counts: whether an event that may be left out is there.
    """
    clocks = Clocks(stream)
    means = {e.opcode: Semantics.of(e.opcode) for e in events}
    orders = any(isinstance(e, ev.FenceEvent) for e in stream.events) or any(
        m.acquire or m.release for m in means.values()
    )
    steps: dict[type, Callable[[Any], None]] = {
        ev.ForkEvent: clocks.fork, ev.ArriveEvent: clocks.arrive, ev.MeetEvent: clocks.synchronize,
        ev.FenceEvent: clocks.fence, ev.ProxyFenceEvent: clocks.fence_proxy, ev.ReleaseEvent: clocks.release,
        ev.AcquireEvent: clocks.learn, ev.CommitEvent: clocks.commit, ev.WaitEvent: clocks.wait,
    }
    rows: list[tuple[NDArray[np.int64], int]] = []
    for event in stream.events:
        clocks.now += 1
        if isinstance(event, MemoryEvent):
            rows.append((clocks.clock[event.threads], clocks.now))
            if orders and not event.opcode.startswith("mbarrier."):
                clocks.access(event, means[event.opcode])
        elif not isinstance(event, ev.Removable) or counts(event):
            steps[type(event)](event)
    clocks.now += 1
    for event in events[len(rows) :]:
        cta = np.arange(stream.threads_per_cta) + event.threads[0]
        rows.append((np.full(event.threads.size, clocks.of(cta)), clocks.now))
    return flatten(events, rows), np.stack(clocks.table)


def flatten(events: list[MemoryEvent], rows: list[tuple[NDArray[np.int64], int]]) -> Accesses:
    """One row per cell of every access. A cell is as wide as all accesses allow."""
    bits = 0
    for e in events:
        bits |= e.width | int(np.bitwise_or.reduce(e.addresses))
    cell_bytes = min(bits & -bits, 8)
    columns: list[list[NDArray[np.int64]]] = [[] for _ in range(6)]
    for number, (e, (clock, now)) in enumerate(zip(events, rows, strict=True)):
        cells = e.width // cell_bytes
        values = np.zeros(e.threads.size * cells, np.int64)
        if e.values is not None:
            parts = e.values.reshape(e.threads.size * cells, cell_bytes)
            values = (parts.astype(np.int64) << (8 * np.arange(cell_bytes))).sum(axis=1)
        thread = [np.repeat(x, cells) for x in (e.threads, np.full(clock.size, now), clock)]
        cell = (e.addresses[:, None] // cell_bytes + np.arange(cells)).reshape(-1)
        for column, x in zip(columns, (cell, *thread, np.full(cell.size, number), values), strict=True):
            column.append(x.astype(np.int64))
    return Accesses(*(np.concatenate(c) for c in columns))


class Comparison:
    """All pairs of accesses to each cell that somebody writes."""

    def __init__(self, accesses: Accesses, events: list[MemoryEvent], table: NDArray[np.int32], stream: Stream) -> None:
        means = [Semantics.of(e.opcode) for e in events]
        self.table = table
        self.stream = stream
        self.strong = np.array([m.strong for m in means])
        self.scope = np.array([m.scope for m in means])
        self.constant = np.array([m.constant for m in means])
        self.writes = np.array([e.kind != "load" for e in events])
        self.reads = np.array([e.kind != "store" for e in events])
        operations: dict[object, int] = {}
        self.operation = np.array([operations.setdefault(e.operation, len(operations)) for e in events])
        self.plain = np.array([e.values is not None for e in events])
        self.view = np.array([e.view for e in events])
        self.line = np.array([e.line for e in events])
        accesses = accesses.pick(np.lexsort((accesses.time, accesses.cell)))
        _, which, count = np.unique(accesses.cell, return_inverse=True, return_counts=True)
        written = np.bincount(which, self.writes[accesses.event])
        self.accesses = accesses.pick(((written > 0) & (count > 1))[which])

    def pairs(self, strong: int = 0) -> Iterator[tuple[Threads, Threads]]:
        """Pairs of (earlier, later) accesses, by their place in `accesses`, some at a time.

        strong: of pairs of strong accesses of the widest scope, which can't race, those with one of the first of each
        cell, as many as this.
        """
        accesses = self.accesses
        peers = (self.strong & (self.scope == ev.GPU))[accesses.event]
        places = np.flatnonzero(peers)
        rank = np.arange(places.size) - np.searchsorted(accesses.cell[places], accesses.cell[places])
        peers[places[rank < strong]] = False
        return pairs(accesses.cell, self.writes[accesses.event], peers)

    def program(self, a: Any, b: Any) -> Any:
        """Whether a thread's own order puts one access before the other."""
        thread, view = self.accesses.thread, self.view[self.accesses.event]
        same = (thread[a] == thread[b]) & (thread[a] < self.stream.threads)
        return same & ((view[b] == ev.GENERIC) | (view[a] != ev.GENERIC))

    def happened(self, a: Any, b: Any, proxies: bool = True) -> Any:
        """Whether one access has happened before the other, by what the other's clock knows.

        proxies: and the proxy of the other, if any, sees it.
        """
        accesses, view = self.accesses, self.view[self.accesses.event] * proxies
        # among operations of proxies, no fence is needed
        column = accesses.thread[a] + np.where(view[a] == ev.GENERIC, view[b], 0) * self.stream.actors
        return self.table[accesses.clock[b], column] >= accesses.time[a]

    def strongly(self, a: Any, b: Any) -> Any:
        """Whether both are strong, and their scopes reach each other."""
        first, second = self.accesses.event[a], self.accesses.event[b]
        homes = self.stream.homes()[self.accesses.thread]
        scope = np.minimum(self.scope[first], self.scope[second])
        near = reaches(homes[a], homes[b], scope, self.stream.ranks)
        return self.strong[first] & self.strong[second] & near

    def equally(self, a: Any, b: Any) -> Any:
        """Whether both are stores of equal values by one operation."""
        first, second = self.accesses.event[a], self.accesses.event[b]
        together = (self.operation[first] == self.operation[second]) & self.plain[first] & self.plain[second]
        return together & (self.accesses.value[a] == self.accesses.value[b])

    def frozen(self, a: Any, b: Any) -> Any:
        """Whether one is by ld.global.nc: what it reads may not be written by the kernel at all."""
        return self.constant[self.accesses.event[a]] | self.constant[self.accesses.event[b]]

    def harmless(self, x: int, y: int) -> bool:
        """Whether a plain store is one of several equal ones, unordered among each other, and the reader has seen
        another.

        x, y: places of both, one of them a load.
        """
        accesses, event = self.accesses, self.accesses.event
        if self.writes[event[x]] == self.writes[event[y]]:
            return False
        write, read = (x, y) if self.writes[event[x]] else (y, x)
        if not self.plain[event[write]]:
            return False
        first, last = (int(np.searchsorted(accesses.cell, accesses.cell[x], side)) for side in ("left", "right"))
        others = np.arange(first, last)
        others = others[self.equally(others, write) & (others != write)]

        def ordered(a: Any, b: Any) -> Any:
            return (self.program(a, b) & (accesses.time[a] <= accesses.time[b])) | self.happened(a, b)

        unordered = ~ordered(others, write) & ~ordered(write, others)
        before = ordered(others, read) & (accesses.time[others] <= accesses.time[read])
        return bool((unordered & before).any())

    def unseen(self, a: Any, b: Any) -> Any:
        """Whether all that is wrong is that a proxy, which writes shared memory, has not seen an earlier read of it.

        Refilling a stage of a pipeline without a proxy fence is a pattern that NVIDIA documents.
        """
        event = self.accesses.event
        return self.happened(a, b, proxies=False) & (self.view[event[b]] == ev.SHARED) & ~self.writes[event[a]]

    def races(self) -> Races:
        result = Races(set(), set())
        lines = self.line[self.accesses.event]
        for earlier, later in self.pairs():
            frozen = self.frozen(earlier, later)
            excused = self.strongly(earlier, later) | self.program(earlier, later) | self.equally(earlier, later)
            open_ = np.flatnonzero(frozen | ~excused)
            happened = self.happened(earlier[open_], later[open_])
            bad = open_[frozen[open_] | ~happened]
            unseen = self.unseen(earlier[bad], later[bad]) & ~frozen[bad]
            result.unseen.update(distinct(lines, earlier[bad[unseen]], later[bad[unseen]]))
            bad = bad[~unseen]
            for pair, which in distinct(lines, earlier[bad], later[bad]).items():
                if pair not in result.races and any(
                    frozen[i] or not self.harmless(int(earlier[i]), int(later[i])) for i in bad[which]
                ):
                    result.races.add(pair)
        return result


def distinct(lines: Threads, a: Threads, b: Threads) -> dict[tuple[int, int], Threads]:
    """The places of equal pairs of PTX lines, the lower first."""
    keys = np.sort(np.stack([lines[a], lines[b]]), axis=0)
    each, which = np.unique(keys[0] << 32 | keys[1], return_inverse=True)
    return {(key >> 32, key & 0xFFFFFFFF): np.flatnonzero(which == i) for i, key in enumerate(each.tolist())}


def pairs(
    cell: NDArray[np.int64], writes: NDArray[np.bool_], peers: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Each pair of accesses to one cell of which one writes, once: (the earlier ones, the later ones).

    peers: accesses that are strong with the widest scope; pairs of two of them are left out.
    """
    writers = writes & ~peers
    for one, other in cross(cell, np.flatnonzero(writers), np.arange(cell.size)):
        keep = (other < one) | ((other > one) & ~writers[other])
        yield np.minimum(one, other)[keep], np.maximum(one, other)[keep]
    for one, other in cross(cell, np.flatnonzero(~writes & ~peers), np.flatnonzero(writes & peers)):
        yield np.minimum(one, other), np.maximum(one, other)


def cross(
    cell: NDArray[np.int64], some: NDArray[np.int64], others: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """All pairs of one of `some` and one of `others` with the same cell; both ascend, and so do cells."""
    begin = np.searchsorted(cell[others], cell[some], "left")
    end = np.searchsorted(cell[others], cell[some], "right")
    sizes = end - begin
    total = np.cumsum(sizes)
    at = 0
    while at < some.size:
        upto = max(at + 1, int(np.searchsorted(total, (total[at - 1] if at else 0) + MOST_PAIRS, "right")))
        size = sizes[at:upto]
        inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        yield np.repeat(some[at:upto], size), others[inside + np.repeat(begin[at:upto], size)]
        at = upto
