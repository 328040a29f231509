"""Tiles that were laid out by hand, and parts of them: whether an operation does with one as it lies."""

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

__all__ = ["by_all_threads", "needs_conversion", "suits"]


def needs_conversion(op: TileOp, threads: int) -> bool:
    """Whether an operation on tiles that were laid out by hand alone can't be carried out as these lie.

    threads: of the CTA.
    """
    tiles = [region for region in op.tiles.values() if region.buffer.space == "local"]
    if any(isinstance(tile.buffer.layout, Open) for tile in tiles):
        return False
    if op.name == ATOMIC.name or (op.name == COPY.name and not {MASK.name, INDEX.name}.isdisjoint(op.options)):
        return not _is_moved(op, threads)
    return not all(suits(op, tile, threads) for tile in tiles)


def suits(op: TileOp, tile: Region, threads: int) -> bool:
    """Whether an operation does with a tile that was laid out by hand as it lies, if its other tiles follow.

    tile: an operand of it. threads: of the CTA.
    """
    if _is_gathered(op):
        return _is_moved(_without_index_and_mask(op), threads)
    is_part = tile.extents != tile.buffer.shape and tile.buffer.tile_layout.scope is not None
    return not is_part or not _wants_all_threads(op) or not _is_known(tile) or _is_owned(tile, op, threads)


def by_all_threads(op: TileOp) -> bool:
    """Whether an operation on one tile takes only what all threads own: updates, and copies to and from rows by number.

    Another copy goes by whoever owns what.
    """
    return op.name == ATOMIC.name or _is_gathered(op)


def _is_gathered(op: TileOp) -> bool:
    return op.name == COPY.name and INDEX.name in op.options


def _is_masked(op: TileOp) -> bool:
    return op.name == COPY.name and MASK.name in op.options


def _is_moved(op: TileOp, threads: int) -> bool:
    """Whether the threads of its scope carry out a copy or an update, each with its own registers."""
    schedule = update_schedule if op.name == ATOMIC.name else register_copy
    try:
        schedule(op, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return True


def _without_index_and_mask(op: TileOp) -> TileOp:
    """A gathered copy without a mask, by one number."""
    one = {MASK.name: None, INDEX.name: Const(0, int64)}
    operands = zip(op.record.operands, op.operands, strict=False)
    return replace(op, operands=tuple([one.get(rule.name, operand) for rule, operand in operands]))


def _is_owned(region: Region, op: TileOp, threads: int) -> bool:
    """Whether exactly the threads of its scope own a region, in digits that an operation takes. threads: of the CTA."""
    try:
        placement = place(region, op.scope)
        need_all_threads(placement, op.scope, SCOPES[op.scope].threads(threads))
    except LayoutError:
        return False
    return not any(isinstance(step.stride, Folded) for dim in placement.dims for step in dim)


def _is_known(region: Region) -> bool:
    """Whether it is known where a part lies."""
    return all(isinstance(start, Const) for start in region.starts)


def _wants_all_threads(op: TileOp) -> bool:
    """Whether it does with what all threads own only: a plain copy is the conversion, or goes by whoever owns what."""
    if op.record.relation in (axes.PRODUCT, axes.RESHAPE):
        return False
    return op.name != COPY.name or _is_masked(op)
