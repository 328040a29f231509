"""Conditions and register tables shared by the variants that copy between local tiles."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import numpy as np

from ...dtypes import int32
from ...errors import LayoutError
from ...ir.nodes import Const, Region, TileOp
from ...layout import TileLayout
from ...layout.transfer import Holding
from ...scopes import SCOPES, THREAD
from ...wording import counted
from ..schedule.placement import need_own_registers, need_thread_axes, owned
from ..variant import COPY_CONDITIONS, Condition, DispatchContext, from_to, known_starts

#: maximum number of cached results; a `Holding` of 64 x 64 elements takes 64 KiB
_REMEMBERED = 64


def _several_threads(op: TileOp, context: DispatchContext) -> str | None:
    return "tj.thread has a single thread, so no registers can be exchanged" if SCOPES[op.scope] is THREAD else None


BETWEEN_TILES = (from_to("local", "local"),)
CONVERSION_CONDITIONS = (*COPY_CONDITIONS, known_starts())

#: conditions of a copy through shared memory
EXCHANGE_CONDITIONS = (*CONVERSION_CONDITIONS, Condition("several threads", _several_threads))


def held(region: Region, scope: str, threads: int, *, padded: bool = False) -> Holding:
    """Return the threads and registers that hold the elements of a region, whose starts must be constants.

    padded: True to include padding; `region` must then be the whole buffer.
    raises: LayoutError, e.g. if the scope can't own the tile or a thread holds a value in several registers.
    """
    buffer = region.buffer
    tile = owned(buffer, scope)
    need_own_registers(tile)
    need_thread_axes(tile, scope, threads)
    slots = [int(n) for n in buffer.laid_out if isinstance(n, int)]
    box = [
        (int(start.value), count)
        for start, count in zip(region.starts, region.counts, strict=True)
        if isinstance(start, Const)
    ]
    return _holding(buffer.tile_layout, tuple(slots), tuple((0, n) for n in slots) if padded else tuple(box), scope)


@lru_cache(_REMEMBERED)
def _holding(layout: TileLayout, slots: tuple[int, ...], box: tuple[tuple[int, int], ...], scope: str) -> Holding:
    return Holding.of(layout.canonical(fuse=False), slots, box, SCOPES[scope].steps)


def need_whole_registers(
    region: Region, part: Holding, registers: Collection[int], scope: str, threads: int
) -> None:
    """Raise LayoutError if `registers`, which all threads write, hold elements outside the region in some thread."""
    if region.extents == region.buffer.shape:
        return
    start = Const(0, int32)
    shape = region.buffer.fixed_shape
    tile = held(Region(region.buffer, (start,) * len(shape), shape), scope, threads)
    written = list(registers)
    outside = int(np.isin(tile.register, written).sum()) - int(np.isin(part.register, written).sum())
    if outside:
        values = counted(outside, "value")
        raise LayoutError(f"the registers that are written also hold {values} outside the region")
