"""TMA: asynchronous copies of boxes of tensors, and of contiguous bytes, between global and shared memory.

A load reports its bytes to an mbarrier. The stores of a thread form groups (commit_group), which complete in order;
wait_group waits until all but the newest groups have completed or, with .read, have read their sources.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk", "cp.async.bulk.tensor",
"cp.async.bulk.commit_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ...errors import MisalignedError, OutOfBoundsError, SimulationError
from ..checks.agents import Agents, Start
from ..decode.names import PTX_DTYPE, SIZE
from ..opcodes.memory import Site
from . import tensor_map as tmap
from .access import Access
from .atomics import step
from .far_arrivals import FarArrivals
from .lanes import RANK_SHIFT, Index
from .mbarriers import MBarriers
from .operations import AddressRun, Operation, Operations, Signal, address_run
from .shares import SharedBox, Shares

# alignment of boxes in shared memory, in bytes; source: CUDA programming guide, "Tensor Memory Accelerator"
BOX_ALIGNMENT = 128


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

    def load(
        self, source: int, target: int, signals: int, to: Any, start: Any, size: Any, bar: Any, mask: Any
    ) -> None:
        """Start a copy from global memory per executing thread and receiving CTA. mask: as in `load_box`."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            count = _of(size, i)
            begins = self.begins(source, target, _of(start, i), _of(to, i), count, position)
            for cta in self.receivers(mask, i, self.access.sites[target]):
                run, shared = self.runs(source, target, begins, count, (cta, cta), position)
                self.issue_load("bulk copy", position, run, shared, self.signal(signals, bar, i, count, cta))

    def store(self, source: int, target: int, start: Any, to: Any, size: Any, op: str = "") -> None:
        """Start a copy to global memory, or a reduction there by an operation such as "add.u32"."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            count, cta = _of(size, i), self.cta(position)
            begins = self.begins(source, target, _of(start, i), _of(to, i), count, position)
            shared, run = self.runs(source, target, begins, count, (cta, cta), position, op)
            self.issue_store("bulk reduction" if op else "bulk copy", position, shared, run, op)

    def send(
        self, source: int, target: int, signals: int, to: Any, start: Any, size: Any, bar: Any, op: str = ""
    ) -> None:
        """Start a copy to the shared memory of a CTA of the cluster, or a reduction there. to, bar: with ranks."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            count, own = _of(size, i), self.cta(position)
            offset, where, cta = self.sent_to(target, signals, to, bar, i)
            begins = self.begins(source, target, _of(start, i), offset, count, position)
            if self.far.is_there(self.access.sites[target], position, cta):
                mine, theirs = self.runs(source, target, begins, count, (own, cta), position, op)
                signal = self.signal(signals, where, i, count, cta)
                self.issue_load("bulk reduction" if op else "bulk copy", position, mine, theirs, signal, op)

    def store_one(self, target: int, signals: int, to: Any, value: Any, bar: Any, op: str = "") -> None:
        """st.async, red.async: start a store of one element per thread, or a reduction. to, bar: with ranks."""
        site = self.access.sites[target]
        values = self.lanes.each(value)
        for i, position in enumerate(self.lanes.positions().tolist()):
            offset, where, cta = self.sent_to(target, signals, to, bar, i)
            begin = self.start(site, offset, 1 << site.shift, position)
            if self.far.is_there(site, position, cta):
                run = address_run(self.access, site, cta, np.array([begin]), position)
                signal = self.signal(signals, where, i, 1 << site.shift, cta)
                what = "remote reduction" if op else "remote store"
                self.issue_load(what, position, values[i : i + 1], run, signal, op)

    def sent_to(self, target: int, signals: int, to: Any, bar: Any, i: int) -> tuple[int, int, int]:
        """Return the addresses of the target and the mbarrier in their CTA, without the sites' offsets, and that CTA.

        raises: SimulationError if they are in two CTAs; OutOfBoundsError if there is no such CTA.
        """
        site, position, ranks = self.access.sites[target], int(self.lanes.positions()[i]), self.lanes.ranks
        (rank, offset), (other, where) = (divmod(_of(x, i), 1 << RANK_SHIFT) for x in (to, bar))
        if rank != other:
            what = f"writes to the CTA of rank {rank} in its cluster and signals an mbarrier of the CTA of rank {other}"
            raise self.access.error(SimulationError, position, what, site.pc, "both must be in the same CTA")
        if rank >= ranks:
            what = f"writes to the CTA of rank {rank}, in a cluster of {ranks}"
            raise self.access.error(OutOfBoundsError, position, what, site.pc)
        return offset, where, self.cta(position) // ranks * ranks + rank

    def begins(self, source: int, target: int, start: int, to: int, size: int, position: int) -> tuple[int, int]:
        """Return the addresses of a copy of bytes. raises: MisalignedError for a bad size or address."""
        sites = self.access.sites[source], self.access.sites[target]
        self.check_size(size, position, sites[0].pc)
        size = tmap.CHUNK_BYTES
        first, second = (self.start(x, at, size, position) for x, at in zip(sites, (start, to), strict=True))
        return first, second

    def check_size(self, size: int, position: int, pc: int) -> None:
        if size % tmap.CHUNK_BYTES or not size:
            what = f"copies {size} bytes, which is not a positive multiple of {tmap.CHUNK_BYTES}"
            raise self.access.error(MisalignedError, position, what, pc)

    def runs(
        self, source: int, target: int, begins: tuple[int, int], size: int, ctas: tuple[int, int], position: int,
        op: str = "",
    ) -> tuple[AddressRun, AddressRun]:
        """Return the source and the target of a copy of bytes, by elements of the type of `op`, if any."""
        first, second = (self.access.sites[x] for x in (source, target))
        if op:
            dtype = PTX_DTYPE[op.partition(".")[2]]
            first, second = (replace(x, shift=SIZE[dtype].bit_length() - 1, dtype=dtype) for x in (first, second))
        steps = np.arange(0, size, 1 << first.shift)
        return (
            address_run(self.access, first, ctas[0], begins[0] + steps, position),
            address_run(self.access, second, ctas[1], begins[1] + steps, position),
        )

    def check_prefetch(self, where: Any, size: Any, pc: int) -> None:
        """cp.async.bulk.prefetch: check the size and the alignment."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            self.check_size(_of(size, i), position, pc)
            if _of(where, i) % tmap.CHUNK_BYTES:
                what = f"prefetches from address {_of(where, i):#x}, which is not a multiple of {tmap.CHUNK_BYTES}"
                raise self.access.error(MisalignedError, position, what, pc)

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
                    f"a CTA exits while a {operation.what} {'from' if self.reads(operation, cta) else 'to'} its shared "
                    "memory may be in flight, started by "
                    f"{self.lanes.describe_position(operation.issuer)}", operation.pc,
                    "wait for the phase of its mbarrier before exiting",
                )

    def unseen_loads(self, cta: int) -> list[Operation]:
        """Return loads into a CTA that none of its threads knows to be complete, and copies in flight from it.

        Without checks, return only loads in flight.
        """
        flying = [x for x in self.operations.pending if any(s.cta == cta for s in x.signals) or self.reads(x, cta)]
        agents, landed = self.agents, self.landed.get(cta, {}).items()
        if agents is None:
            return flying
        return [*flying, *(last for agent, (last, event) in landed if not agents.is_known(agent, cta, event))]

    def reads(self, operation: Operation, cta: int) -> bool:
        """True if an operation that signals an mbarrier reads shared memory of a CTA."""
        shared = any(span.region.space == "shared" for span in operation.reads)
        return bool(operation.signals) and shared and self.cta(operation.issuer) == cta

    def check_stores_read(self, positions: Index) -> None:
        """Report exiting threads that haven't waited until their stores have read their sources."""
        for position in set(positions.tolist()) & self.stores.keys():
            unread = [x.operation for x in self.stores[position] if x.group >= self.read[position]]
            if unread:
                hint = "wait with cp.async.bulk.wait_group.read 0 before exiting: exiting CTAs free their shared memory"
                what = f"exits before its {unread[0].what} was waited for"
                self.access.report("in-flight", position, what, unread[0].pc, hint)

    def issue_load(
        self, what: str, position: int, source: AddressRun | NDArray[Any], target: AddressRun, signal: Signal,
        op: str = "",
    ) -> None:
        """Start an operation that signals an mbarrier. source: elements of memory, or values of registers."""
        pc, cta = target.site.pc, signal.cta
        agents, agent = self.agents, ("copies", signal.address)
        reads, writes = source.spans() if isinstance(source, AddressRun) else (), target.spans()
        issued, event, start = None, 0, Start(what, np.array([position]), target.site, isinstance(source, AddressRun))
        if agents is not None:
            if isinstance(source, AddressRun):
                agents.read(reads, replace(start, site=source.site), agent, cta)
            (agents.update if op else agents.write)(writes, start)
            issued, event = agents.issued(position), agents.order.tick(pc)

        def carry_out() -> None:
            if agents is not None and op:
                agents.update(writes, start, event)
            values = source.read() if isinstance(source, AddressRun) else source
            target.write(step(op)(target.read(), (values,)) if op else values)
            if agents is not None:
                landed = agents.land(writes, agent, cta, pc)
                operation.news = agents.news(agent, cta, landed, issued)
                self.landed.setdefault(cta, {})[agent] = operation, landed

        signal = replace(signal, phase=self.mbarriers.phase_of(signal))
        operation = Operation(pc, position, what, carry_out, reads, () if op else writes, (signal,))
        self.operations.issue(operation)
        self.mbarriers.check_start(operation, signal)

    def issue_store(self, what: str, position: int, source: AddressRun, target: AddressRun, op: str = "") -> None:
        """Start an operation that belongs to a group of its thread."""
        cta, thread, pc = self.cta(position), self.thread(position), source.site.pc
        agents, reads, writes = self.agents, source.spans(), target.spans()
        event, start = 0, Start(what, np.array([position]), target.site)
        if agents is not None:
            event = agents.read(reads, replace(start, site=source.site), ("reads", thread), cta)
            (agents.update if op else agents.write)(writes, start)

        def carry_out() -> None:
            self.access.memory_changed()
            if agents is not None and op:
                agents.update(writes, start, event)
            values = source.read()
            target.write(step(op)(target.read(), (values,)) if op else values)
            if agents is not None:
                store.landed = agents.land(writes, ("stores", thread), cta, pc)

        operation = Operation(pc, position, what, carry_out, reads, () if op else writes, (), ("stores", position))
        store = BulkStore(operation, int(self.committed[position]), event)
        self.stores.setdefault(position, []).append(store)
        self.operations.issue(operation)

    def signal(self, number: int, bar: Any, i: int, size: int, cta: int) -> Signal:
        site = self.access.sites[number]
        address = _of(bar, i) + site.offset
        if self.agents is not None:
            position = int(self.lanes.positions()[i])
            if cta != self.cta(position):
                self.mbarriers.check_visible(site, address, position, cta)
                self.far.check_signalled(site, address, i, cta)
        return Signal(address, cta, size)

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

    def map_at(self, address: int, position: int, pc: int) -> tmap.EncodedMap:
        encoded = self.memory.maps.get(address)
        if encoded is not None:
            return encoded
        if address in self.memory.empty_maps:
            what = "starts a copy of an array without elements, which has no tensor map"
            raise self.access.error(SimulationError, position, what, pc)
        what = f"uses {address:#x} as the address of a tensor map, but no map is there"
        region = self.memory.find("", address)
        if region is None or region.owner or address + tmap.MAP_BYTES > region.generic + region.size:
            raise self.access.error(SimulationError, position, what, pc)
        start = address - region.generic
        found = tmap.decode(region.memory[start : start + tmap.MAP_BYTES].tobytes())
        if isinstance(found, str):
            part = region.part_at(start) or region.parts[0]
            what = f"uses {part.place(start - part.start, tmap.MAP_BYTES)} as a tensor map, which is invalid: {found}"
            raise self.access.error(SimulationError, position, what, pc)
        tensor = self.memory.find("global", found[0])
        named = tensor.part_at(found[0] - tensor.base) if tensor is not None else None
        writable = tensor is None or tensor.writable
        return tmap.EncodedMap(named.name if named else "", found[0], found[1], writable, (), None)

    def check_writable(self, encoded: tmap.EncodedMap, site: Site, position: int) -> None:
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
        self, encoded: tmap.EncodedMap, coordinates: tuple[int, ...], site: Site, position: int, *, stores: bool = False
    ) -> AddressRun:
        """Return the elements of a box that are inside the tensor; for a store, also the rest of their 16-byte chunks.

        Measured on an H100: if a row ends within a chunk, stores write the whole chunk, and loads read 0 past the end.
        raises: MisalignedError if the box begins within a chunk.
        """
        shape = encoded.shape
        begins = coordinates[0] * shape.element_bytes
        if begins % tmap.CHUNK_BYTES:
            what = (
                f"copies a box that begins at element {coordinates[0]} of the tensor's rows, {begins} bytes from their "
                f"start, which is not a multiple of {tmap.CHUNK_BYTES}"
            )
            hint = "begin the box at a multiple of 16 bytes; otherwise a GPU fails with CUDA_ERROR_ILLEGAL_INSTRUCTION"
            raise self.access.error(MisalignedError, position, what, site.pc, hint)
        addresses = shape.in_global() + (encoded.address + shape.first(coordinates))
        inside = shape.inside(coordinates, whole_chunks=stores)
        element = _of_elements(site, shape.element_bytes)
        return address_run(self.access, element, self.cta(position), addresses, position, inside)

    def box_in_shared(self, encoded: tmap.EncodedMap, start: int, site: Site, position: int, cta: int) -> AddressRun:
        element = _of_elements(site, encoded.shape.element_bytes)
        return address_run(self.access, element, cta, encoded.shape.in_shared(start), position)


def _of(value: Any, i: int) -> int:
    return int(value[i]) if np.ndim(value) else int(value)


def _of_elements(site: Site, size: int) -> Site:
    return replace(site, shift=size.bit_length() - 1, dtype=f"u{size}")
