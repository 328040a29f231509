"""Tensor maps that a kernel makes or changes in memory.

A change counts for copies after a release by the thread that made it (tensormap.cp_fenceproxy contains one), and an
acquire of the map by a thread of the copying CTA.

source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace", "tensormap.cp_fenceproxy"; "membar /
fence: fence.proxy.tensormap".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import MisalignedError
from .access import Access
from .lanes import WARP, Index
from .tensor_map import CHUNK_BYTES, MAP_ALIGNMENT, MAP_BYTES
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

    def replace(self, number: int, address: Any, value: Any, offset: int) -> None:
        """tensormap.replace: store a field, `offset` bytes from the start of the map."""
        site = self.access.sites[number]
        maps = self.access.actual(site, self.lanes.each(address)).astype(np.int64) - offset
        self.check_aligned(maps, site.pc)
        before = {at: self.bytes_at(at) for at in maps.tolist()}
        self.access.store(number, address, value)
        for at, position in zip(maps.tolist(), self.lanes.positions().tolist(), strict=True):
            if site.space != "shared" and self.note(at, before[at]):
                self.unreleased.setdefault(at, set()).add(position)

    def publish(self, source: int, target: int, origin: Any, address: Any) -> None:
        """tensormap.cp_fenceproxy: let the first lane of each warp copy a map from shared to global memory."""
        site = self.access.sites[target]
        self.warps.whole(site.pc)
        pairs = ((source, origin), (target, address))
        ends = [self.access.actual(self.access.sites[n], self.lanes.each(x)).astype(np.int64) for n, x in pairs]
        start, to = (self.access.uniform(x, WARP, "an address", site.pc) for x in ends)
        self.check_aligned(np.concatenate([start, to]), site.pc)
        group = self.lanes.group
        self.lanes.select(self.lanes.positions()[::WARP])
        before = {at: self.bytes_at(at) for at in to.tolist()}
        offsets = [self.access.sites[n].offset for n in (source, target)]
        for step in range(0, MAP_BYTES, CHUNK_BYTES):
            first, second = (x - offset + step for x, offset in zip((start, to), offsets, strict=True))
            data = self.access.load(source, first.astype(origin.dtype))
            self.access.store(target, second.astype(address.dtype), data)
        self.lanes.select(group)
        for at, old in before.items():
            self.note(at, old)

    def note(self, at: int, old: bytes) -> bool:
        """Count a change of a map in global memory; return False if its bytes are still the `old` ones."""
        changed = self.bytes_at(at) != old
        self.changes[at] = self.changes.get(at, 0) + changed
        return changed

    def bytes_at(self, at: int) -> bytes:
        region = self.access.memory.find("", at)
        if region is None or region.owner:
            return b""
        start = at - region.generic
        return region.memory[start : start + MAP_BYTES].tobytes()

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
        site, group = self.access.sites[number], self.lanes.group
        positions, each = self.lanes.positions(), self.lanes.each(address)
        in_memory = np.array([x not in self.access.memory.maps for x in each.tolist()])
        if not in_memory.any():
            return
        positions, each = positions[in_memory], each[in_memory]
        self.check_aligned(each.astype(np.int64), site.pc)
        self.lanes.select(positions)
        for step in range(0, MAP_BYTES, CHUNK_BYTES):
            self.access.load(number, each + each.dtype.type(step))
        ctas = self.lanes.full["chunk_cta"][positions].tolist()
        for position, cta, at in zip(positions.tolist(), ctas, each.astype(np.int64).tolist(), strict=True):
            if self.unreleased.get(at):
                self.report(position, site.pc, "released", RELEASE_HINT)
            elif self.changes.get(at, 0) > self.acquired.get((cta, at), 0):
                self.report(position, site.pc, "acquired", ACQUIRE_HINT)
        self.lanes.select(group)

    def report(self, position: int, pc: int, what: str, hint: str) -> None:
        self.access.report("in-flight", position, f"uses a tensor map with a change that wasn't {what}", pc, hint)

    def check_aligned(self, maps: Index, pc: int) -> None:
        wrong = np.flatnonzero(maps % MAP_ALIGNMENT)
        if wrong.size:
            what = f"uses {int(maps[wrong[0]]):#x} as the address of a tensor map, not a multiple of {MAP_ALIGNMENT}"
            raise self.access.error(MisalignedError, self.lanes.positions()[:1], what, pc)
