"""Records what the threads of launches do to memory and to order: the event stream of each launch.

It wraps methods of the machine while it is in force, so that launches pay nothing for it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilejit.simulator import run_grid
from tilejit.simulator.machine.access import Access
from tilejit.simulator.machine.barriers import Arrival, Barriers
from tilejit.simulator.machine.copies import AsyncCopies
from tilejit.simulator.machine.machine import Machine
from tilejit.simulator.machine.warp import Warps

Threads = NDArray[np.int64]


@dataclass(slots=True)
class MemoryEvent:
    """One memory instruction of some threads.

    line, opcode: of the PTX. operation: equal for instructions of one source line.
    threads: by their number in the grid, from 0. addresses: of the bytes in the host's memory, `width` from each on.
    values: the bytes that each thread stores, one row each; None for loads and atomics.
    succeeds: for a compare-and-swap, a mask of the threads whose comparison succeeds.
    asynchronous: goes on until the thread waits for its group of copies.
    """

    line: int
    opcode: str
    operation: object
    kind: str
    threads: Threads
    addresses: Threads
    width: int
    values: NDArray[np.uint8] | None = None
    asynchronous: bool = False
    succeeds: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class ArriveEvent:
    """Threads arrive at a barrier and go on. key: names the arrival."""

    key: int
    threads: Threads


@dataclass(frozen=True, slots=True)
class MeetEvent:
    """Threads have waited for each other, and for what arrived without waiting (keys) before they went on."""

    threads: Threads
    arrivals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FenceEvent:
    """sem: "sc" | "acq_rel" | "acquire" | "release"; wide: reaches other CTAs."""

    threads: Threads
    sem: str
    wide: bool


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """Asynchronous copies since the last one become a group."""

    threads: Threads


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """All but the newest groups have landed."""

    threads: Threads
    newest: int


Event = MemoryEvent | ArriveEvent | MeetEvent | FenceEvent | CommitEvent | WaitEvent


@dataclass(slots=True)
class Stream:
    """The events of one launch, in the order in which the simulator ran them."""

    threads: int
    threads_per_cta: int
    events: list[Event] = field(default_factory=list)


class Recorder:
    """The streams of the launches so far. strict: shuffles, votes and matches are no barriers."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.strict = False
        self.value: Any = None
        self.copying = False
        self.inside = 0

    def add(self, event: Event) -> None:
        self.streams[-1].events.append(event)

    def memory(self, access: Access, number: int, bound: Any, index: Any) -> None:
        site, region = access.sites[number], bound.region
        if region.space not in ("global", "shared"):
            return
        instruction = access.places.function.body[site.pc]
        start = region.memory.__array_interface__["data"][0] + bound.lead
        values = None
        if site.kind == "store" and not self.copying:
            values = bytes_of(self.value, bound.view.dtype, index.size)
        self.add(MemoryEvent(
            instruction.line, instruction.root + instruction.suffix, instruction.loc or site.pc, site.kind,
            executing(access), start + (index.astype(np.int64) << site.shift), 1 << site.shift, values, self.copying,
        ))


def executing(owner: Any) -> Threads:
    result: Threads = owner.lanes.get("gid").astype(np.int64) - 1
    return result


def bytes_of(value: Any, dtype: np.dtype[Any], count: int) -> NDArray[np.uint8]:
    """The bytes of each thread's value, one row each."""
    each = np.ascontiguousarray(np.broadcast_to(np.asarray(value), (count,)).astype(dtype, copy=False))
    return each.view(np.uint8).reshape(count, -1)


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Record the launches inside."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        _watch_launches(patch, recorder)
        _watch_memory(patch, recorder)
        _watch_barriers(patch, recorder)
        _watch_warps(patch, recorder)
        _watch_copies(patch, recorder)
        yield recorder


