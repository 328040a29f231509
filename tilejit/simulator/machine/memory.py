"""State spaces: the placement of arrays, buffers and stacks, and the mapping of addresses to elements of NumPy arrays.

A generic address consists of a window and an address in that window's state space:

    bits 63 ... 44    0 global      1 shared     2 local      3 const     4 param
    bits 43 ... 0     the address in that state space

Each CTA has its own copy of a shared region, and each thread its own copy of a local region. The copies are `stride`
bytes apart in one NumPy array. In copy c, an address refers to the element (address - base + c * stride) / width.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass, field
from ..decode.names import DTYPES
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from .tensor_map import MAP_BYTES, EncodedMap

Bytes = NDArray[np.uint8]

GLOBAL_BASE = 1 << 36
RED_ZONE_BYTES = 1 << 24
SHARED_BASE = 1024
LOCAL_BASE = 1 << 16


class Elements(NamedTuple):
    """The type and the shape of an array's elements, the last dimension of which is contiguous."""

    type_name: str
    size_bytes: int
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.type_name}{list(self.shape)}"

    def index_of(self, offset: int) -> str:
        """Return the index of an element, such as '5' or '[1, 3]'. offset: in bytes, from the first element."""
        number = offset // self.size_bytes
        if len(self.shape) < 2 or not 0 <= number < prod(self.shape):
            return str(number)
        return str([int(i) for i in np.unravel_index(number, self.shape)])


@dataclass(slots=True)
class MemoryPart:
    """A named array in a region, for messages. start: offset in bytes from the region's base.

    buffer: True if the name comes from the launch's `shared_map`. elements: None if they are unknown.
    """

    name: str
    start: int
    size_bytes: int
    buffer: bool = False
    elements: Elements | None = None

    def place(self, offset: int, width: int) -> str:
        """Describe a byte offset from the part's start, such as 'smem+20 bytes, element 5 of 4 bytes'.

        width: the size of an element in bytes, if `elements` doesn't say it.
        """
        text = f"{self.name}{offset:+d} byte{'s' * (offset != 1)}"
        if self.elements is not None and offset % self.elements.size_bytes == 0:
            return f"{text}, element {self.elements.index_of(offset)} of {self.elements}"
        return text + (f", element {offset // width} of {in_bytes(width)}" if offset % width == 0 else "")


@dataclass(slots=True)
class MemoryRegion:
    """A range of addresses backed by one NumPy byte array.

    base: address in its state space; generic addresses add the window of the space.
    owner: "" for one copy, "cta" or "lane" for a copy per CTA or thread, `stride` bytes apart;
        a rank, as a decimal number, for the copies of the CTAs of this rank in their clusters.
    counted_base: replaces `base` in the profile, whose counts must not depend on addresses in the host's memory.
    """

    space: str
    base: int
    size: int
    memory: Bytes
    parts: Sequence[MemoryPart]
    owner: str = ""
    stride: int = 0
    writable: bool = True
    shadow: Any = None
    views: dict[tuple[str, int], tuple[NDArray[Any], int]] = field(default_factory=dict)
    counted_base: int = -1

    def __post_init__(self) -> None:
        if self.counted_base < 0:
            self.counted_base = self.base

    @property
    def generic(self) -> int:
        """The generic address of the region."""
        return WINDOWS[self.space] + self.base

    def view(self, dtype: str, shift: int) -> tuple[NDArray[Any], int]:
        """Return the memory as elements of `dtype`, and the number of bytes before element 0, the first aligned one."""
        key = (dtype, shift)
        if key not in self.views:
            width = 1 << shift
            lead = -self.base % width if not self.owner else 0
            usable = max(self.memory.size - lead, 0) // width * width
            self.views[key] = (self.memory[lead : lead + usable].view(DTYPES[dtype]), lead)
        return self.views[key]

    def part_at(self, offset: int) -> MemoryPart | None:
        return next((p for p in self.parts if p.start <= offset < p.start + p.size_bytes), None)


@dataclass(slots=True)
class Bound:
    """The binding of a memory instruction to the region that it accessed last.

    start: the address operand that accesses element 0 of `view`. limit: the highest valid offset from it, in bytes.
    shift: log2 of the access size in bytes. lead: number of bytes of the region before element 0.
    """

    region: MemoryRegion
    start: Any
    limit: int
    view: NDArray[Any]
    shift: Any
    lead: int


