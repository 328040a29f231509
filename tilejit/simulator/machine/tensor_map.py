"""Tensor maps: descriptions of tensors for TMA copies of boxes, with the driver's restrictions.

source: CUDA driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled; PTX ISA, "Tensors". Undocumented
behaviour was measured on an H100: the driver accepts strides of 0 or smaller than a row and boxes larger than the
tensor, and refuses boxes larger than a CTA's shared memory.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import LaunchError
from ...forks import cached_property
from .lanes import Index
from .swizzle import CHUNK_BYTES, SWIZZLES, AddressSwizzle

MAP_BYTES = 128
MOST_DIMENSIONS = 5
MOST_BOX = 256
# not documented; measured on an H100, whose CTAs have this much shared memory: boxes of 221,184 and 229,376 bytes are
# accepted, and all of 244,800 bytes and more refused
MOST_BOX_BYTES = 232_448
ELEMENT_BYTES = (1, 2, 4, 8)


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
            return f"its rank is {rank}; 2 to {MOST_DIMENSIONS} are supported"
        if len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"for {rank} dimensions, the number of strides must be {rank - 1}, and that of box extents {rank}"
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


class Boxes:
    """The addresses of a box's elements, as flat arrays with the outermost dimension first."""

    def __init__(self, shape: MapShape) -> None:
        self.shape = shape
        self.swizzle: AddressSwizzle = SWIZZLES[shape.swizzle]
        self.count = int(np.prod(shape.box))
        self.bytes = self.count * shape.element_bytes

    @cached_property
    def in_global(self) -> Index:
        """Byte offsets of a box's elements from its first element in global memory."""
        return self._sum((self.shape.element_bytes, *self.shape.strides))

    @cached_property
    def in_shared(self) -> Index:
        """Byte offsets of a box's elements from its start in shared memory, before swizzling."""
        shape = self.shape
        # a box narrower than the atom leaves the end of each row unused
        pitch = self.swizzle.row_bytes or shape.box[0] * shape.element_bytes
        pitches = [pitch]
        for extent in shape.box[1:-1]:
            pitches.append(pitches[-1] * extent)
        return self._sum((shape.element_bytes, *pitches))

    def _sum(self, steps: tuple[int, ...]) -> Index:
        total = np.zeros((1,) * len(steps), np.int64)
        for axis, (extent, step) in enumerate(zip(self.shape.box, steps, strict=True)):
            along = [1] * len(steps)
            along[len(steps) - 1 - axis] = extent
            total = total + (np.arange(extent, dtype=np.int64) * step).reshape(along)
        return total.reshape(-1)

    def first(self, coordinates: tuple[int, ...]) -> int:
        """Return the offset in bytes from the tensor's first element to a box's first element."""
        steps = (self.shape.element_bytes, *self.shape.strides)
        return sum(c * step for c, step in zip(coordinates, steps, strict=True))

    def inside(self, coordinates: tuple[int, ...], *, whole_chunks: bool = False) -> NDArray[np.bool_] | None:
        """Return a mask of the elements of a box that are inside the tensor, or None if all are.

        whole_chunks: include elements that share a 16-byte chunk with an element that is inside.
        """
        shape = self.shape
        unit = CHUNK_BYTES // shape.element_bytes
        dims = (-(-shape.dims[0] // unit) * unit, *shape.dims[1:]) if whole_chunks else shape.dims
        every = zip(coordinates, shape.box, dims, strict=True)
        if all(c >= 0 and c + extent <= dim for c, extent, dim in every):
            return None
        result = np.ones((1,) * len(shape.box), bool)
        for axis, (start, extent, dim) in enumerate(zip(coordinates, shape.box, dims, strict=True)):
            at = start + np.arange(extent, dtype=np.int64)
            along = [1] * len(shape.box)
            along[len(shape.box) - 1 - axis] = extent
            result = result & ((at >= 0) & (at < dim)).reshape(along)
        return np.ascontiguousarray(np.broadcast_to(result, shape.box[::-1])).reshape(-1)

    def shared_addresses(self, start: int) -> Index:
        return self.swizzle.apply(self.in_shared + start)


@lru_cache(maxsize=64)
def boxes_of(shape: MapShape) -> Boxes:
    return Boxes(shape)


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
    boxes: Boxes
    writable: bool
    axes: tuple[int, ...]
    share: Share | None

    @property
    def opaque(self) -> str:
        return f"the tensor map of {self.name or 'an array'}, which only TMA copies may use"


def encode(
    name: str, shape: MapShape, address: int, writable: bool, axes: tuple[int, ...], share: Share | None
) -> EncodedMap:
    """Return the map of a tensor; raise LaunchError if `MapShape.refusal` returns a reason."""
    reason = shape.refusal(address)
    if reason is not None:
        raise LaunchError(f"cannot create a tensor map of {name or 'the tensor'}: {reason}")
    return EncodedMap(name, address, boxes_of(shape), writable, axes, share)
