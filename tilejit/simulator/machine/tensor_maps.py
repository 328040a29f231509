"""The tensor maps that copies use, and those that a kernel makes or changes in memory.

A change counts for copies after a release by the thread that made it (tensormap.cp_fenceproxy contains one), and an
acquire of the map by a thread of the copying CTA.

source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace", "tensormap.cp_fenceproxy"; "membar /
fence: fence.proxy.tensormap".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import MisalignedError, SimulationError
from .access import Access
from .lanes import WARP, Index
from .tensor_map import CHUNK_BYTES, MAP_ALIGNMENT, MAP_BYTES, EncodedMap, decode
from .warp import Warps

RELEASE_HINT = "put fence.proxy.tensormap::generic.release between the change and the copy, by the changing thread"
ACQUIRE_HINT = "put fence.proxy.tensormap::generic.acquire of this map between the change and the copy"


class TensorMaps:
    """The maps in global memory that a chunk has changed.

    changes: address of a map → the number of its changes, apart from those that left its bytes as they were.
    unreleased: address → the threads that have changed it since their last release. acquired: (CTA of the chunk,
    address) → the number of changes at the last acquire.
    """

    def __init__(self, access: Access, warps: Warps) -> None:
        self.access = access
        self.lanes = access.lanes
        self.warps = warps
        self.changes: dict[int, int] = {}
        self.unreleased: dict[int, set[int]] = {}
        self.acquired: dict[tuple[int, int], int] = {}

    def at(self, address: int, position: int, pc: int) -> EncodedMap:
        """Return the map at an address. raises: SimulationError, for the thread at `position`, if there is none."""
        memory = self.access.memory
        if address in memory.maps:
            return memory.maps[address]
        if address in memory.empty_maps:
            what = "starts a copy of an array without elements, which has no tensor map"
            raise self.access.error(SimulationError, position, what, pc)
        data, region = self.bytes_at(address), memory.find("", address)
        if region is None or len(data) < MAP_BYTES:
            what = f"uses {address:#x} as the address of a tensor map, but no map is there"
            raise self.access.error(SimulationError, position, what, pc)
        found = decode(data)
        if isinstance(found, str):
            start = address - region.generic
            part = region.part_at(start) or region.parts[0]
            what = f"uses {part.place(start - part.start, MAP_BYTES)} as a tensor map, which is invalid: {found}"
            raise self.access.error(SimulationError, position, what, pc)
        tensor = memory.find("global", found[0])
        named = tensor.part_at(found[0] - tensor.base) if tensor is not None else None
        writable = tensor is None or tensor.writable
        return EncodedMap(named.name if named else "", found[0], found[1], writable, (), None)

    def bytes_at(self, address: int) -> bytes:
        """Return the bytes of a map in memory that is not shared or local; b"" if no memory is there."""
        region = self.access.memory.find("", address)
        if region is None or region.owner:
            return b""
        start = address - region.generic
        return region.memory[start : start + MAP_BYTES].tobytes()

    def check(self, where: Any, pc: int) -> None:
        """prefetch.tensormap: check that the address holds a map, or the zeros passed for an array without elements."""
        each = self.lanes.each(where).tolist()
        for address, position in zip(each, self.lanes.positions().tolist(), strict=True):
            if address not in self.access.memory.empty_maps:
                self.at(address, position, pc)

    def replace(self, number: int, address: Any, value: Any, offset: int) -> None:
        """tensormap.replace: store a field, `offset` bytes from the start of the map."""
        site, maps = self.access.sites[number], self.actual(number, self.lanes.each(address)) - offset
        self.check_aligned(maps, site.pc)
        before = {at: self.bytes_at(at) for at in maps.tolist()}
        self.access.store(number, address, value)
        for at, position in zip(maps.tolist(), self.lanes.positions().tolist(), strict=True):
            if site.space != "shared" and self.note(at, before[at]):
                self.unreleased.setdefault(at, set()).add(position)

    def publish(self, source: int, target: int, origin: Any, address: Any) -> None:
        """tensormap.cp_fenceproxy: let the first lane of each warp copy a map from shared to global memory."""
        pc = self.access.sites[target].pc
        self.warps.whole(pc)
        origin, address = (self.access.uniform(x, WARP, "the address of a map", pc) for x in (origin, address))
        group = self.lanes.group
        self.lanes.select(self.lanes.positions()[::WARP])
        starts, maps = self.actual(source, origin), self.actual(target, address)
        self.check_aligned(starts, pc)
        self.check_aligned(maps, pc)
        before = {at: self.bytes_at(at) for at in maps.tolist()}
        for step in range(0, MAP_BYTES, CHUNK_BYTES):
            data = self.access.load(source, origin + origin.dtype.type(step))
            self.access.store(target, address + address.dtype.type(step), data)
        self.lanes.select(group)
        for at, old in before.items():
            self.note(at, old)

    def actual(self, number: int, address: Any) -> Index:
        return self.access.actual(self.access.sites[number], address).astype(np.int64)

    def note(self, at: int, old: bytes) -> bool:
        """Count a change of a map in global memory; return False if its bytes are still the `old` ones."""
        changed = self.bytes_at(at) != old
        self.changes[at] = self.changes.get(at, 0) + changed
        return changed

    def release(self) -> None:
        mine = set(self.lanes.positions().tolist())
        for threads in self.unreleased.values():
            threads -= mine

    def acquire(self, address: Any, pc: int) -> None:
        each = self.lanes.each(address).astype(np.int64)
        self.check_aligned(each, pc)
        for cta, at in set(zip(self.lanes.get("chunk_cta").tolist(), each.tolist(), strict=True)):
            self.acquired[cta, at] = self.changes.get(at, 0)

    def use(self, number: int, address: Any) -> None:
        """Check and record that the executing threads pass maps to copies."""
        pc, group, each = self.access.sites[number].pc, self.lanes.group, self.lanes.each(address)
        in_memory = np.array([x not in self.access.memory.maps for x in each.tolist()])
        if not in_memory.any():
            return
        positions, each = self.lanes.positions()[in_memory], each[in_memory]
        self.lanes.select(positions)
        self.check_aligned(each.astype(np.int64), pc)
        for step in range(0, MAP_BYTES, CHUNK_BYTES):
            self.access.load(number, each + each.dtype.type(step))
        ctas = self.lanes.get("chunk_cta").tolist()
        for position, cta, at in zip(positions.tolist(), ctas, each.tolist(), strict=True):
            if self.unreleased.get(at):
                self.report(position, pc, "released", RELEASE_HINT)
            elif self.changes.get(at, 0) > self.acquired.get((cta, at), 0):
                self.report(position, pc, "acquired", ACQUIRE_HINT)
        self.lanes.select(group)

    def report(self, position: int, pc: int, what: str, hint: str) -> None:
        self.access.report("in-flight", position, f"uses a tensor map with a change that wasn't {what}", pc, hint)

    def check_aligned(self, maps: Index, pc: int) -> None:
        """Raise MisalignedError if an executing thread's address of a map is not aligned."""
        wrong = np.flatnonzero(maps % MAP_ALIGNMENT)
        if wrong.size:
            what = f"uses {int(maps[wrong[0]]):#x} as the address of a tensor map, not a multiple of {MAP_ALIGNMENT}"
            raise self.access.error(MisalignedError, self.lanes.positions()[wrong], what, pc)
