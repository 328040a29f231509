"""Parts of tiles that were laid out by hand: whether all threads of an operation own one."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import LayoutError
from ...ir.nodes import Buffer, Const, Region, TileOp
from ...layout import TileLayout
from ...ops import relation
from ...ops.copies import COPY, INDEX
from ...scopes import SCOPES
from ..schedule.owners import need_all_threads
from ..schedule.placement import place

__all__ = ["is_shared_out", "needs_conversion"]


def needs_conversion(op: TileOp, threads: int) -> bool:
    """Whether an operation on tiles that were laid out by hand has a part of one that only some threads own.

    threads: of the CTA.
    """
    if not _wants_all_threads(op):
        return False
    return any(_is_known(region) and not is_shared_out(region, op.scope, threads) for region in _parts(op))


def is_shared_out(region: Region, scope: str, threads: int) -> bool:
    """Whether exactly the threads of a scope own a region, in registers of whole digits. threads: of the CTA."""
    try:
        need_all_threads(place(region, scope), scope, SCOPES[scope].threads(threads))
    except LayoutError:
        return False
    return True


def _parts(op: TileOp) -> Iterator[Region]:
    """The operands that are parts of a tile which threads share."""
    for operand in op.operands:
        if isinstance(operand, Region) and operand.extents != operand.buffer.shape and _is_shared(operand.buffer):
            yield operand


def _is_shared(buffer: Buffer) -> bool:
    return buffer.space == "local" and isinstance(buffer.layout, TileLayout) and buffer.layout.scope is not None


def _is_known(region: Region) -> bool:
    """Whether it is known where a part lies."""
    return all(isinstance(start, Const) for start in region.starts)


def _wants_all_threads(op: TileOp) -> bool:
    """Whether it does with what all threads own only: a plain copy is the conversion, or goes by whoever owns what."""
    if op.record.relation in (relation.PRODUCT, relation.RESHAPE):
        return False
    return op.name != COPY.name or bool({"mask", INDEX.name} & {*op.options})
