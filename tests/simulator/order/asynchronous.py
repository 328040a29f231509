"""Records mbarriers, bulk copies, products, proxy fences and the barriers of clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from tilejit.simulator.machine.bulk import BulkCopies
from tilejit.simulator.machine.clusters import Clusters
from tilejit.simulator.machine.copies import AsyncCopies
from tilejit.simulator.machine.lanes import WARPGROUP
from tilejit.simulator.machine.mbarrier import BYTES, PENDING_BITS, Arriving, MBarrier
from tilejit.simulator.machine.mbarriers import MBarriers
from tilejit.simulator.machine.operations import AddressRun, Operation, Operations
from tilejit.simulator.machine.tensor_maps import TensorMaps
from tilejit.simulator.machine.units import Units
from tilejit.simulator.machine.wgmma import WgmmaGroups

from . import events as ev
from .recorder import Recorder, access_by, executing, grid_numbers, wrap

SCOPES = {"cta": ev.CTA, "cluster": ev.CLUSTER}


def watch_operations(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    _watch_mbarriers(patch, recorder)
    _watch_bulk_copies(patch, recorder)
    _watch_products(patch, recorder)
    _watch_proxies(patch, recorder)
    _watch_clusters(patch, recorder)


def _watch_mbarriers(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    #: how often the barrier of a CTA at an address was initialized
    made: dict[tuple[int, int], int] = defaultdict(int)
    #: warp → when its arrivals after copies, not yet delivered, were issued
    issued: dict[Any, list[int]] = defaultdict(list)

    def place(owner: MBarriers, barrier: MBarrier, cta: int) -> Hashable:
        at = barrier.address, cta + owner.lanes.first
        return "mbarrier", *at, made[at]

    def touch(
        owner: MBarriers, pc: int, barrier: MBarrier, threads: Any, ctas: Any, kind: str = "atomic",
        view: int = ev.GENERIC,
    ) -> None:
        """Actors access barriers, each that of a CTA of the chunk."""
        region = barrier.region
        start = recorder.start_of(region, owner.lanes) + barrier.address - region.base
        event = access_by(owner, pc, kind, threads, start + ctas * region.stride, BYTES, view=view)
        event.opcode = f"mbarrier.{kind}"
        recorder.add(event)

    def using(owner: type, name: str, kind: str) -> None:
        """A method accesses barriers of the threads' own CTAs."""

        def use(method: Any, self: Any, number: int, address: Any, *more: Any) -> Any:
            mbarriers = self if isinstance(self, MBarriers) else self.mbarriers
            site = mbarriers.access.sites[number]
            for barrier, threads in mbarriers.groups(site, address):
                ctas = mbarriers.ctas(threads)
                if name == "init":
                    for cta in ctas.tolist():
                        made[barrier.address, cta + mbarriers.lanes.first] += 1
                touch(mbarriers, site.pc, barrier, executing(mbarriers)[threads], ctas, kind)
            return method(self, number, address, *more)

        wrap(patch, owner, name, use)

    def arrive_at(
        method: Any, self: MBarriers, site: Any, barrier: MBarrier, arriving: Arriving, expected: Any, release: Any
    ) -> Any:
        states = barrier.states_before(arriving.ctas, arriving.each)
        threads, words = executing(self)[arriving.threads], self.places.function.body[site.pc].suffix.split(".")
        phases = (states >> np.uint64(PENDING_BITS)).astype(np.int64)
        own = self.lanes.get("chunk_cta")[arriving.threads]
        scope = ev.CLUSTER if "cluster" in words else ev.CTA
        far = own != arriving.ctas
        touch(self, site.pc, barrier, threads[far], arriving.ctas[far])
        keys = np.stack([arriving.ctas, phases, own])
        for key in np.unique(keys, axis=1).T if "relaxed" not in words else ():
            mine = threads[(keys == key[:, None]).all(axis=0)]
            cta, phase, home = key.tolist()
            where = place(self, barrier, cta)
            recorder.add(ev.ReleaseEvent(where, phase, mine, home + self.lanes.first, scope))
        return method(self, site, barrier, arriving, expected, release)

    def wait(
        method: Any, self: MBarriers, number: int, address: Any, phase: Any, kind: str, acquires: str
    ) -> Any:
        complete = method(self, number, address, phase, kind, acquires)
        site = self.access.sites[number]
        if not acquires or site.pc in self.program.control_flow.unread_waits:
            return complete
        for barrier, every in self.groups(site, address):
            threads = every[complete[every]]
            ctas = self.ctas(threads)
            phases = barrier.phase[ctas] - 1
            if kind == "state":
                phases = self.of(phase, threads).astype(np.int64) >> PENDING_BITS
            keys = np.stack([ctas, phases])
            for key in np.unique(keys, axis=1).T:
                mine = executing(self)[threads[(keys == key[:, None]).all(axis=0)]]
                where = place(self, barrier, int(key[0]))
                recorder.add(ev.AcquireEvent(recorder.lines, where, int(key[1]), mine, SCOPES[acquires]))
        return complete

    def delivered(method: Any, self: MBarriers, operation: Operation) -> None:
        for signal in operation.signals:
            barrier = self.at.get(signal.address)
            if barrier is not None and barrier.live[signal.cta]:
                actor = np.array([recorder.numbers[operation]])
                is_far = self.lanes.full["chunk_cta"][operation.issuer] != signal.cta
                view = ev.MBARRIERS if is_far else ev.GENERIC
                touch(self, operation.pc, barrier, actor, np.array([signal.cta]), view=view)
                where, phase = place(self, barrier, signal.cta), int(barrier.phase[signal.cta])
                recorder.add(ev.ReleaseEvent(where, phase, actor, signal.cta + self.lanes.first, ev.CLUSTER))
        method(self, operation)

    def issue_arrival(method: Any, self: AsyncCopies, site: Any, barrier: MBarrier, warp: int, positions: Any) -> None:
        issued[self, warp].append(recorder.now)
        method(self, site, barrier, warp, positions)

    def count(method: Any, self: AsyncCopies, site: Any, barrier: MBarrier, positions: Any) -> None:
        full = self.lanes.full
        until = issued[self, int(full["chunk_warp"][positions[0]])].pop(0)
        cta = int(full["chunk_cta"][positions[0]])
        actors = recorder.actors("copies", grid_numbers(self, positions))
        home = cta + self.lanes.first
        where = place(self.mbarriers, barrier, cta)
        recorder.add(ev.ReleaseEvent(where, int(barrier.phase[cta]), actors, home, ev.CTA, until))
        method(self, site, barrier, positions)

    for name in ("arrive", "expect_tx"):
        using(MBarriers, name, "atomic")
    using(AsyncCopies, "arrive", "atomic")
    for name in ("init", "inval"):
        using(MBarriers, name, "store")
    wrap(patch, MBarriers, "arrive_at", arrive_at)
    wrap(patch, MBarriers, "wait", wait)
    using(MBarriers, "wait", "atomic")
    wrap(patch, MBarriers, "delivered", delivered)
    wrap(patch, AsyncCopies, "issue_arrival", issue_arrival)
    wrap(patch, AsyncCopies, "count", count)


