"""Where the elements of a box lie in their buffer's storage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..nodes import Buffer, Var

__all__ = ["fixed_shape", "offsets", "slots_of"]


def fixed_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer whose layout is a tile's."""
    return _fixed(buffer, buffer.shape)


def slots_of(buffer: Buffer) -> tuple[int, ...]:
    """The shape that such a buffer's layout has: an extent for each dimension, in which padding counts."""
    slots = _fixed(buffer, buffer.laid_out)
    assert len(slots) == len(buffer.shape), f"{buffer.name} is laid out as {slots}"
    return slots


def _fixed(buffer: Buffer, shape: tuple[int | Var, ...]) -> tuple[int, ...]:
    fixed = tuple([n for n in shape if isinstance(n, int)])
    assert len(fixed) == len(shape), f"{buffer.name} has a layout of fixed size"
    return fixed


def offsets(buffer: Buffer, starts: Sequence[int], counts: Sequence[int]) -> NDArray[np.int64]:
    """The offset of each element of a box, in elements, swizzled; of a local buffer the register.

    shape: that of the box, in front of it a dimension for replicas in memory.
    """
    shape = slots_of(buffer)
    layout = buffer.tile_layout.adapted(shape)
    index = np.zeros((), np.int64)
    for start, count, size in zip(starts, counts, shape, strict=True):
        index = index[..., None] * size + start + np.arange(count)
    place = np.full((1, *index.shape), sum(value for axis, value in layout.offset if not axis.is_thread))
    worth = layout.size()
    for it in layout.shard:
        worth //= it.extent
        if not it.axis.is_thread:
            place = place + index // worth % it.extent * it.stride
    for it in layout.replica:
        if not it.axis.is_thread:
            place = np.concatenate([place + k * it.stride for k in range(it.extent)])
    return place if layout.swizzle is None else layout.swizzle.apply(place)
