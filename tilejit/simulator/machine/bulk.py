"""TMA: asynchronous copies of boxes of tensors, and of contiguous bytes, between global and shared memory.

A load reports its bytes to an mbarrier. The stores of a thread form groups (commit_group), which complete in order;
wait_group waits until all but the newest groups have completed or, with .read, have read their sources.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk", "cp.async.bulk.tensor",
"cp.async.bulk.commit_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ...errors import MisalignedError, OutOfBoundsError, SimulationError
from ..checks.agents import Agents, Start
from ..checks.records import place
from ..opcodes.memory import Site
from .access import Access
from .far_arrivals import FarArrivals
from .lanes import Index
from .mbarrier import MBarrier
from .mbarriers import MBarriers
from .operations import AddressRun, Operation, Operations, Signal, address_run
from .tensor_map import CHUNK_BYTES, EncodedMap, Share

# alignment of boxes in shared memory, in bytes; source: CUDA programming guide, "Tensor Memory Accelerator"
BOX_ALIGNMENT = 128
#: the compiler may have clamped coordinates outside this range, so such boxes are not compared
_EXACT = range(-(1 << 31) + 1, (1 << 31) - 16)
SHARES_HINT = (
    "all CTAs that share a copy must name the same region and destination: compute both from what these CTAs have in "
    "common, such as the id of their cluster, and not from their own ids or ranks"
)


@dataclass(slots=True)
class BulkStore:
    """A store. group: its group's index among those of its thread. event, landed: events of its issue and delivery."""

    operation: Operation
    group: int
    event: int
    landed: int = 0


