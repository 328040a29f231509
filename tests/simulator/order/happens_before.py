"""An independent race check: vector clocks over the recorded events of a launch, and every pair of accesses.

It shares nothing with the simulator's checks and takes no short cuts, so it is for small launches. A clock has one
entry per thread of the grid: up to which event that thread's accesses have happened. Two accesses to a byte, one of
them a write, race if neither has happened before the other, unless both are strong with scopes that reach each other,
or are equal stores of one operation. A reader may be unordered with one of several equal stores, if another of them has
happened before it.

source: PTX ISA, "Memory Consistency Model".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .recorder import (
    ArriveEvent,
    CommitEvent,
    FenceEvent,
    MeetEvent,
    MemoryEvent,
    Stream,
    Threads,
    WaitEvent,
)

NOTHING = 0
UNFINISHED = 2**31 - 1
# The most pairs that are compared at once.
MOST_PAIRS = 1 << 21
STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel"}

#: the PTX lines of two accesses that race, the lower first
Races = set[tuple[int, int]]


@dataclass(frozen=True)
class Semantics:
    """What an opcode says about order."""

    strong: bool
    acquire: bool
    release: bool
    wide: bool
    constant: bool

    @staticmethod
    def of(opcode: str) -> Semantics:
        words = set(opcode.split("."))
        strong = bool(words & STRONG) or opcode.startswith(("atom.", "red."))
        return Semantics(
            strong, bool(words & {"acquire", "acq_rel"}), bool(words & {"release", "acq_rel"}),
            strong and not words & {"cta", "cluster"}, "nc" in words,
        )


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
        self.table = [np.zeros(stream.threads, np.int32)]
        self.joins: dict[frozenset[int], int] = {}
        self.now = 0
        self.clock = np.zeros(stream.threads, np.int64)
        #: what sequentially consistent fences have seen that precede whatever the thread does next
        self.carried = np.zeros(stream.threads, np.int64)
        #: per thread, what strong reads have observed: (with CTA scope, with wide scope); a fence acquires it
        self.observed: dict[int, tuple[int, int]] = {}
        #: per thread, its clock at the last fence, and at the last one that reaches other CTAs
        self.fenced: dict[int, int] = {}
        self.fenced_wide: dict[int, int] = {}
        self.locations: dict[int, Location] = {}
        self.arrivals: dict[tuple[int, int], tuple[int, int]] = {}

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

    def arrive(self, event: ArriveEvent) -> None:
        for cta in np.unique(event.threads // self.per_cta):
            threads = event.threads[event.threads // self.per_cta == cta]
            self.arrivals[event.key, int(cta)] = self.of(threads), self.join(*np.unique(self.carried[threads]))

    def synchronize(self, event: MeetEvent) -> None:
        threads = event.threads
        if not threads.size:
            return
        arrived = [self.arrivals[key, int(threads[0]) // self.per_cta] for key in event.arrivals]
        self.clock[threads] = self.join(self.of(threads), *(a for a, _ in arrived))
        self.carried[threads] = self.join(*np.unique(self.carried[threads]), *(c for _, c in arrived))

    def fence(self, event: FenceEvent) -> None:
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
        cta = thread // self.per_cta
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
        cta = thread // self.per_cta
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


@dataclass
class Accesses:
    """Of every cell that some thread touches by some instruction: columns of equal length.

    start, end: events; clock: the thread's, then. event: which of the stream; row: which of its threads, in bytes.
    """

    cell: NDArray[np.int64]
    thread: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    clock: NDArray[np.int64]
    event: NDArray[np.int64]
    value: NDArray[np.int64]

    def pick(self, which: NDArray[Any]) -> Accesses:
        return Accesses(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def races(stream: Stream) -> Races:
    """The races of a launch."""
    events = [e for e in stream.events if isinstance(e, MemoryEvent)]
    if not any(e.kind != "load" for e in events):
        return set()
    accesses, table = follow(stream, events)
    return compare(accesses, events, table, stream.threads_per_cta)


def follow(stream: Stream, events: list[MemoryEvent]) -> tuple[Accesses, NDArray[np.int32]]:
    """Go through the events: every access with its thread's clock, and all clocks."""
    clocks = Clocks(stream)
    means = {e.opcode: Semantics.of(e.opcode) for e in events}
    orders = any(isinstance(e, FenceEvent) for e in stream.events) or any(
        m.acquire or m.release for m in means.values()
    )
    rows: list[tuple[NDArray[np.int64], int]] = []
    ends: list[NDArray[np.int64]] = []
    #: per thread, groups of (event, row in it) of the copies not waited for
    pending: dict[int, list[list[tuple[int, int]]]] = defaultdict(lambda: [[]])
    for event in stream.events:
        clocks.now += 1
        if isinstance(event, MemoryEvent):
            rows.append((clocks.clock[event.threads], clocks.now))
            ends.append(np.full(event.threads.size, UNFINISHED if event.asynchronous else clocks.now))
            if event.asynchronous:
                for row, thread in enumerate(event.threads.tolist()):
                    pending[thread][-1].append((len(rows) - 1, row))
            if orders:
                clocks.access(event, means[event.opcode])
        elif isinstance(event, ArriveEvent):
            clocks.arrive(event)
        elif isinstance(event, MeetEvent):
            clocks.synchronize(event)
        elif isinstance(event, FenceEvent):
            clocks.fence(event)
        elif isinstance(event, CommitEvent):
            for thread in event.threads.tolist():
                pending[thread].append([])
        elif isinstance(event, WaitEvent):
            for thread in event.threads.tolist():
                groups = pending[thread]
                while len(groups) > event.newest + 1:
                    for number, row in groups.pop(0):
                        ends[number][row] = clocks.now
    return flatten(events, rows, ends), np.stack(clocks.table)