class AddressMap:
    """The regions, sorted by generic address. maps: address → tensor map, whose bytes are in no region.

    empty_maps: addresses of the zeros that launches pass as maps of arrays without elements.
    workspace: the address of the memory through which a cooperative launch synchronizes its grid; 0 if there is none.
    """

    def __init__(self) -> None:
        self.regions: list[MemoryRegion] = []
        self.starts: list[int] = []
        self.next_global = GLOBAL_BASE
        self.maps: dict[int, EncodedMap] = {}
        self.empty_maps: set[int] = set()
        self.workspace = 0

    def add(self, region: MemoryRegion) -> None:
        i = bisect_right(self.starts, region.generic)
        self.starts.insert(i, region.generic)
        self.regions.insert(i, region)

    def find(self, space: str, address: int) -> MemoryRegion | None:
        """Return the region that contains an address in `space` ("" for a generic address), or None."""
        generic = address + WINDOWS[space]
        i = bisect_right(self.starts, generic) - 1
        if i < 0:
            return None
        region = self.regions[i]
        inside = generic - self.starts[i] < region.size
        return region if inside and (not space or region.space == space) else None

    def map_around(self, space: str, address: int) -> EncodedMap | None:
        generic = address + WINDOWS[space]
        return next((x for at, x in self.maps.items() if 0 <= generic - at < MAP_BYTES), None)

    def shared_name(self, address: int, width: int) -> str:
        """Name the address of a `width`-byte element, as in 'ring.full[1]', 'sm+64' (unnamed) or 'at 0x8' (invalid)."""
        region = self.find("shared", address)
        if region is None:
            return f"at {address:#x}"
        part = region.part_at(address - region.base) or region.parts[-1]
        inside = address - region.base - part.start
        if not part.buffer:
            return f"{part.name}+{inside}"
        return part.name + (f"[{inside // width}]" if part.size_bytes > width else "")

    def nearest(self, space: str, address: int) -> MemoryRegion | None:
        """Return the region nearest to an out-of-bounds address in its state space; None if the space has no region."""
        generic = address + WINDOWS[space]

        def distance(region: MemoryRegion) -> int:
            return max(region.generic - generic, generic - region.generic - region.size + 1, 0)

        same = [r for r in self.regions if r.generic >> 44 == generic >> 44]
        return min(same, key=distance, default=None)

    def find_each(self, site: Site, addresses: NDArray[Any]) -> NDArray[np.int64]:
        """Return, for each access, the index of the region that contains all its bytes; -1 if there is none."""
        if not self.regions:
            return np.full(addresses.shape, -1)
        generic = addresses.astype(np.uint64) + np.uint64(WINDOWS[site.space])
        starts = np.array(self.starts, np.uint64)
        index = np.searchsorted(starts, generic, side="right").astype(np.int64) - 1
        sizes = np.array([r.size for r in self.regions], np.uint64)
        spaces = np.array([not site.space or r.space == site.space for r in self.regions])
        clipped = np.maximum(index, 0)
        width = np.uint64(1 << site.shift)
        fits = (index >= 0) & (generic - starts[clipped] + width <= sizes[clipped]) & spaces[clipped]
        return np.where(fits, index, -1)

    def add_arrays(self, arrays: Sequence[tuple[Bytes, str, bool, int]]) -> list[int]:
        """Place host arrays (bytes, name, writable, `Pointer.counted_at`) in global memory; return their addresses.

        Arrays that overlap on the host, directly or through others, share a region. Regions are far apart.
        """
        starts = [int(a[0].__array_interface__["data"][0]) for a in arrays]
        addresses = [0] * len(arrays)
        group: list[int] = []
        high = 0
        for i in sorted(range(len(arrays)), key=starts.__getitem__):
            start, end = starts[i], starts[i] + arrays[i][0].size
            if group and start < high:
                group.append(i)
                high = max(high, end)
                continue
            if group:
                self._place(arrays, starts, group, high, addresses)
            group, high = [i], end
        if group:
            self._place(arrays, starts, group, high, addresses)
        return addresses

    def _place(
        self, arrays: Sequence[tuple[Bytes, str, bool, int]], starts: list[int], group: list[int], high: int,
        out: list[int],
    ) -> None:
        """Place overlapping arrays as one region. group: their indices, sorted by start. high: the highest end."""
        low = starts[group[0]]
        base = self.next_global + low % 256
        memory = max((arrays[i][0] for i in group), key=len)
        if memory.size < high - low:
            memory = host_memory(low, high - low)
        parts = []
        for i in group:
            start = starts[i] - low
            out[i] = base + start
            parts.append(MemoryPart(arrays[i][1] or f"argument {i}", start, arrays[i][0].size))
        region = MemoryRegion("global", base, high - low, memory, parts, writable=any(arrays[i][2] for i in group))
        region.counted_base = base - low % 256 + arrays[group[0]][3]
        self.add(region)
        self.next_global = (base + region.size + RED_ZONE_BYTES + 255) // 256 * 256


def in_bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"


def host_memory(address: int, size: int) -> Bytes:
    """Return a view of `size` bytes of the host's memory at `address`; the caller must keep its owner alive."""
    return np.asarray(_Interface(address, size))


class _Interface:
    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
