"""Checks whether operations accept tiles with layouts given by the user, or parts of them, without a conversion."""

from __future__ import annotations

from ...dataclass import replace
from ...dtypes import int64
from ...errors import LayoutError
from ...ir.nodes import Const, Open, Region, TileOp
from ...ops import axes
from ...ops.atomic import ATOMIC
from ...ops.copies import COPY, INDEX, MASK
from ...scopes import SCOPES
from ..moves.register_copy import register_copy
from ..moves.updates import update_schedule
from ..schedule.owners import need_all_threads
from ..schedule.placement import place
from ..schedule.strides import Folded


def needs_conversion(op: TileOp, threads: int) -> bool:
    """True if all local tiles of `op` have the user's layouts, and one must be converted. threads: of the CTA."""
    tiles = [region for region in op.tiles.values() if region.buffer.space == "local"]
    if any(isinstance(tile.buffer.layout, Open) for tile in tiles):
        return False
    if op.name == ATOMIC.name or (op.name == COPY.name and not {MASK.name, INDEX.name}.isdisjoint(op.options)):
        return not _is_moved(op, threads)
    return not all(suits(op, tile, threads) for tile in tiles)


def suits(op: TileOp, tile: Region, threads: int) -> bool:
    """True if `op` accepts `tile`, which has the user's layout, once its other tiles match. threads: of the CTA."""
    if _is_gathered(op):
        return _is_moved(_without_index_and_mask(op), threads)
    is_part = tile.extents != tile.buffer.shape and tile.buffer.tile_layout.scope is not None
    is_known = all(isinstance(start, Const) for start in tile.starts)
    return not is_part or not _wants_all_threads(op) or not is_known or _is_owned(tile, op, threads)


def by_all_threads(op: TileOp) -> bool:
    """True for updates, gathers and scatters: each thread must own elements of their tile."""
    return op.name == ATOMIC.name or _is_gathered(op)


def _is_gathered(op: TileOp) -> bool:
    return op.name == COPY.name and INDEX.name in op.options


def _is_moved(op: TileOp, threads: int) -> bool:
    """True if a copy or an update can run on the threads of its scope, each with its own registers."""
    schedule = update_schedule if op.name == ATOMIC.name else register_copy
    try:
        schedule(op, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return True


def _without_index_and_mask(op: TileOp) -> TileOp:
    one = {MASK.name: None, INDEX.name: Const(0, int64)}
    operands = zip(op.record.operands, op.operands, strict=False)
    return replace(op, operands=tuple([one.get(rule.name, operand) for rule, operand in operands]))


def _is_owned(region: Region, op: TileOp, threads: int) -> bool:
    """True if all threads of the scope own a part of the region, in digits that an operation accepts."""
    try:
        placement = place(region, op.scope)
        need_all_threads(placement, op.scope, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return not any(isinstance(step.stride, Folded) for dim in placement.dims for step in dim)


def _wants_all_threads(op: TileOp) -> bool:
    """True if all threads must own elements of a part. A plain copy converts it, or runs on its owners."""
    if op.record.relation in (axes.PRODUCT, axes.RESHAPE):
        return False
    return op.name != COPY.name or MASK.name in op.options