def flatten(
    events: list[MemoryEvent], rows: list[tuple[NDArray[np.int64], int]], ends: list[NDArray[np.int64]]
) -> Accesses:
    """One row per cell of every access. A cell is as wide as all accesses allow."""
    bits = 0
    for e in events:
        bits |= e.width | int(np.bitwise_or.reduce(e.addresses))
    cell_bytes = min(bits & -bits, 8)
    columns: list[list[NDArray[np.int64]]] = [[] for _ in range(7)]
    for number, (e, (clock, now), end) in enumerate(zip(events, rows, ends, strict=True)):
        cells = e.width // cell_bytes
        values = np.zeros(e.threads.size * cells, np.int64)
        if e.values is not None:
            parts = e.values.reshape(e.threads.size * cells, cell_bytes)
            values = (parts.astype(np.int64) << (8 * np.arange(cell_bytes))).sum(axis=1)
        start = np.full(end.size, now)
        thread = [np.repeat(x, cells) for x in (e.threads, start, end, clock)]
        cell = (e.addresses[:, None] // cell_bytes + np.arange(cells)).reshape(-1)
        for column, x in zip(columns, (cell, *thread, np.full(cell.size, number), values), strict=True):
            column.append(x.astype(np.int64))
    return Accesses(*(np.concatenate(c) for c in columns))


def compare(accesses: Accesses, events: list[MemoryEvent], table: NDArray[np.int32], per_cta: int) -> Races:
    """Compare all accesses to each cell that somebody writes."""
    means = [Semantics.of(e.opcode) for e in events]
    strong = np.array([m.strong for m in means])
    wide = np.array([m.wide for m in means])
    constant = np.array([m.constant for m in means])
    writes = np.array([e.kind != "load" for e in events])
    operations: dict[object, int] = {}
    operation = np.array([operations.setdefault(e.operation, len(operations)) for e in events])
    plain = np.array([e.values is not None for e in events])

    order = np.lexsort((accesses.start, accesses.cell))
    accesses = accesses.pick(order)
    _, which, count = np.unique(accesses.cell, return_inverse=True, return_counts=True)
    written = np.bincount(which, writes[accesses.event])
    accesses = accesses.pick(((written > 0) & (count > 1))[which])
    result: Races = set()
    line = np.array([e.line for e in events])
    event, thread = accesses.event, accesses.thread
    for earlier, later in pairs(accesses.cell, writes[event], wide[event]):
        first, second = event[earlier], event[later]
        # what ld.global.nc reads may not be written by the kernel at all
        frozen = constant[first] | constant[second]
        one, other = thread[earlier], thread[later]
        near = one // per_cta == other // per_cta
        ordered = strong[first] & strong[second] & (near | (wide[first] & wide[second]))
        ordered |= (one == other) & (accesses.end[earlier] <= accesses.start[later])
        ordered |= (operation[first] == operation[second]) & plain[first] & plain[second] & (
            accesses.value[earlier] == accesses.value[later]
        )
        open_ = np.flatnonzero(frozen | ~ordered)
        happened = table[accesses.clock[later[open_]], one[open_]] >= accesses.end[earlier[open_]]
        bad = open_[frozen[open_] | ~happened]
        keys = np.sort(np.stack([line[first[bad]], line[second[bad]]]), axis=0)
        each, which = np.unique(keys[0] << 32 | keys[1], return_inverse=True)
        for number, key in enumerate(each.tolist()):
            low, high = key >> 32, key & 0xFFFFFFFF
            candidates = bad[which == number]
            if (low, high) not in result and any(
                frozen[i] or not harmless(accesses, int(earlier[i]), int(later[i]), writes, plain, operation, table)
                for i in candidates
            ):
                result.add((low, high))
    return result


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


def harmless(
    accesses: Accesses, x: int, y: int, writes: NDArray[np.bool_], plain: NDArray[np.bool_],
    operation: NDArray[np.int64], table: NDArray[np.int32],
) -> bool:
    """Whether a plain store is one of several equal ones, unordered among each other, and the reader has seen another.

    x, y: places of both in `accesses`, one of them a load.
    """
    event = accesses.event
    if writes[event[x]] == writes[event[y]]:
        return False
    write, read = (x, y) if writes[event[x]] else (y, x)
    if not plain[event[write]]:
        return False
    first, last = (int(np.searchsorted(accesses.cell, accesses.cell[x], side)) for side in ("left", "right"))
    others = np.arange(first, last)
    others = others[plain[event[others]] & (others != write)]
    others = others[(operation[event[others]] == operation[event[write]])]
    others = others[accesses.value[others] == accesses.value[write]]

    def happened(a: Any, b: Any) -> Any:
        program = (accesses.thread[a] == accesses.thread[b]) & (accesses.end[a] <= accesses.start[b])
        return program | (table[accesses.clock[b], accesses.thread[a]] >= accesses.end[a])

    unordered = ~happened(others, write) & ~happened(write, others)
    before = happened(others, read) & (accesses.start[others] <= accesses.start[read])
    return bool((unordered & before).any())
