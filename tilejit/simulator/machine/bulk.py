"""TMA: asynchronous copies of boxes of tensors, and of contiguous bytes, between global and shared memory.

A load reports its bytes to an mbarrier. The stores of a thread form groups (commit_group), which complete in order;
wait_group waits until all but the newest groups have completed or, with .read, have read their sources.

source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk", "cp.async.bulk.tensor",
"cp.async.bulk.commit_group", "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, replace
from ...errors import MisalignedError, OutOfBoundsError, SimulationError
from ..checks.agents import Agents, Start
from ..decode.names import PTX_DTYPE, SIZE
from ..opcodes.memory import Site
from .access import Access
from .atomics import step
from .far_accesses import FarAccesses
from .lanes import RANK_SHIFT, Index
from .mbarriers import MBarriers
from .operations import AddressRun, Operation, Operations, Signal, address_run
from .shares import SharedBox, Shares
from .tensor_map import CHUNK_BYTES
from .tensor_maps import TensorMaps

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

    def __init__(
        self, access: Access, operations: Operations, mbarriers: MBarriers, far: FarAccesses, maps: TensorMaps
    ) -> None:
        self.lanes = lanes = access.lanes
        self.access = access
        self.operations = operations
        self.mbarriers = mbarriers
        self.far = far
        self.maps = maps
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
        for i, box in self.boxes(site, to, where, coordinates):
            run = self.box_in_global(box, self.access.sites[source])
            receivers = self.receivers(mask, i, site)
            if self.shares is not None and mask is not None:
                self.shares.note(box, _of(bar, i) + self.access.sites[signals].offset, receivers)
            for cta in receivers:
                signal = self.signal(signals, bar, i, box.map.shape.box_bytes, cta)
                self.issue("TMA load", box.position, run, self.box_in_shared(box, cta), signal)

    def store_box(self, source: int, target: int, start: Any, where: Any, coordinates: tuple[Any, ...]) -> None:
        """Start a TMA store per executing thread."""
        site = self.access.sites[target]
        for _, box in self.boxes(self.access.sites[source], start, where, coordinates):
            self.check_stored(box)
            run = self.box_in_global(box, site, stores=True)
            shared = self.box_in_shared(box, self.cta(box.position))
            self.issue("TMA store", box.position, shared.part(run.which), run.part(run.which))

    def boxes(self, site: Site, to: Any, where: Any, coordinates: tuple[Any, ...]) -> Iterator[tuple[int, SharedBox]]:
        """Yield (index of an executing thread, its box). site, to: of the shared memory. where: the map's address."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            encoded = self.maps.at(_of(where, i), position, site.pc)
            start = self.start(site, _of(to, i), BOX_ALIGNMENT, position)
            yield i, SharedBox(encoded, tuple(_of(c, i) for c in coordinates), start, position, site)

    def check_stored(self, box: SharedBox) -> None:
        """Raise an error if the tensor is read-only, or the box begins before it; a loaded one may, on an H100."""
        if not box.map.writable:
            what = f"writes to {box.map.name or 'an array'}, which is read-only"
            raise self.access.error(SimulationError, box.position, what, box.site.pc)
        for axis, first in enumerate(box.coordinates):
            if first < 0:
                what = f"stores a box that begins at {first} along dimension {axis} of its map, before the tensor"
                hint = "begin the box at 0 or later; otherwise a GPU fails with CUDA_ERROR_ILLEGAL_INSTRUCTION"
                raise self.access.error(OutOfBoundsError, box.position, what, box.site.pc, hint)

    def copy(
        self, source: int, target: int, signals: int | None, start: Any, to: Any, size: Any, bar: Any, mask: Any,
        op: str,
    ) -> None:
        """Start a copy of bytes, or a reduction by an operation such as "add.u32", per executing thread.

        signals: None for a copy to global memory, which belongs to a group. mask: of a load, as in `load_box`. For a
        copy between shared memories, to and bar contain the rank of a CTA.
        """
        first, second = (self.access.sites[x] for x in (source, target))
        what = "bulk reduction" if op else "bulk copy"
        for i, position in enumerate(self.lanes.positions().tolist()):
            count, offset, where = _of(size, i), _of(to, i), bar
            receivers = None
            if first.space == second.space:
                offset, where, receivers = self.sent_to(second, to, bar, i)
            self.check_size(count, position, first.pc)
            begin = self.start(first, _of(start, i), CHUNK_BYTES, position)
            place = self.start(second, offset, CHUNK_BYTES, position)
            for cta in self.receivers(mask, i, second) if receivers is None else receivers:
                read = self.run(first, begin, self.cta(position), count, position, op)
                written = self.run(second, place, cta, count, position, op)
                signal = None if signals is None else self.signal(signals, where, i, count, cta)
                self.issue(what, position, read, written, signal, op)

    def store_one(self, target: int, signals: int, to: Any, value: Any, bar: Any, op: str) -> None:
        """st.async, red.async: start a store of one element per thread, or a reduction. to, bar: with ranks."""
        site = self.access.sites[target]
        values, size = self.lanes.each(value), 1 << site.shift
        for i, position in enumerate(self.lanes.positions().tolist()):
            offset, where, receivers = self.sent_to(site, to, bar, i)
            begin = self.start(site, offset, size, position)
            for cta in receivers:
                run = address_run(self.access, site, cta, np.array([begin]), position)
                signal = self.signal(signals, where, i, size, cta)
                self.issue("remote reduction" if op else "remote store", position, values[i : i + 1], run, signal, op)

    def sent_to(self, site: Site, to: Any, bar: Any, i: int) -> tuple[int, int, list[int]]:
        """Return the addresses of the target and the mbarrier in their CTA, without the sites' offsets, and [that CTA].

        Report a CTA that has exited, and return []. raises: SimulationError if the addresses are in two CTAs;
        OutOfBoundsError if there is no such CTA.
        """
        position, ranks = int(self.lanes.positions()[i]), self.lanes.ranks
        (rank, offset), (other, where) = (divmod(_of(x, i), 1 << RANK_SHIFT) for x in (to, bar))
        if rank != other:
            what = f"writes to the CTA of rank {rank} in its cluster and signals an mbarrier of the CTA of rank {other}"
            raise self.access.error(SimulationError, position, what, site.pc, "both must be in the same CTA")
        if rank >= ranks:
            what = f"writes to the CTA of rank {rank}, in a cluster of {ranks}"
            raise self.access.error(OutOfBoundsError, position, what, site.pc)
        cta = self.cta(position) // ranks * ranks + rank
        return offset, where, [cta] if self.far.is_there(site, position, cta) else []

    def check_size(self, size: int, position: int, pc: int) -> None:
        if size % CHUNK_BYTES or not size:
            what = f"copies {size} bytes, which is not a positive multiple of {CHUNK_BYTES}"
            raise self.access.error(MisalignedError, position, what, pc)

    def run(self, site: Site, begin: int, cta: int, size: int, position: int, op: str) -> AddressRun:
        """Return `size` bytes at an address as elements of the type of `op`, if any."""
        if op:
            dtype = PTX_DTYPE[op.partition(".")[2]]
            site = replace(site, shift=SIZE[dtype].bit_length() - 1, dtype=dtype)
        return address_run(self.access, site, cta, np.arange(begin, begin + size, 1 << site.shift), position)

    def check_prefetch(self, where: Any, size: Any, pc: int) -> None:
        """cp.async.bulk.prefetch: check the size and the alignment."""
        for i, position in enumerate(self.lanes.positions().tolist()):
            self.check_size(_of(size, i), position, pc)
            if _of(where, i) % CHUNK_BYTES:
                what = f"prefetches from address {_of(where, i):#x}, which is not a multiple of {CHUNK_BYTES}"
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
                me, thread = np.array([position]), int(self.lanes.full["thread"][position])
                self.agents.waited(me, ("reads", thread), complete[-1].event)
                if not read:
                    self.agents.waited(me, ("stores", thread), complete[-1].landed)
            if not read:
                self.stores[position] = stores[len(complete) :]

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

    def issue(
        self, what: str, position: int, source: AddressRun | NDArray[Any], target: AddressRun,
        signal: Signal | None = None, op: str = "",
    ) -> None:
        """Start an operation that signals an mbarrier or, without a signal, belongs to a group of its thread.

        source: elements of memory, or values of registers.
        """
        pc, thread, agents = target.site.pc, int(self.lanes.full["thread"][position]), self.agents
        reader, writer, cta = ("reads", thread), ("stores", thread), self.cta(position)
        if signal is not None:
            reader = writer = "copies", signal.address
            cta = signal.cta
        is_copy = isinstance(source, AddressRun)
        reads, writes = source.spans() if isinstance(source, AddressRun) else (), target.spans()
        start = Start(what, np.array([position]), target.site, is_copy)
        issued, event = None, 0
        if agents is not None:
            if isinstance(source, AddressRun):
                agents.read(reads, replace(start, site=source.site), reader, cta)
            (agents.update if op else agents.write)(writes, start)
            issued, event = agents.issued(position) if signal is not None else None, agents.order.tick(pc)

        def carry_out() -> None:
            if agents is not None and op:
                agents.update(writes, start, event)
            values = source.read() if isinstance(source, AddressRun) else source
            target.write(step(op)(target.read(), (values,)) if op else values)
            if agents is None:
                return
            landed = agents.land(writes, writer, cta, pc)
            if store is not None:
                store.landed = landed
                return
            operation.news = agents.news(writer, cta, landed, issued)
            self.landed.setdefault(cta, {})[writer] = operation, landed

        signals, pipe = ((), ("stores", position)) if signal is None else ((signal,), None)
        operation = Operation(pc, position, what, carry_out, reads, () if op else writes, signals, pipe)
        store = BulkStore(operation, int(self.committed[position]), event) if signal is None else None
        if store is not None:
            self.stores.setdefault(position, []).append(store)
        self.operations.issue(operation)
        if signal is not None:
            self.mbarriers.check_start(operation, signal)

    def signal(self, number: int, bar: Any, i: int, size: int, cta: int) -> Signal:
        site = self.access.sites[number]
        address = _of(bar, i) + site.offset
        if self.agents is not None:
            position = int(self.lanes.positions()[i])
            if cta != self.cta(position):
                self.mbarriers.check_visible(site, address, position, cta)
                self.far.check_signalled(site, address, i, cta)
        return Signal(address, cta, size, self.mbarriers.phase_of(address, cta))

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

    def start(self, site: Site, address: int, alignment: int, position: int) -> int:
        """Return the start address of a copy. Raise MisalignedError unless it is a multiple of `alignment`."""
        start = address + site.offset
        if start % alignment:
            what = f"copies from or to {site.space} address {start:#x}, which is not a multiple of {alignment}"
            raise self.access.error(MisalignedError, position, what, site.pc)
        return start

    def box_in_global(self, box: SharedBox, site: Site, *, stores: bool = False) -> AddressRun:
        """Return the elements of a box that are inside the tensor; for a store, also the rest of their 16-byte chunks.

        Measured on an H100: if a row ends within a chunk, stores write the whole chunk, and loads read 0 past the end.
        raises: MisalignedError if the box begins within a chunk.
        """
        shape, first = box.map.shape, box.coordinates[0]
        begins = first * shape.element_bytes
        if begins % CHUNK_BYTES:
            what = (
                f"copies a box that begins at element {first} of the tensor's rows, {begins} bytes from their "
                f"start, which is not a multiple of {CHUNK_BYTES}"
            )
            hint = "begin the box at a multiple of 16 bytes; otherwise a GPU fails with CUDA_ERROR_ILLEGAL_INSTRUCTION"
            raise self.access.error(MisalignedError, box.position, what, site.pc, hint)
        addresses = shape.in_global() + (box.map.address + shape.first(box.coordinates))
        inside = shape.inside(box.coordinates, whole_chunks=stores)
        element = _of_elements(site, shape.element_bytes)
        return address_run(self.access, element, self.cta(box.position), addresses, box.position, inside)

    def box_in_shared(self, box: SharedBox, cta: int) -> AddressRun:
        shape = box.map.shape
        element = _of_elements(box.site, shape.element_bytes)
        return address_run(self.access, element, cta, shape.in_shared(box.to), box.position)


def _of(value: Any, i: int) -> int:
    return int(value[i]) if np.ndim(value) else int(value)


def _of_elements(site: Site, size: int) -> Site:
    return replace(site, shift=size.bit_length() - 1, dtype=f"u{size}")
