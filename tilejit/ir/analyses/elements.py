"""Offsets of the elements of a box in their buffer's storage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..nodes import Buffer


def slots_of(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape that a buffer's layout covers, including padding, with an extent per dimension of the buffer."""
    slots = buffer.slots or buffer.fixed_shape
    assert len(slots) == len(buffer.shape), f"{buffer.name} is laid out as {slots}"
    return slots


def offsets(buffer: Buffer, starts: Sequence[int], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the offset of each element of a box, in elements, after swizzling; in a local buffer, its register index.

    The result has a leading dimension for the replicas within a thread, then the dimensions of the box.
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
