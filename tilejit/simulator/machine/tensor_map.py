"""Swizzle modes, and tensor maps: descriptions of tensors for TMA copies of boxes, with the driver's restrictions.

source: CUDA driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled; PTX ISA, "Tensors", "Swizzling
Modes" and "Asynchronous Warpgroup Level Matrix Shared Memory Layout". Undocumented behavior was measured on an H100:
the driver accepts strides that are 0 or smaller than a row, and boxes larger than the tensor, but refuses boxes larger
than a CTA's shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from math import prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from .lanes import Index

CHUNK_BYTES = 16
_CHUNK_BIT, _ROW_BIT = 4, 7
# source: CUDA driver API, "CUtensorMap"
MAP_ALIGNMENT = 64
#: the fields of a map in memory, whose layout is opaque in PTX
LAYOUT = np.dtype([
    ("global_address", "u8"), ("global_dim", "u4", 5), ("rank", "u4"), ("elemtype", "u4"), ("interleave_layout", "u4"),
    ("swizzle_mode", "u4"), ("fill_mode", "u4"), ("swizzle_atomicity", "u4"), ("box_dim", "u4", 5),
    ("global_stride", "u8", 4), ("element_stride", "u4", 5), ("unused", "u4"),
])
MAP_BYTES = LAYOUT.itemsize
# Values of fields. source: PTX ISA, "tensormap.replace", tables of .elemtype and .swizzle_mode
_ELEMENT_SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
_SWIZZLE_MODES = ("none", "32B", "64B", "128B")
MOST_DIMENSIONS = 5
MOST_BOX = 256
# not documented; measured on an H100, whose CTAs have this much shared memory: boxes of 221,184 and 229,376 bytes were
# accepted, and all tried boxes of 244,800 bytes or more refused
MOST_BOX_BYTES = 232_448
ELEMENT_BYTES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class AddressSwizzle:
    """A swizzle mode of shared memory, which permutes the 16-byte chunks of an atom.

    An atom has 8 rows of 32, 64 or 128 bytes. The `bits` address bits from bit 4 on, which select a chunk in a row, are
    XORed with those from bit 7 on. The pattern depends only on the address, not on the start of a matrix.

    row_bytes: the size of the atom's rows, 0 for mode "none". bits: the number of changed address bits.
    code: the value in bits 62 and 63 of a wgmma matrix descriptor.
    """

    name: str
    row_bytes: int
    bits: int
    code: int

    def apply(self, addresses: Index) -> Index:
        if not self.bits:
            return addresses
        rows = (addresses >> _ROW_BIT) & ((1 << self.bits) - 1)
        return addresses ^ (rows << _CHUNK_BIT)


SWIZZLES: Mapping[str, AddressSwizzle] = MappingProxyType({
    x.name: x
    for x in (
        AddressSwizzle("none", 0, 0, 0), AddressSwizzle("128B", 128, 3, 1), AddressSwizzle("64B", 64, 2, 2),
        AddressSwizzle("32B", 32, 1, 3),
    )
})
BY_CODE: Mapping[int, AddressSwizzle] = MappingProxyType({x.code: x for x in SWIZZLES.values()})


@dataclass(frozen=True, slots=True)
class MapShape:
    """A tensor and the boxes that copies move, innermost dimension first.

    strides: bytes between elements along each dimension except the innermost.
    swizzle: the layout of boxes in shared memory, "none" | "128B" | "64B" | "32B".
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_bytes: int
    swizzle: str = "none"

    def refusal(self, address: int) -> str | None:
        """Return the reason why the driver or the simulator refuses this map of a tensor at `address`, or None."""
        rank = len(self.dims)
        if not 2 <= rank <= MOST_DIMENSIONS:
            return f"its rank is {rank}; ranks 2 to {MOST_DIMENSIONS} are supported"
        if len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"a map of {rank} dimensions needs {rank - 1} strides and {rank} box extents"
        if self.element_bytes not in ELEMENT_BYTES or self.swizzle not in SWIZZLES:
            return f"elements of {self.element_bytes} bytes with swizzle {self.swizzle} are not supported"
        if address % CHUNK_BYTES:
            return f"its address {address:#x} is not a multiple of {CHUNK_BYTES}"
        for axis, extent in enumerate(self.dims):
            if not 0 < extent <= 1 << 32:
                return f"dimension {axis} has {extent} elements; 1 to 2^32 are allowed"
        for axis, stride in enumerate(self.strides, 1):
            if stride % CHUNK_BYTES or not 0 <= stride < 1 << 40:
                return f"dimension {axis} has elements {stride} bytes apart; multiples of 16 in [0, 2^40) are allowed"
        return self._box_refusal()

    def _box_refusal(self) -> str | None:
        for axis, extent in enumerate(self.box):
            if not 0 < extent <= MOST_BOX:
                return f"its box has {extent} elements along dimension {axis}; 1 to {MOST_BOX} are allowed"
        row = self.box[0] * self.element_bytes
        if row % CHUNK_BYTES:
            return f"rows of its box have {row} bytes, which is not a multiple of {CHUNK_BYTES}"
        width = SWIZZLES[self.swizzle].row_bytes
        if width and row > width:
            return f"rows of its box have {row} bytes; swizzle {self.swizzle} allows at most {width}"
        size = prod(self.box[1:]) * row
        if size > MOST_BOX_BYTES:
            return f"its box has {size:,} bytes; at most {MOST_BOX_BYTES:,} are allowed"
        return None

    @property
    def steps(self) -> tuple[int, ...]:
        """Distance in bytes between adjacent elements along each dimension."""
        return (self.element_bytes, *self.strides)

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.element_bytes

    def in_global(self) -> Index:
        """Return the byte offsets of a box's elements from its first one; the innermost dimension varies fastest."""
        return _offsets(self.box, self.steps)

    def in_shared(self, start: int) -> Index:
        """Return the addresses of the elements of a box that begins at `start` in shared memory."""
        swizzle = SWIZZLES[self.swizzle]
        # a box narrower than the atom leaves the end of each row unused
        pitches = [self.element_bytes, swizzle.row_bytes or self.box[0] * self.element_bytes]
        for extent in self.box[1:-1]:
            pitches.append(pitches[-1] * extent)
        return swizzle.apply(_offsets(self.box, tuple(pitches)) + start)

    def first(self, coordinates: tuple[int, ...]) -> int:
        """Return the offset in bytes from the tensor's first element to the first of the box at `coordinates`."""
        return sum(c * step for c, step in zip(coordinates, self.steps, strict=True))

    def inside(self, coordinates: tuple[int, ...], *, whole_chunks: bool = False) -> NDArray[np.bool_] | None:
        """Return a mask of the elements of a box that are inside the tensor, or None if all are.

        whole_chunks: include elements that share a 16-byte chunk with an element that is inside.
        """
        unit = CHUNK_BYTES // self.element_bytes
        dims = (-(-self.dims[0] // unit) * unit, *self.dims[1:]) if whole_chunks else self.dims
        every = list(zip(coordinates, self.box, dims, strict=True))
        if all(c >= 0 and c + extent <= dim for c, extent, dim in every):
            return None
        masks = [(at >= 0) & (at < dim) for at, dim in ((c + np.arange(n, dtype=np.int64), dim) for c, n, dim in every)]
        result: NDArray[np.bool_] = reduce(np.logical_and.outer, masks[::-1]).reshape(-1)
        return result


@lru_cache(maxsize=128)
def _offsets(extents: tuple[int, ...], steps: tuple[int, ...]) -> Index:
    """Return the offsets of a box's elements; adjacent elements along each dimension are `steps` apart."""
    along = [np.arange(extent, dtype=np.int64) * step for extent, step in zip(extents, steps, strict=True)]
    result: Index = reduce(np.add.outer, along[::-1]).reshape(-1)
    return result


@dataclass(frozen=True, slots=True)
class Share:
    """The distance between the boxes of consecutive CTAs that share a copy.

    coordinates: in elements, innermost dimension first. bytes: in shared memory.
    """

    coordinates: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class EncodedMap:
    """A map of a tensor at a device address. axes, share: as in `placing.TensorMap`."""

    name: str
    address: int
    shape: MapShape
    writable: bool
    axes: tuple[int, ...]
    share: Share | None

    @property
    def opaque(self) -> str:
        return f"the tensor map of {self.name or 'an array'}, which only TMA copies may use"


def encode(encoded: EncodedMap) -> bytes:
    """Return the bytes of a map in memory."""
    shape, data = encoded.shape, np.zeros(1, LAYOUT)
    values = {
        "global_address": [encoded.address], "global_dim": shape.dims, "rank": [len(shape.dims) - 1],
        "elemtype": [_ELEMENT_SIZES.index(shape.element_bytes)], "box_dim": shape.box, "global_stride": shape.strides,
        "swizzle_mode": [_SWIZZLE_MODES.index(shape.swizzle)], "element_stride": [1] * len(shape.dims),
    }
    for name, numbers in values.items():
        data[name].reshape(-1)[: len(numbers)] = np.array(numbers, np.uint64)
    return data.tobytes()


def decode(data: bytes) -> tuple[int, MapShape] | str:
    """Return the address of the tensor and the shape that a map in memory describes, or why it is invalid."""
    values = np.frombuffer(data, LAYOUT)[0]
    field = {name: tuple(np.ravel(values[name]).tolist()) for name in LAYOUT.names or ()}
    rank, element, swizzle = (field[x][0] for x in ("rank", "elemtype", "swizzle_mode"))
    rank += 1
    if rank > MOST_DIMENSIONS:
        return f"its rank is {rank}"
    if element >= len(_ELEMENT_SIZES) or swizzle >= len(_SWIZZLE_MODES):
        return f"element type {element} with swizzle mode {swizzle} is not supported"
    if any(x != 1 for x in field["element_stride"][:rank]):
        return f"element strides {field['element_stride'][:rank]} are not supported: they must be 1"
    for name in ("interleave_layout", "fill_mode", "swizzle_atomicity"):
        if field[name][0]:
            return f"{name} {field[name][0]} is not supported: it must be 0"
    dims, box, strides = field["global_dim"][:rank], field["box_dim"][:rank], field["global_stride"][: rank - 1]
    shape = MapShape(dims, strides, box, _ELEMENT_SIZES[element], _SWIZZLE_MODES[swizzle])
    return shape.refusal(field["global_address"][0]) or (field["global_address"][0], shape)
