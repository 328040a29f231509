"""Loads, stores and atomics of a group of threads.

An instruction nearly always accesses the region that it accessed last, so two tests usually suffice for all threads:

    offset = address - start          of each thread, unsigned: addresses before the region become huge
    OR of all offsets <= limit?       every access is inside, since no offset exceeds the OR of all
    OR of all offsets, low bits 0?    every address is aligned
    index  = offset >> shift          into the region's NumPy view

Addresses are examined individually only if a test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from ...fast_unique import fast_unique
from ..checks.findings import Findings
from ..checks.profile import Profiler
from ..checks.races import AccessChecker
from ..checks.records import place, unchanged
from ..decode.names import DTYPES
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .atomics import update
from .lanes import RANK_SHIFT, WARP, Index, Lanes
from .memory import AddressMap, Bound, MemoryRegion, in_bytes

_OR = np.bitwise_or.reduce
_MAX = np.maximum.reduce
_INT64 = np.dtype(np.int64)


class Access:
    """Executes a chunk's memory instructions (`sites`), each bound to the region that it accessed last."""

    def __init__(
        self, sites: Sequence[Site], memory: AddressMap, lanes: Lanes, findings: Findings,
        checker: AccessChecker | None, profiler: Profiler | None,
    ) -> None:
        self.sites = sites
        self.memory = memory
        self.lanes = lanes
        self.places = findings.places
        self.findings = findings
        self.checker = checker
        self.order = checker.order if checker is not None else None
        self.profiler = profiler
        self.bound: list[Bound | None] = [None] * len(sites)
        self.watched: Watched | None = None

    def watch(self, loads: frozenset[int]) -> Watched:
        """Return the tracker of the memory read by `loads` (indices in `sites`); the first call creates it."""
        if self.watched is None:
            self.watched = Watched(loads)
        return self.watched

    def memory_changed(self) -> None:
        """Record that something other than a store or an atomic has changed memory or a barrier's state."""
        if self.watched is not None:
            self.watched.events += 1
            self.watched.changes += 1

    def bind(self, site: Site, address: Any) -> Bound | None:
        """Bind `site` to the region of the first thread's address; return None if there is none."""
        flat = np.ravel(address)
        first = (int(flat[0]) + site.offset) & (2**64 - 1 if site.address_dtype == "u8" else 2**32 - 1)
        region = self.memory.find(site.space, first)
        return None if region is None else self.bind_to(site, region)

    def bind_to(self, site: Site, region: MemoryRegion) -> Bound:
        view, lead = region.view(site.dtype, site.shift)
        kind = np.uint64 if site.address_dtype == "u8" else np.uint32
        start = region.generic - WINDOWS[site.space] + lead - site.offset
        limit = region.size - lead - (1 << site.shift)
        modulus = 2 ** (8 * int(site.address_dtype[1]))
        bound = self.bound[site.index] = Bound(region, kind(start % modulus), limit, view, kind(site.shift), lead)
        return bound

    def resolve(self, number: int, address: Any) -> tuple[Bound | None, Any]:
        """Return the instruction's binding to a region, and each executing thread's index in the region's view.

        If the addresses are in several regions, or one is invalid (which is reported), return None and the addresses.
        """
        site = self.sites[number]
        bound = self.bound[number] or self.bind(site, address)
        if bound is None:
            actual = self.actual(site, self.lanes.each(address))
            self.report_outside(site, actual, np.flatnonzero(self.memory.find_each(site, actual) < 0))
            return None, self.lanes.each(address)
        if not address.ndim:
            address = np.full(self.lanes.n, address)
        offset = address - bound.start
        bits = int(_OR(offset))
        if bits > bound.limit or bits & ((1 << site.shift) - 1):
            if bits & ((1 << site.shift) - 1) and self.is_misaligned(site, address):
                return None, address
            if int(_MAX(offset)) > bound.limit:
                retry = self.rebind_site(site, address, bound)
                return retry if retry is not None else (None, address)
        offset >>= bound.shift
        index = offset.view(_INT64) if site.address_dtype == "u8" else offset.astype(_INT64)
        region = bound.region
        if region.owner:
            index += self.lanes.offsets(region.owner, region.stride >> site.shift)
        if self.profiler is not None:
            self.profiler.access(self.lanes, site, region, index, bound.lead)
        return bound, index

    def rebind_site(self, site: Site, address: NDArray[Any], old: Bound) -> tuple[Bound, Any] | None:
        actual = self.actual(site, address)
        regions = self.memory.find_each(site, actual)
        outside = np.flatnonzero(regions < 0)
        if outside.size:
            self.report_outside(site, actual, outside)
            return None
        region = self.memory.regions[int(regions[0])]
        if (regions != regions[0]).any() or region is old.region:
            return None
        self.bind_to(site, region)
        bound, index = self.resolve(site.index, address)
        return (bound, index) if bound is not None else None

    def actual(self, site: Site, address: Any) -> NDArray[np.uint64]:
        """Return each address plus the instruction's constant offset, as uint64."""
        wide = np.atleast_1d(address)
        offset = wide.dtype.type(site.offset % 2 ** (8 * wide.dtype.itemsize))
        result: NDArray[np.uint64] = (wide + offset).astype(np.uint64)
        return result

    def load(self, number: int, address: Any) -> Any:
        """Return the element at each thread's address. The result for a scalar address may be a scalar."""
        if not address.ndim:
            shared = self.load_shared_address(number, address)
            if shared is not None:
                return shared
        bound, index = self.resolve(number, address)
        if bound is None:
            return self.split(number, index, (), lambda at: self.load(number, at))
        region = bound.region
        if region.shadow is not None:
            self.checker_().load(region, index, self.sites[number])
        if self.watched is not None:
            self.watched.read(self.sites[number], bound, index)
        return bound.view[index]

    def load_shared_address(self, number: int, address: Any) -> Any:
        """Return the element at a scalar address, or None if the access needs the general path."""
        site = self.sites[number]
        bound = self.bound[number] or self.bind(site, address)
        if bound is None or bound.region.owner or bound.region.shadow is not None or self.profiler is not None \
                or self.watched is not None:
            return None
        offset = int(address) - int(bound.start)
        if offset < 0 or offset > bound.limit or offset & ((1 << site.shift) - 1):
            return None
        return bound.view[offset >> site.shift]

    def store(self, number: int, address: Any, value: Any) -> None:
        bound, index = self.resolve(number, address)
        if bound is None:
            self.split(number, index, (value,), lambda at, part: self.store(number, at, part))
            return
        region = bound.region
        if not region.writable:
            self.report_read_only(self.sites[number], region, index)
            return
        if self.watched is not None:
            changed = not unchanged(bound.view[index], value)
            self.watched.write(self.sites[number], bound, index, changed)
        if region.shadow is not None:
            self.checker_().store(region, index, value, bound.view, self.sites[number])
        else:
            bound.view[index] = value

    def atomic(self, number: int, address: Any, wanted: bool, *operands: Any) -> Any:
        """Update the element at each thread's address. Return the old values if `wanted`, else an unspecified value."""
        site = self.sites[number]
        bound, index = self.resolve(number, address)
        if bound is None:
            result = self.split(number, index, operands, lambda at, *parts: self.atomic(number, at, wanted, *parts))
            return result if wanted else None
        region = bound.region
        if not region.writable:
            self.report_read_only(site, region, index)
            return np.zeros(index.shape, bound.view.dtype) if wanted else None
        if region.shadow is not None:
            self.checker_().atomic(region, index, site)
        values = tuple(np.broadcast_to(x, index.shape) for x in operands)
        before = None
        if self.watched is not None:
            self.watched.read(site, bound, index)
            before = bound.view[index]
        result = update(site.op, bound.view, index, values, wanted)
        if self.watched is not None and before is not None:
            self.watched.write(site, bound, index, not unchanged(before, bound.view[index]))
        if region.shadow is not None:
            self.checker_().release(region, index, site, result, values)
        return result

    def checker_(self) -> AccessChecker:
        assert self.checker is not None, "a region has a shadow although checks are off"
        return self.checker

    def parts(self, number: int, address: NDArray[Any]) -> Iterator[Index]:
        """For each accessed region, select the threads with valid addresses in it; yield their indices in `address`."""
        site = self.sites[number]
        actual = self.actual(site, address)
        regions = self.memory.find_each(site, actual)
        regions[(actual & np.uint64((1 << site.shift) - 1)) != 0] = -1
        positions, group = self.lanes.positions(), self.lanes.group
        for part in [np.flatnonzero(regions == r) for r in fast_unique(regions) if r >= 0]:
            self.lanes.select(positions[part])
            yield part
        self.lanes.select(group)

    def split(self, number: int, address: NDArray[Any], operands: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Call `run(addresses, *operands)` once per region; return each thread's result, 0 for an invalid address."""
        result = np.zeros(address.size, DTYPES[self.sites[number].dtype])
        for part in self.parts(number, address):
            values = run(address[part], *(x[part] if np.ndim(x) else x for x in operands))
            if values is not None:
                result[part] = values
        return result

    def error(
        self, kind: type[SimulationError], positions: Index | int, what: str, pc: int, hint: str | None = None,
        then: tuple[str, int] | None = None,
    ) -> SimulationError:
        """Return an error of class `kind`: '<first thread> <what>', then the location of the instruction."""
        threads = np.atleast_1d(positions)
        return self.failure(kind, threads, f"{self.lanes.describe_position(int(threads[0]))} {what}", pc, hint, then)

    def failure(
        self, kind: type[SimulationError], threads: Index, message: str, pc: int, hint: str | None = None,
        then: tuple[str, int] | None = None, more: str = "",
    ) -> SimulationError:
        """Return an error of class `kind`: `message`, then the location of the instruction, then `more`.

        then: (text that introduces the location of a second instruction, index of that instruction).
        """
        text = self.places.located(message, pc, *then or ()) + more
        pcs = (pc,) if then is None else (pc, then[1])
        return kind(text, hint=hint, instructions=pcs, threads=self.lanes.numbers(threads))

    def finding(
        self, rule: str, threads: Index, message: str, pc: int, hint: str | None = None,
        then: tuple[str, int] | None = None,
    ) -> None:
        """Add a finding: `message`, then the location of the instruction. then: as in `failure`."""
        text, other_pc = then or ("", None)
        self.findings.add(rule, message, pc, other_pc, self.lanes.numbers(threads), threads.size, hint, then=text)

    def report(self, rule: str, positions: Index | int, what: str, pc: int, hint: str | None = None) -> None:
        """Add a finding: '<first thread> <what>', then the location of the instruction."""
        threads = np.atleast_1d(positions)
        self.finding(rule, threads, f"{self.lanes.describe_position(int(threads[0]))} {what}", pc, hint)

    def report_arrival(
        self, positions: Index, what: str, pc: int, other_pc: int | None = None, hint: str | None = None
    ) -> None:
        """Add a 'barrier' finding: '<threads> <what>' at `pc` and, if `other_pc` is given, 'after' and its location."""
        then = None if other_pc is None else ("after", other_pc)
        self.finding("barrier", positions, f"{self.lanes.party(positions)} {what}", pc, hint, then)

    def uniform(self, value: Any, size: int, what: str, pc: int) -> NDArray[Any]:
        """Return one value per `size` threads (a warp or warpgroup); raise SimulationError if their values differ."""
        table = self.lanes.each(value).reshape(-1, size)
        wrong = np.argwhere(table != table[:, :1])
        if wrong.size:
            row, column = (int(x) for x in wrong[0])
            at = self.lanes.positions()[[row * size + column]]
            raise self.failure(
                SimulationError, at,
                f"all threads of a {'warp' if size == WARP else 'warpgroup'} must have the same value for {what}: "
                f"{self.lanes.describe_position(int(at[0]))} has {int(table[row, column]):#x}, the first thread has "
                f"{int(table[row, 0]):#x}", pc,
            )
        return table[:, 0]

    def is_misaligned(self, site: Site, address: NDArray[Any]) -> bool:
        """Report misaligned addresses, as out of bounds if the first is in no region; return True if there are any."""
        actual = self.actual(site, address)
        width = 1 << site.shift
        wrong = np.flatnonzero(actual & np.uint64(width - 1))
        if not wrong.size:
            return False
        at = int(wrong[0])
        where = int(actual[at])
        region = self.memory.find(site.space, where)
        if region is None:
            self.report_outside(site, actual, wrong)
            return True
        offset = where + WINDOWS[site.space] - region.generic
        what = f"accesses {width} bytes at address {where:#x}, which is not a multiple of {width}: "
        what += f"{place(region, offset, width)} of {region.space} memory"
        self.report("alignment", self.lanes.positions()[wrong], what, site.pc)
        return True

    def report_outside(self, site: Site, actual: NDArray[np.uint64], outside: NDArray[np.int64]) -> None:
        at = int(outside[0])
        where, width = int(actual[at]), 1 << site.shift
        size = in_bytes(width)
        space = site.space or "generic"
        near = self.memory.nearest(site.space, where)
        detail = "no memory is allocated there"
        if near is not None:
            offset = where + WINDOWS[site.space] - near.generic
            part = near.part_at(max(0, min(offset, near.size - 1))) or near.parts[0]
            detail = f"{part.place(offset - part.start, width)}; {part.name} has {in_bytes(part.size_bytes)}"
            if abs(offset - part.start) > 1 << 40:
                detail = f"no array is near; the closest is {part.name}"
        encoded = self.memory.map_around(site.space, where)
        if encoded is not None:
            detail = encoded.opaque
        if site.far and (region_rank := where >> RANK_SHIFT & 0xFF):
            # see far_accesses.py
            where -= 1 << RANK_SHIFT if region_rank <= self.lanes.ranks else 0
            if region_rank > self.lanes.ranks:
                detail = f"the cluster of {self.lanes.ranks} CTAs has none of this rank"
        rank = self.rank_of(site, at, where)
        if rank is not None:
            where += (rank << RANK_SHIFT) - (where >> RANK_SHIFT << RANK_SHIFT)
            detail = f"it is in the CTA of rank {rank} of the cluster, which this instruction can't access"
        verb = {"load": "reads", "store": "writes", "atomic": "updates", "barrier": "uses an mbarrier of"}[site.kind]
        what = f"{verb} {size} out of bounds at {space} address {where:#x}: {detail}"
        self.report("bounds", self.lanes.positions()[outside], what, site.pc)

    def rank_of(self, site: Site, at: int, offset: int) -> int | None:
        """Return the rank of the other CTA whose shared memory an executing thread (index `at`) addresses, or None.

        offset: the address relative to the thread's own CTA.
        """
        if self.lanes.ranks == 1 or site.far or site.space != "shared":
            return None
        if not offset >> RANK_SHIFT or at >= self.lanes.n:
            return None
        own = int(self.lanes.get("chunk_cta")[at]) % self.lanes.ranks
        rank = (own + (offset >> RANK_SHIFT)) % (1 << 32 - RANK_SHIFT)
        return rank if rank < self.lanes.ranks else None

    def report_read_only(self, site: Site, region: MemoryRegion, index: NDArray[np.int64]) -> None:
        where = place(region, int(index[0]) << site.shift, 1 << site.shift)
        self.report("failure", self.lanes.positions(), f"writes to read-only memory: {where}", site.pc)


class Watched:
    """The bytes read so far by the loads that determine the control flow of loops.

    loads: the indices of these memory instructions, which include atomics and mbarrier instructions.
    events: incremented when one of them reads a new byte, when a byte that they have read is written (except by one of
    them that changes nothing), and by `Access.memory_changed`.
    changes: incremented when memory or a barrier's state may have changed.
    """

    def __init__(self, loads: frozenset[int]) -> None:
        self.loads = loads
        self.events = 0
        self.changes = 0
        # keyed by `id(region.memory)`, which is unique while the chunk runs
        self.marks: dict[int, NDArray[np.bool_]] = {}

    def read(self, site: Site, bound: Bound, index: NDArray[Any]) -> None:
        if site.index not in self.loads:
            return
        marks = self.marks.setdefault(id(bound.region.memory), np.zeros(bound.region.memory.size, bool))
        each = places(bound, index, site)
        if np.count_nonzero(marks[each]) < each.size:
            marks[each] = True
            self.events += 1

    def write(self, site: Site, bound: Bound, index: NDArray[Any], changed: bool) -> None:
        self.changes += changed
        marks = self.marks.get(id(bound.region.memory))
        # if a state recurs, atomics in `loads` that changed nothing change nothing again; others may store new values
        if marks is not None and (changed or site.index not in self.loads):
            self.events += bool(np.count_nonzero(marks[places(bound, index, site)]))


def places(bound: Bound, index: NDArray[Any], site: Site) -> NDArray[np.int64]:
    """Return the offsets, in the region's memory, of the bytes of each element: one row per element."""
    return bound.lead + (index << site.shift)[:, None] + np.arange(1 << site.shift)