def _watch_bulk_copies(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    starting: list[int] = []

    def start(actors: Any, issuer: int) -> Any:
        recorder.add(ev.ForkEvent(actors, np.array([[issuer]])))
        return actors

    def start_copy(
        method: Any, self: BulkCopies, what: str, position: int, source: Any, target: AddressRun, signal: Any = None,
        op: str = "",
    ) -> None:
        threads = grid_numbers(self, np.array([position]))
        issuer, writes = int(threads[0]), "atomic" if op else "store"
        if signal is None:
            for kind, run, does in (("reads", source, "load"), ("writes", target, writes)):
                run_through(recorder, self.access, run, start(recorder.actors(kind, threads), issuer), does)
        else:
            actor = start(np.array([recorder.actor(object(), signal.cta + self.lanes.first)]), issuer)
            from_memory = isinstance(source, AddressRun)
            if from_memory:
                run_through(recorder, self.access, source, actor, "load")
            # what sends registers is no operation of the proxy
            run_through(recorder, self.access, target, actor, writes, from_memory)
            starting.append(int(actor[0]))
        method(self, what, position, source, target, signal, op)

    def issue(method: Any, self: Operations, operation: Operation) -> None:
        if starting:
            recorder.numbers[operation] = starting.pop()
        method(self, operation)

    def commit(method: Any, self: BulkCopies) -> None:
        recorder.add(ev.CommitEvent("stores", executing(self)))
        method(self)

    def wait(method: Any, self: BulkCopies, newest: int, read: bool) -> None:
        threads = executing(self)
        for kind in ("reads",) if read else ("reads", "writes"):
            actors = recorder.actors(kind, threads)
            recorder.add(ev.WaitEvent(recorder.lines, "stores", threads, actors, newest))
        method(self, newest, read)

    wrap(patch, BulkCopies, "issue", start_copy)
    wrap(patch, Operations, "issue", issue)
    wrap(patch, BulkCopies, "commit", commit)
    wrap(patch, BulkCopies, "wait", wait)


def run_through(
    recorder: Recorder, owner: Any, run: AddressRun, actor: Any, kind: str, by_proxy: bool = True
) -> None:
    """An actor accesses all elements of a run."""
    for part in run.parts:
        recorder.start_of(part.region, owner.lanes)
        width = part.view.itemsize
        addresses = part.view.__array_interface__["data"][0] + part.index.reshape(-1) * width
        view = ev.GENERIC if not by_proxy else ev.SHARED if part.region.space == "shared" else ev.GLOBAL
        threads = np.full(addresses.size, actor[0])
        recorder.add(access_by(owner, run.site.pc, kind, threads, addresses, width, view=view))


def _watch_products(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def warpgroup_of(owner: Any, threads: Any) -> Any:
        per_cta = owner.lanes.threads
        return threads - threads % per_cta % WARPGROUP

    def note_reads(method: Any, self: WgmmaGroups, runs: Any, ctas: Any, leaders: Any) -> None:
        for run, leader in zip(runs, leaders.tolist(), strict=True):
            issuers = grid_numbers(self, np.arange(leader, leader + WARPGROUP))
            actor = recorder.actors("products", issuers[:1])
            recorder.add(ev.ForkEvent(actor, issuers[None]))
            run_through(recorder, self.access, run, actor, "load")
        method(self, runs, ctas, leaders)

    def commit(method: Any, self: WgmmaGroups, pc: int) -> None:
        recorder.add(ev.CommitEvent("products", executing(self)))
        method(self, pc)

    def wait(method: Any, self: WgmmaGroups, newest: int, pc: int) -> None:
        threads = executing(self)
        actors = recorder.actors("products", warpgroup_of(self, threads))
        recorder.add(ev.WaitEvent(recorder.lines, "products", threads, actors, newest))
        method(self, newest, pc)

    wrap(patch, WgmmaGroups, "note_reads", note_reads)
    wrap(patch, WgmmaGroups, "commit", commit)
    wrap(patch, WgmmaGroups, "wait", wait)


def _watch_proxies(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def fence(owner: Any, *moves: tuple[int, int]) -> None:
        recorder.add(ev.ProxyFenceEvent(recorder.lines, executing(owner), moves))

    def fence_proxy(method: Any, self: Units, space: str | None) -> None:
        views = {"shared": (ev.SHARED, ev.MBARRIERS), "global": (ev.GLOBAL,)}
        each = views.get(space or "", (ev.SHARED, ev.MBARRIERS, ev.GLOBAL))
        fence(self, *((ev.GENERIC, view) for view in each))
        method(self, space)

    def fence_mbarriers(method: Any, self: MBarriers, publishes: bool) -> None:
        if publishes:
            fence(self, (ev.GENERIC, ev.MBARRIERS))
        method(self, publishes)

    def publish(method: Any, self: TensorMaps, *operands: Any) -> None:
        method(self, *operands)
        fence(self, (ev.GENERIC, ev.RELEASED))

    def release(method: Any, self: TensorMaps) -> None:
        fence(self, (ev.GENERIC, ev.RELEASED))
        method(self)

    def acquire(method: Any, self: TensorMaps, address: Any, pc: int) -> None:
        fence(self, (ev.RELEASED, ev.TENSOR_MAPS))
        method(self, address, pc)

    def use(method: Any, self: TensorMaps, number: int, address: Any) -> None:
        recorder.view = ev.TENSOR_MAPS
        try:
            method(self, number, address)
        finally:
            recorder.view = ev.GENERIC

    wrap(patch, Units, "fence_proxy", fence_proxy)
    wrap(patch, MBarriers, "fence", fence_mbarriers)
    wrap(patch, TensorMaps, "publish", publish)
    wrap(patch, TensorMaps, "release", release)
    wrap(patch, TensorMaps, "acquire", acquire)
    wrap(patch, TensorMaps, "use", use)


def _watch_clusters(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def each(owner: Clusters, phases: Any) -> Any:
        """The executing threads by (cluster, phase, CTA)."""
        home = owner.lanes.get("cta").astype(np.int64)
        keys = np.stack([home // owner.lanes.ranks, phases, home])
        threads = executing(owner)
        for key in np.unique(keys, axis=1).T:
            cluster, phase, cta = key.tolist()
            yield ("cluster", cluster), phase, cta, threads[(keys == key[:, None]).all(axis=0)]

    def arrive(method: Any, self: Clusters, sem: str | None, aligned: str | None, pc: int) -> None:
        positions = self.lanes.positions()
        for where, phase, cta, threads in each(self, self.phase[self.home[positions]]):
            if sem != ".relaxed":
                recorder.add(ev.ReleaseEvent(where, phase, threads, cta, ev.CLUSTER))
        method(self, sem, aligned, pc)

    def wait(method: Any, self: Clusters, aligned: str | None, pc: int) -> None:
        phases = self.pending[self.lanes.positions()]
        method(self, aligned, pc)
        for where, phase, _, threads in each(self, phases):
            recorder.add(ev.AcquireEvent(recorder.lines, where, phase, threads, ev.CLUSTER))

    wrap(patch, Clusters, "arrive", arrive)
    wrap(patch, Clusters, "wait", wait)
