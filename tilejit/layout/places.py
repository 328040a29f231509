"""The places of a layout's elements: tables, owners, inverses, and properties such as injectivity.

The functions whose first parameter is `self` are methods of `TileLayout`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import LayoutError
from ..fast_unique import fast_unique
from ..wording import counted
from .arguments import integer, other_layout
from .axes import Axis
from .iters import Iter, digits

if TYPE_CHECKING:
    from .tile_layout import TileLayout

#: maximum number of elements in a table, and of replicas; 2**26 elements without replicas take half a GiB per axis
_MOST_PLACES = 2**26

Table = dict[str, NDArray[np.int64]]


def map_all(layout: TileLayout) -> Table:
    """Return axis name -> coordinates of all flat indices, with a leading dimension for replicas if there are any."""
    whole = map_at(layout, _every(layout.size()))
    return whole if layout.replica else {name: table[0] for name, table in whole.items()}


def map_at(layout: TileLayout, flat: NDArray[np.int64]) -> Table:
    """Return axis name -> coordinates, of shape (replicas, indices), of the flat indices `flat`."""
    here = _table(layout.shard, flat)
    for axis, value in layout.offset:
        here[axis] = here.get(axis, np.zeros(1, np.int64)) + value
    count = math.prod(it.extent for it in layout.replica)
    copies = _table(layout.replica, _every(count))
    whole: Table = {}
    for axis in (*here, *(a for a in copies if a not in here)):
        base = here.get(axis, np.zeros(1, np.int64))[None, :] + copies.get(axis, np.zeros(1, np.int64))[:, None]
        whole[axis.name] = np.ascontiguousarray(np.broadcast_to(base, (count, flat.size)))
    if layout.swizzle is not None:
        m = whole.get("m", np.zeros((count, flat.size), np.int64))
        whole["m"] = layout.swizzle.apply(m)
    return whole


def _every(size: int) -> NDArray[np.int64]:
    if size > _MOST_PLACES:
        raise LayoutError(
            f"a table of {size:,} places is too large; the limit is {_MOST_PLACES:,}",
            hint="use a smaller layout, or apply(...) for single elements",
        )
    return np.arange(size, dtype=np.int64)


def _table(iters: Sequence[Iter], flat: NDArray[np.int64]) -> dict[Axis, NDArray[np.int64]]:
    total: dict[Axis, NDArray[np.int64]] = {}
    weight = math.prod(it.extent for it in iters)
    for it in iters:
        weight //= it.extent
        step = flat // weight % it.extent * it.stride
        total[it.axis] = total[it.axis] + step if it.axis in total else step
    return total


def owners(self: TileLayout, *coord: int, shape: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Return the owners of an element: (thread in the layout's scope, register) for each replica.

    Without a thread axis, the thread is 0.
    """
    index = self.flat_index(coord, shape)
    fused = self.canonical()
    axis = thread_axis(fused)
    if axis is not None and not 0 <= index < self.size():
        raise LayoutError(
            f"flat index {index} is outside {self!r}, which has {counted(self.size(), 'element')}",
            hint="give coordinates within the shape, or a flat index that counts from 0",
        )
    found = fused.apply(*digits(index, fused.shape))
    found = found if isinstance(found, list) else [found]
    return [(place.get(axis.name, 0) if axis else 0, place.get("m", 0)) for place in found]


def thread_axis(fused: TileLayout) -> Axis | None:
    """Return the thread axis of a canonical layout, None if it has none; raise LayoutError if it has several."""
    axes = [a for a in fused.axes() if a.is_thread]
    if len(axes) > 1:
        raise LayoutError(
            f"{fused!r} spans {', '.join(a.name for a in axes)}; owners are threads of one CTA",
            hint="use a layout whose only thread axes are those of a CTA",
        )
    return axes[0] if axes else None


def inverse(
    self: TileLayout, thread: int, register: int, shape: Sequence[int] | None = None
) -> tuple[int, ...] | None:
    """Return the coordinate of the element that a thread holds in a register, or None if there is none.

    shape: the shape that the coordinate indexes; by default the extents of the shard.
    raises: LayoutError if several elements share that place.
    """
    thread = integer(thread, "a thread", "give its number in the layout's scope")
    register = integer(register, "a register", "give its number in the thread")
    fused = self.canonical()
    axis = thread_axis(fused)
    table = fused.map_all(shape)
    anything = next(iter(table.values()))
    none = np.zeros_like(anything)
    hit = (table.get(axis.name, none) if axis else none) == thread
    hit = np.atleast_2d(hit & (table.get("m", none) == register)).any(axis=0)
    found = np.flatnonzero(hit)
    if found.size > 1:
        raise LayoutError(
            f"thread {thread}, register {register} of {self!r} holds {found.size} elements",
            hint="use a layout for which is_injective() is True and whose only memory axis is m",
        )
    return digits(int(found[0]), shape or self.shape) if found.size else None


def _keys(layout: TileLayout) -> tuple[NDArray[np.int64], int]:
    """Return numbers that identify the places, of shape (replicas, elements), and the size of their bounding box."""
    table = layout.canonical().map_all()
    key = np.zeros((1, layout.size()), np.int64)
    box = 1
    for coordinate in table.values():
        low, high = int(coordinate.min()), int(coordinate.max())
        key = key * (high - low + 1) + (coordinate - low)
        box *= high - low + 1
    return np.atleast_2d(key), box


def is_injective(self: TileLayout) -> bool:
    """True if no two elements share a place."""
    if _is_nested(self.canonical()):
        return True
    keys, _ = _keys(self)
    each = sum(fast_unique(column).size for column in keys.T) if keys.shape[0] > 1 else keys.size
    return bool(fast_unique(keys).size == each)


def _is_nested(layout: TileLayout) -> bool:
    """True if each stride exceeds, in size, the total reach of smaller ones on its axis: places are then distinct."""
    reach: dict[Axis, int] = {}
    moving = [i for i in (*layout.shard, *layout.replica) if i.extent > 1]
    for it in sorted(moving, key=lambda i: abs(i.stride)):
        if abs(it.stride) <= reach.get(it.axis, 0):
            return False
        reach[it.axis] = reach.get(it.axis, 0) + (it.extent - 1) * abs(it.stride)
    return True


def is_bijective(self: TileLayout) -> bool:
    """True if elements correspond one to one to the places of their bounding box."""
    keys, box = _keys(self)
    return keys.shape[0] == 1 and keys.size == box and fast_unique(keys).size == box


def equivalent(self: TileLayout, other: TileLayout) -> bool:
    """True if both layouts are the same function of the flat index after thread axes are fused."""
    other = other_layout(self, other)
    if self.size() != other.size():
        return False
    a, b = self.canonical(), other.canonical()
    if a == b:
        return True
    ta, tb = a.map_all(), b.map_all()
    names = sorted({*ta, *tb})
    return all(x == y for x, y in zip(_sets(ta, names, self.size()), _sets(tb, names, self.size()), strict=True))


def _sets(table: Table, names: Sequence[str], size: int) -> list[frozenset[tuple[int, ...]]]:
    rows = max((np.atleast_2d(t).shape[0] for t in table.values()), default=1)
    zero = np.zeros((rows, size), np.int64)
    stacked = np.stack([np.atleast_2d(table.get(name, zero)) for name in names], axis=-1)
    return [frozenset(map(tuple, stacked[:, k].tolist())) for k in range(size)]