def _watch_launches(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    begin = run_grid._GridRun.run

    def watched_run(self: run_grid._GridRun, *arguments: Any) -> None:
        recorder.streams.append(Stream(self.ctas * self.threads, self.threads))
        recorder.strict = self.checks == "strict"
        recorder.inside, recorder.copying = 0, False
        begin(self, *arguments)

    patch.setattr(run_grid._GridRun, "run", watched_run)


def _watch_memory(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    resolve_, store_, atomic_ = Access.resolve, Access.store, Access.atomic

    def resolve(self: Access, number: int, address: Any) -> tuple[Any, Any]:
        recorder.inside += 1
        try:
            bound, index = resolve_(self, number, address)
        finally:
            recorder.inside -= 1
        # an access that looks for another region resolves inside of itself
        if bound is not None and not recorder.inside:
            recorder.memory(self, number, bound, index)
        return bound, index

    def store(self: Access, number: int, address: Any, value: Any) -> None:
        recorder.value = value
        store_(self, number, address, value)

    def atomic(self: Access, number: int, address: Any, wanted: bool, *operands: Any) -> Any:
        events = recorder.streams[-1].events
        before = len(events)
        result = atomic_(self, number, address, wanted, *operands)
        # accesses to several regions are recorded one by one
        if self.sites[number].op.startswith("cas") and len(events) == before + 1:
            event = events[-1]
            assert isinstance(event, MemoryEvent)
            event.succeeds = event.succeeds if result is None else result == operands[0]
        return result

    patch.setattr(Access, "atomic", atomic)
    patch.setattr(Access, "resolve", resolve)
    patch.setattr(Access, "store", store)


def _watch_barriers(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    arrive_, wait_, release_ = Barriers.arrive, Barriers.wait, Barriers.release
    kept: list[Arrival] = []

    def arrive(
        self: Barriers, block: Any, result: Any, group: Any, positions: Any, request: tuple[Any, ...]
    ) -> Sequence[Any]:
        gone = arrive_(self, block, result, group, positions, request)
        if len(gone) == 1 and gone[0][1] is None:
            # everybody came at once
            every = self.lanes.full["gid"].astype(np.int64).reshape(self.lanes.ctas, -1) - 1
            for cta in every:
                recorder.add(MeetEvent(cta))
        return gone

    def wait(self: Barriers, number: int, arrival: Arrival) -> None:
        if not arrival.waits:
            kept.append(arrival)
            recorder.add(ArriveEvent(id(arrival), grid_numbers(self, arrival.positions)))
        wait_(self, number, arrival)

    def release(self: Barriers, number: int, count: int | None, full: NDArray[np.bool_]) -> Any:
        arrivals = [a for a in self.waiting[number] if a.count == count]
        home = self.lanes.full["chunk_cta"]
        for cta in np.flatnonzero(full):
            waiting = [a.positions[home[a.positions] == cta] for a in arrivals if a.waits]
            keys = tuple(id(a) for a in arrivals if not a.waits and (home[a.positions] == cta).any())
            positions = np.concatenate([np.zeros(0, np.int64), *waiting])
            recorder.add(MeetEvent(grid_numbers(self, positions), keys))
        return release_(self, number, count, full)

    patch.setattr(Barriers, "arrive", arrive)
    patch.setattr(Barriers, "wait", wait)
    patch.setattr(Barriers, "release", release)


def grid_numbers(barriers: Barriers, positions: Threads) -> Threads:
    result: Threads = barriers.lanes.full["gid"][positions].astype(np.int64) - 1
    return result


def _watch_warps(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    warp_sync_, members_, fence_ = Machine.warp_sync, Warps.members, Machine.fence

    def record_sync(owner: Machine | Warps, mask: Any) -> None:
        threads, warp = executing(owner), owner.lanes.get("warp")
        masks = np.broadcast_to(np.asarray(mask).astype(np.uint64), threads.shape)
        keys = warp.astype(np.int64) << 32 | masks.astype(np.int64)
        for key in np.unique(keys):
            recorder.add(MeetEvent(threads[keys == key]))

    def warp_sync(self: Machine, mask: Any, pc: int) -> None:
        warp_sync_(self, mask, pc)
        record_sync(self, mask)

    def members(self: Warps, mask: Any, pc: int) -> Any:
        result = members_(self, mask, pc)
        if mask is not None and not recorder.strict:
            record_sync(self, mask)
        return result

    def fence(self: Machine, sem: str, wide: bool) -> None:
        recorder.add(FenceEvent(executing(self), sem, wide))
        fence_(self, sem, wide)

    patch.setattr(Machine, "warp_sync", warp_sync)
    patch.setattr(Warps, "members", members)
    patch.setattr(Machine, "fence", fence)


def _watch_copies(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    issue_, commit_, wait_ = AsyncCopies.issue, AsyncCopies.commit, AsyncCopies.wait

    def issue(self: AsyncCopies, *operands: Any) -> None:
        events = recorder.streams[-1].events
        before = len(events)
        recorder.copying = True
        try:
            issue_(self, *operands)
        finally:
            recorder.copying = False
        data = self.pending[-1].data
        for event in events[before:]:
            if isinstance(event, MemoryEvent) and event.kind == "store":
                assert event.threads.size == data.size, "the targets of one copy lie in one region"
                event.values = bytes_of(data, data.dtype, data.size)

    def commit(self: AsyncCopies) -> None:
        recorder.add(CommitEvent(executing(self)))
        commit_(self)

    def wait(self: AsyncCopies, newest: int) -> None:
        recorder.add(WaitEvent(executing(self), newest))
        wait_(self, newest)

    patch.setattr(AsyncCopies, "issue", issue)
    patch.setattr(AsyncCopies, "commit", commit)
    patch.setattr(AsyncCopies, "wait", wait)