class BulkCopies:
    """The TMA copies of a chunk's threads.

    committed, read: the numbers of groups that each thread has committed, and whose reads it has waited for.
    stores: position of a thread → its stores whose completion it hasn't waited for.
    landed: with checks, CTA → agent → the agent's last delivered load to the CTA, and the event of its delivery.

    Of the agents (`checks/agents.py`), ("copies", address) carries out all loads that signal barriers at an address,
    ("reads", i) reads the sources of the stores by thread i of a CTA, and ("stores", i) writes their targets.
    """

    def __init__(self, access: Access, operations: Operations, mbarriers: MBarriers, far: FarArrivals) -> None:
        self.memory = access.memory
        self.lanes = lanes = access.lanes
        self.access = access
        self.operations = operations
        self.mbarriers = mbarriers
        self.far = far
        self.places = access.places
        self.committed, self.read = np.zeros((2, lanes.total), np.int64)
        self.stores: dict[int, list[BulkStore]] = {}
        self.landed: dict[int, dict[Hashable, tuple[Operation, int]]] = {}
        self.agents = Agents(access.checker, operations) if access.checker is not None else None
        self.shares = Shares(mbarriers) if access.checker is not None else None
        if self.shares is not None:
            mbarriers.finishes = self.shares.finish

    def load_box(
        self, source: int, target: int, signals: int, to: Any, where: Any, coordinates: tuple[Any, ...], bar: Any,
        mask: Any,
    ) -> None:
        """Start a TMA load per executing thread and receiving CTA. mask: a bit per rank; None for the thread's CTA."""
        site = self.access.sites[target]
        for i, position in enumerate(self.lanes.positions().tolist()):
            encoded = self.map_at(_of(where, i), position, site.pc)
            start = self.start(site, _of(to, i), BOX_ALIGNMENT, position)
            at = tuple(_of(c, i) for c in coordinates)
            run = self.box_in_global(encoded, at, self.access.sites[source], position)
            receivers = self.receivers(mask, i, site)
            if self.shares is not None and mask is not None:
                signalled = _of(bar, i) + self.access.sites[signals].offset
                self.shares.note(SharedBox(encoded, at, start, position, site), signalled, receivers)
            for cta in receivers:
                shared = self.box_in_shared(encoded, start, site, position, cta)
                signal = self.signal(signals, bar, i, encoded.shape.box_bytes, cta)
                self.issue_load("TMA load", position, run, shared, signal)

    def store_box(self, source: int, target: int, start: Any, where: Any, coordinates: tuple[Any, ...]) -> None:
        site = self.access.sites[source]
        for i, position in enumerate(self.lanes.positions().tolist()):
            encoded = self.map_at(_of(where, i), position, site.pc)
            begin = self.start(site, _of(start, i), BOX_ALIGNMENT, position)
            at = tuple(_of(c, i) for c in coordinates)
            self.check_writable(encoded, self.access.sites[target], position)
            self.check_stored_at(at, site, position)
            run = self.box_in_global(encoded, at, self.access.sites[target], position, stores=True)
            shared = self.box_in_shared(encoded, begin, site, position, self.cta(position))
            self.issue_store("TMA store", position, shared.part(run.which), run.part(run.which))

    def check_stored_at(self, coordinates: tuple[int, ...], site: Site, position: int) -> None:
        """Raise OutOfBoundsError if a stored box begins before the tensor; a loaded one may (measured on an H100)."""
        for axis, first in enumerate(coordinates):
            if first < 0:
                what = f"stores a box that begins at {first} along dimension {axis} of its map, before the tensor"
                hint = "begin the box at 0 or later; otherwise a GPU fails with CUDA_ERROR_ILLEGAL_INSTRUCTION"
                raise self.access.error(OutOfBoundsError, position, what, site.pc, hint)

    def load(self, source: int, target: int, signals: int, to: Any, start: Any, size: Any, bar: Any) -> None:
        for i, position in enumerate(self.lanes.positions().tolist()):
            count = _of(size, i)
            run, shared = self.runs(source, target, _of(start, i), _of(to, i), count, position)
            self.issue_load("bulk copy", position, run, shared, self.signal(signals, bar, i, count, self.cta(position)))

    def store(self, source: int, target: int, start: Any, to: Any, size: Any) -> None:
        for i, position in enumerate(self.lanes.positions().tolist()):
            shared, run = self.runs(source, target, _of(start, i), _of(to, i), _of(size, i), position)
            self.issue_store("bulk copy", position, shared, run)

    def runs(
        self, source: int, target: int, start: int, to: int, size: int, position: int
    ) -> tuple[AddressRun, AddressRun]:
        """Return the source and the target of a copy of bytes. raises: MisalignedError for a bad size or address."""
        sites = self.access.sites[source], self.access.sites[target]
        if size % CHUNK_BYTES or not size:
            what = f"copies {size} bytes, which is not a positive multiple of {CHUNK_BYTES}"
            raise self.access.error(MisalignedError, position, what, sites[0].pc)
        steps = np.arange(0, size, CHUNK_BYTES)
        begins = [self.start(x, at, CHUNK_BYTES, position) for x, at in zip(sites, (start, to), strict=True)]
        run, other = (
            address_run(self.access, x, self.cta(position), begin + steps, position)
            for x, begin in zip(sites, begins, strict=True)
        )
        return run, other

    def commit(self) -> None:
        self.committed[self.lanes.positions()] += 1

    def wait(self, newest: int, read: bool) -> None:
        """cp.async.bulk.wait_group: wait for all but each thread's last `newest` groups; if `read`, for their reads."""
        for position in self.lanes.positions().tolist():
            done = int(self.committed[position]) - newest
            stores = self.stores.get(position, [])
            pending = self.operations.pending
            self.operations.drain(("stores", position), sum(x.group >= done and x.operation in pending for x in stores))
            self.read[position] = max(self.read[position], done)
            complete = [x for x in stores if x.group < done]
            if self.agents is not None and complete:
                me, thread = np.array([position]), self.thread(position)
                self.agents.waited(me, ("reads", thread), complete[-1].event)
                if not read:
                    self.agents.waited(me, ("stores", thread), complete[-1].landed)
            if not read:
                self.stores[position] = stores[len(complete) :]

    def check_map(self, where: Any, pc: int) -> None:
        """prefetch.tensormap: check that the address holds a map, or the zeros passed for an array without elements."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            if _of(where, i) not in self.memory.empty_maps:
                self.map_at(_of(where, i), position, pc)

    def check_exit(self, positions: Index, alive: NDArray[np.bool_]) -> None:
        """Report copies that may still access shared memory of exiting threads' CTAs. alive: mask of living threads."""
        self.check_stores_read(positions)
        cta_of = self.lanes.full["chunk_cta"]
        for cta in np.setdiff1d(cta_of[positions], cta_of[alive]).tolist():
            for operation in self.unseen_loads(cta):
                self.access.finding(
                    "in-flight", np.array([operation.issuer]),
                    f"a CTA exits while a {operation.what} to its shared memory may be in flight, started by "
                    f"{self.lanes.describe_position(operation.issuer)}", operation.pc,
                    "wait for the phase of its mbarrier before exiting",
                )

    def unseen_loads(self, cta: int) -> list[Operation]:
        """Return loads into a CTA that none of its threads knows to be complete; without checks, those in flight."""
        flying = [x for x in self.operations.pending if any(s.cta == cta for s in x.signals)]
        agents, landed = self.agents, self.landed.get(cta, {}).items()
        if agents is None:
            return flying
        return [*flying, *(last for agent, (last, event) in landed if not agents.is_known(agent, cta, event))]

    def check_stores_read(self, positions: Index) -> None:
        """Report exiting threads that haven't waited until their stores have read their sources."""
        for position in set(positions.tolist()) & self.stores.keys():
            unread = [x.operation for x in self.stores[position] if x.group >= self.read[position]]
            if unread:
                hint = "wait with cp.async.bulk.wait_group.read 0 before exiting: exiting CTAs free their shared memory"
                what = f"exits before its {unread[0].what} was waited for"
                self.access.report("in-flight", position, what, unread[0].pc, hint)

    def issue_load(self, what: str, position: int, source: AddressRun, target: AddressRun, signal: Signal) -> None:
        pc, cta = target.site.pc, signal.cta
        agents, agent = self.agents, ("copies", signal.address)
        reads, writes = source.spans(), target.spans()
        issued = None
        if agents is not None:
            issuers = np.array([position])
            agents.read(reads, Start(what, issuers, source.site), agent, cta)
            agents.write(writes, Start(what, issuers, target.site))
            issued = agents.issued(position)

        def carry_out() -> None:
            target.write(source.read())
            if agents is not None:
                event = agents.land(writes, agent, cta, pc)
                operation.news = agents.news(agent, cta, event, issued)
                self.landed.setdefault(cta, {})[agent] = operation, event

        operation = Operation(pc, position, what, carry_out, reads, writes, (signal,))
        self.operations.issue(operation)

    def issue_store(self, what: str, position: int, source: AddressRun, target: AddressRun) -> None:
        cta, thread, pc = self.cta(position), self.thread(position), source.site.pc
        agents, reads, writes = self.agents, source.spans(), target.spans()
        event = 0
        if agents is not None:
            issuers = np.array([position])
            event = agents.read(reads, Start(what, issuers, source.site), ("reads", thread), cta)
            agents.write(writes, Start(what, issuers, target.site))

        def carry_out() -> None:
            self.access.memory_changed()
            target.write(source.read())
            if agents is not None:
                store.landed = agents.land(writes, ("stores", thread), cta, pc)

        operation = Operation(pc, position, what, carry_out, reads, writes, (), ("stores", position))
        store = BulkStore(operation, int(self.committed[position]), event)
        self.stores.setdefault(position, []).append(store)
        self.operations.issue(operation)

    def signal(self, number: int, bar: Any, i: int, size: int, cta: int) -> Signal:
        site = self.access.sites[number]
        address = _of(bar, i) + site.offset
        phase = 0
        if self.agents is not None:
            position = int(self.lanes.positions()[i])
            phase = self.mbarriers.phase_of_copy(site, address, position, cta)
            if cta != self.cta(position):
                self.mbarriers.check_visible(site, address, position, cta)
                self.far.check_signalled(site, address, i, cta)
        return Signal(address, cta, size, phase)

    def receivers(self, mask: Any, i: int, site: Site) -> list[int]:
        position = int(self.lanes.positions()[i])
        own, ranks = self.cta(position), self.lanes.ranks
        if mask is None:
            return [own]
        bits = _of(mask, i)
        if not bits or bits >> ranks:
            what = f"copies to the CTAs of mask {bits:#06x}, in a cluster of {ranks}"
            hint = "set a bit for each receiving CTA, by its rank in the cluster"
            raise self.access.error(SimulationError, position, what, site.pc, hint)
        ctas = [own // ranks * ranks + rank for rank in range(ranks) if bits >> rank & 1]
        return [cta for cta in ctas if self.far.is_there(site, position, cta)]

    def cta(self, position: int) -> int:
        return int(self.lanes.full["chunk_cta"][position])

    def thread(self, position: int) -> int:
        return int(self.lanes.full["thread"][position])

    def map_at(self, address: int, position: int, pc: int) -> EncodedMap:
        encoded = self.memory.maps.get(address)
        if encoded is not None:
            return encoded
        what = f"uses {address:#x} as the address of a tensor map, but no map is there"
        if address in self.memory.empty_maps:
            what = "starts a copy of an array without elements, which has no tensor map"
        raise self.access.error(SimulationError, position, what, pc)

    def check_writable(self, encoded: EncodedMap, site: Site, position: int) -> None:
        if not encoded.writable:
            what = f"writes to {encoded.name or 'an array'}, which is read-only"
            raise self.access.error(SimulationError, position, what, site.pc)

    def start(self, site: Site, address: int, alignment: int, position: int) -> int:
        """Return the start address of a copy. Raise MisalignedError unless it is a multiple of `alignment`."""
        start = address + site.offset
        if start % alignment:
            what = f"copies from or to {site.space} address {start:#x}, which is not a multiple of {alignment}"
            raise self.access.error(MisalignedError, position, what, site.pc)
        return start

    def box_in_global(
        self, encoded: EncodedMap, coordinates: tuple[int, ...], site: Site, position: int, *, stores: bool = False
    ) -> AddressRun:
        """Return the elements of a box that are inside the tensor; for a store, also the rest of their 16-byte chunks.

        Measured on an H100: if a row ends within a chunk, stores write the whole chunk, and loads read 0 past the end.
        raises: MisalignedError if the box begins within a chunk.
        """
        shape = encoded.shape
        begins = coordinates[0] * shape.element_bytes
        if begins % CHUNK_BYTES:
            what = (
                f"copies a box that begins at element {coordinates[0]} of the tensor's rows, {begins} bytes from their "
                f"start, which is not a multiple of {CHUNK_BYTES}"
            )
            hint = "begin the box at a multiple of 16 bytes; otherwise a GPU fails with CUDA_ERROR_ILLEGAL_INSTRUCTION"
            raise self.access.error(MisalignedError, position, what, site.pc, hint)
        addresses = shape.in_global() + (encoded.address + shape.first(coordinates))
        inside = shape.inside(coordinates, whole_chunks=stores)
        element = _of_elements(site, shape.element_bytes)
        return address_run(self.access, element, self.cta(position), addresses, position, inside)

    def box_in_shared(self, encoded: EncodedMap, start: int, site: Site, position: int, cta: int) -> AddressRun:
        element = _of_elements(site, encoded.shape.element_bytes)
        return address_run(self.access, element, cta, encoded.shape.in_shared(start), position)


def _of(value: Any, i: int) -> int:
    return int(value[i]) if np.ndim(value) else int(value)


def _of_elements(site: Site, size: int) -> Site:
    return replace(site, shift=size.bit_length() - 1, dtype=f"u{size}")


@dataclass(frozen=True, slots=True)
class SharedBox:
    """A box that a thread multicasts."""

    map: EncodedMap
    #: innermost dimension first
    coordinates: tuple[int, ...]
    #: the shared address of its first element
    to: int
    #: the thread's position in the chunk
    position: int
    site: Site
    #: False if a coordinate may have been clamped
    is_exact: bool = True

    def by_first(self, rank: int, share: Share) -> SharedBox:
        """Return the corresponding box of the first receiver. rank: the index of this box's CTA among the receivers."""
        coordinates = [c - rank * step for c, step in zip(self.coordinates, share.coordinates, strict=True)]
        is_exact = all(c in _EXACT for c in self.coordinates)
        to = self.to - rank * share.bytes
        return replace(self, coordinates=tuple(coordinates), to=to, is_exact=is_exact)

    def differs(self, other: SharedBox) -> bool:
        """Return True if the two boxes certainly begin at different global addresses."""
        here, there = (box.map.address + box.map.shape.first(box.coordinates) for box in (self, other))
        return here != there and self.is_exact and other.is_exact

    @property
    def region(self) -> str:
        """A description such as 'A from (0, 128) on', in the order of the array's dimensions."""
        axes = self.map.axes or range(len(self.coordinates))[::-1]
        starts = [str(start) for _, start in sorted(zip(axes, self.coordinates, strict=False))]
        return f"{self.map.name or 'an array'} from ({', '.join(starts)}) on"


class Shares:
    """Checks that the CTAs that share a multicast copy read parts of one region and write to one destination.

    Each box implies where the region begins: at the start of the box minus the offset of its CTA's part from the first
    CTA's. If regions or destinations differ, every CTA receives a mixture, which a GPU doesn't report.

    copied: (receiving CTA, barrier address) → destination → index of the copying CTA among the receivers → box. All
    receivers of a copy refer to one dictionary.
    """

    def __init__(self, mbarriers: MBarriers) -> None:
        self.mbarriers = mbarriers
        self.copied: dict[tuple[int, int], dict[int, dict[int, SharedBox]]] = {}

    def note(self, box: SharedBox, barrier: int, ctas: Sequence[int]) -> None:
        """Record a box if its map has a `share` and its CTA is among the receivers `ctas`.

        Report it if an earlier box for the same destination implies another region.
        """
        share, own = box.map.share, int(self.mbarriers.lanes.full["chunk_cta"][box.position])
        if share is None or own not in ctas:
            return
        rank = ctas.index(own)
        mine = box.by_first(rank, share)
        copied = self.copied.get((ctas[0], barrier))
        if copied is None:
            copied = {}
            self.copied.update({(cta, barrier): copied for cta in ctas})
        there = copied.setdefault(mine.to, {})
        other = next((x for x in there.values() if mine.differs(x)), None)
        there[rank] = mine
        if other is not None:
            self.report("regions", mine, other)

    def finish(self, barrier: MBarrier, ctas: Index) -> None:
        """At the end of a phase, report CTAs that copied their parts to different destinations."""
        for cta in ctas.tolist() if self.copied else ():
            copied = self.copied.pop((cta, barrier.address), {})
            sharing = {rank for there in copied.values() for rank in there}
            parts = [there for there in copied.values() if len(there) < len(sharing)]
            for there in parts[:1]:
                others = [box for part in parts for rank, box in part.items() if rank not in there]
                if others:
                    self.report("places", others[0], next(iter(there.values())))
            copied.clear()

    def report(self, what: str, mine: SharedBox, other: SharedBox) -> None:
        message = f"CTAs of a cluster share a copy and name different {what}: {self.described(mine)}"
        more = f"\nand {self.described(other)}"
        if other.site.pc != mine.site.pc:
            more = self.mbarriers.places.located(more, other.site.pc)
        threads = self.mbarriers.lanes.numbers(np.array([mine.position, other.position]))
        findings = self.mbarriers.access.findings
        findings.add("in-flight", message, mine.site.pc, other.site.pc, threads, hint=SHARES_HINT, more=more)

    def described(self, box: SharedBox) -> str:
        thread = self.mbarriers.lanes.describe_position(box.position)
        memory = self.mbarriers.access.memory.find("shared", box.to)
        width = box.map.shape.element_bytes
        where = f"address {box.to:#x}" if memory is None else place(memory, box.to - memory.base, width)
        return f"{thread} copies {box.region} to {where}"
