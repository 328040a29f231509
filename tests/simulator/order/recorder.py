"""Records what the threads of launches do to memory and to order: the event stream of each launch.

It wraps methods of the machine while it is in force, so that launches pay nothing for it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilejit.simulator import run_grid
from tilejit.simulator.decode.emitter import BlockWriter
from tilejit.simulator.decode.translate import translate
from tilejit.simulator.machine.access import Access
from tilejit.simulator.machine.barriers import Arrival, Barriers
from tilejit.simulator.machine.copies import AsyncCopies
from tilejit.simulator.machine.lanes import Lanes
from tilejit.simulator.machine.machine import Machine
from tilejit.simulator.machine.warp import Warps

from . import events as ev
from .events import MemoryEvent, Stream, Threads

#: what orders accesses, and whose lines are kept on request
ORDERING = (
    "bar", "barrier", "fence", "membar", "cp", "mbarrier", "wgmma", "tensormap", "shfl", "vote", "match", "redux",
)


class Recorder:
    """The streams of the launches so far.

    strict: shuffles, votes and matches are no barriers. at_line: the line being executed, if lines are kept.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.strict = False
        self.value: Any = None
        self.copying = False
        self.view = ev.GENERIC
        self.inside = 0
        self.at_line = [0]
        self.numbers: dict[Any, int] = {}

    @property
    def lines(self) -> ev.Lines:
        return (self.at_line[0],)

    @property
    def now(self) -> int:
        return len(self.streams[-1].events)

    def begin(self, stream: Stream, strict: bool) -> None:
        self.streams.append(stream)
        self.strict, self.copying, self.view, self.inside = strict, False, ev.GENERIC, 0
        self.numbers.clear()

    def add(self, event: ev.Event) -> None:
        self.streams[-1].events.append(event)

    def actor(self, name: Any, home: int, outlives: bool = True) -> int:
        """The number of the actor of a name, which acts for a CTA; a new one if it is new."""
        if name not in self.numbers:
            self.numbers[name] = self.streams[-1].actors
            self.streams[-1].others.append(ev.Other(home, outlives))
        return self.numbers[name]

    def actors(self, kind: str, threads: Threads) -> Threads:
        """The actors that carry out operations of threads."""
        per_cta = self.streams[-1].threads_per_cta
        each = [self.actor((kind, x), x // per_cta, kind != "copies") for x in threads.tolist()]
        return np.array(each, np.int64)

    def memory(self, access: Access, number: int, bound: Any, index: Any) -> None:
        site, region = access.sites[number], bound.region
        if region.space not in ("global", "shared"):
            return
        start = self.start_of(region, access.lanes) + bound.lead
        values = None
        if site.kind == "store" and not self.copying:
            values = bytes_of(self.value, bound.view.dtype, index.size)
        addresses = start + (index.astype(np.int64) << site.shift)
        self.add(access_by(
            access, site.pc, site.kind, executing(access), addresses, 1 << site.shift, values=values, view=self.view
        ))

    def start_of(self, region: Any, lanes: Lanes) -> int:
        """The host's address of a region."""
        start: int = region.memory.__array_interface__["data"][0]
        if region.space == "shared":
            memory = ev.SharedMemory(start, region.stride, region.size, lanes.ctas, lanes.first)
            self.streams[-1].shared.add(memory)
        return start


def access_by(
    owner: Any, pc: int, kind: str, threads: Threads, addresses: Threads, width: int, **more: Any
) -> MemoryEvent:
    """The access of an instruction."""
    instruction = owner.places.function.body[pc]
    opcode, operation = instruction.root + instruction.suffix, instruction.loc or pc
    return MemoryEvent(instruction.line, opcode, operation, kind, threads, addresses, width, **more)


def executing(owner: Any) -> Threads:
    result: Threads = owner.lanes.get("gid").astype(np.int64) - 1
    return result


def bytes_of(value: Any, dtype: np.dtype[Any], count: int) -> NDArray[np.uint8]:
    """The bytes of each thread's value, one row each."""
    each = np.ascontiguousarray(np.broadcast_to(np.asarray(value), (count,)).astype(dtype, copy=False))
    return each.view(np.uint8).reshape(count, -1)


def line_of(owner: Any, pc: int) -> int:
    """The PTX line of an instruction."""
    line: int = owner.places.function.body[pc].line
    return line


@contextmanager
def recorded(lines: bool = False) -> Iterator[Recorder]:
    """Record the launches inside. lines: also those of the instructions that order accesses, which takes longer."""
    from .asynchronous import watch_operations

    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        if lines:
            _watch_lines(patch, recorder)
        _watch_launches(patch, recorder)
        _watch_memory(patch, recorder)
        _watch_barriers(patch, recorder)
        _watch_warps(patch, recorder)
        _watch_copies(patch, recorder)
        watch_operations(patch, recorder)
        if lines:
            translate.cache_clear()
        yield recorder
    if lines:
        translate.cache_clear()


def wrap(patch: pytest.MonkeyPatch, owner: type, name: str, watch: Callable[..., Any]) -> None:
    """Call `watch(method, self, …)` for a method."""
    method = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *args, **more: watch(method, self, *args, **more))


def _watch_lines(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    """Translated code tells its line before instructions that order accesses."""

    def begin(method: Any, self: BlockWriter, ins: Any, pc: int) -> None:
        method(self, ins, pc)
        if ins.root in ORDERING:
            self.stmt(f"{self.names.value(recorder.at_line)}[0] = {ins.line}")

    wrap(patch, BlockWriter, "begin", begin)


def _watch_launches(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def run(method: Any, self: Any, *arguments: Any) -> None:
        threads = self.ctas * self.threads
        recorder.begin(Stream(threads, self.threads, prod(self.cluster)), self.checks == "strict")
        method(self, *arguments)

    wrap(patch, run_grid.GridRun, "run", run)


def _watch_memory(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def resolve(method: Any, self: Access, number: int, address: Any) -> tuple[Any, Any]:
        recorder.inside += 1
        try:
            bound, index = method(self, number, address)
        finally:
            recorder.inside -= 1
        # an access that looks for another region resolves inside of itself
        if bound is not None and not recorder.inside:
            recorder.memory(self, number, bound, index)
        return bound, index

    def store(method: Any, self: Access, number: int, address: Any, value: Any) -> None:
        recorder.value = value
        method(self, number, address, value)

    def atomic(method: Any, self: Access, number: int, address: Any, wanted: bool, *operands: Any) -> Any:
        events = recorder.streams[-1].events
        before = len(events)
        result = method(self, number, address, wanted, *operands)
        # accesses to several regions are recorded one by one
        if self.sites[number].op.startswith("cas") and len(events) == before + 1:
            event = events[-1]
            assert isinstance(event, MemoryEvent)
            event.succeeds = event.succeeds if result is None else result == operands[0]
        return result

    wrap(patch, Access, "resolve", resolve)
    wrap(patch, Access, "store", store)
    wrap(patch, Access, "atomic", atomic)


def _watch_barriers(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    kept: list[Arrival] = []

    def arrive(
        method: Any, self: Barriers, block: Any, result: Any, group: Any, positions: Any, request: tuple[Any, ...]
    ) -> Sequence[Any]:
        gone: Sequence[Any] = method(self, block, result, group, positions, request)
        if len(gone) == 1 and gone[0][1] is None:
            # everybody came at once
            every = self.lanes.full["gid"].astype(np.int64).reshape(self.lanes.ctas, -1) - 1
            for cta in every:
                recorder.add(ev.MeetEvent((line_of(self, block.end_pc),), cta))
        return gone

    def wait(method: Any, self: Barriers, number: int, arrival: Arrival) -> None:
        if not arrival.waits:
            kept.append(arrival)
            recorder.add(ev.ArriveEvent(id(arrival), grid_numbers(self, arrival.positions)))
        method(self, number, arrival)

    def release(method: Any, self: Barriers, number: int, count: int | None, full: NDArray[np.bool_]) -> Any:
        arrivals = [a for a in self.waiting[number] if a.count == count]
        lines = tuple({line_of(self, a.block.end_pc) for a in arrivals})
        home = self.lanes.full["chunk_cta"]
        for cta in np.flatnonzero(full):
            waiting = [a.positions[home[a.positions] == cta] for a in arrivals if a.waits]
            keys = tuple(id(a) for a in arrivals if not a.waits and (home[a.positions] == cta).any())
            positions = np.concatenate([np.zeros(0, np.int64), *waiting])
            recorder.add(ev.MeetEvent(lines, grid_numbers(self, positions), keys))
        return method(self, number, count, full)

    wrap(patch, Barriers, "arrive", arrive)
    wrap(patch, Barriers, "wait", wait)
    wrap(patch, Barriers, "release", release)


def grid_numbers(owner: Any, positions: Any) -> Threads:
    """The numbers in the grid of threads of a chunk."""
    result: Threads = owner.lanes.full["gid"][positions].astype(np.int64) - 1
    return result


def _watch_warps(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def record_sync(owner: Machine | Warps, mask: Any) -> None:
        threads, warp = executing(owner), owner.lanes.get("warp")
        masks = np.broadcast_to(np.asarray(mask).astype(np.uint64), threads.shape)
        keys = warp.astype(np.int64) << 32 | masks.astype(np.int64)
        for key in np.unique(keys):
            recorder.add(ev.MeetEvent(recorder.lines, threads[keys == key]))

    def warp_sync(method: Any, self: Machine, mask: Any, pc: int) -> None:
        method(self, mask, pc)
        record_sync(self, mask)

    def members(method: Any, self: Warps, mask: Any, pc: int) -> Any:
        result = method(self, mask, pc)
        if mask is not None and not recorder.strict:
            record_sync(self, mask)
        return result

    def fence(method: Any, self: Machine, sem: str, wide: bool) -> None:
        recorder.add(ev.FenceEvent(recorder.lines, executing(self), sem, wide))
        method(self, sem, wide)

    wrap(patch, Machine, "warp_sync", warp_sync)
    wrap(patch, Warps, "members", members)
    wrap(patch, Machine, "fence", fence)


def _watch_copies(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def issue(method: Any, self: AsyncCopies, *operands: Any) -> None:
        threads = executing(self)
        actors = recorder.actors("copies", threads)
        recorder.add(ev.ForkEvent(actors, threads[:, None]))
        events = recorder.streams[-1].events
        before = len(events)
        recorder.copying = True
        try:
            method(self, *operands)
        finally:
            recorder.copying = False
        data = self.pending[-1].data
        for event in events[before:]:
            assert isinstance(event, MemoryEvent), "a copy only accesses memory"
            event.threads = actors[np.searchsorted(threads, event.threads)]
            if event.kind == "store":
                assert event.threads.size == data.size, "the targets of one copy lie in one region"
                event.values = bytes_of(data, data.dtype, data.size)

    def commit(method: Any, self: AsyncCopies) -> None:
        recorder.add(ev.CommitEvent("copies", executing(self)))
        method(self)

    def wait(method: Any, self: AsyncCopies, newest: int) -> None:
        threads = executing(self)
        actors = recorder.actors("copies", threads)
        recorder.add(ev.WaitEvent(recorder.lines, "copies", threads, actors, newest))
        method(self, newest)

    wrap(patch, AsyncCopies, "issue", issue)
    wrap(patch, AsyncCopies, "commit", commit)
    wrap(patch, AsyncCopies, "wait", wait)
