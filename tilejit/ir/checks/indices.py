"""Checks that indices and regions are inside their buffer, per dimension.

Regions of global tensors may extend past the tensor's edges, where accesses are masked, unless an atomic operation
without a mask updates them; regions of asynchronous stores may extend only past the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import barrier, int64, uint32, uint64
from ...ops.atomic import ATOMIC
from ...ops.copies import COPY_ASYNC
from .. import walk
from ..arithmetic import build, facts
from ..nodes import Arrive, Assert, Buffer, Element, Expect, Expr, Region, Stmt, TileOp, WaitPhase
from .conditions import Conditions


def outside(stmt: Stmt, conditions: Conditions) -> Iterator[Assert]:
    """Yield an assertion for each index and each dimension of a region that may violate the rules above."""
    # an updated place is both read and written
    for place in {id(place): place for place in (*walk.reads(stmt), *walk.writes(stmt), *_barriers(stmt))}.values():
        if isinstance(place, Element):
            yield from _indices(place, conditions)
        elif isinstance(place, Region) and (place.buffer.space != "global" or _is_updated_whole(stmt)):
            yield from _starts(place, conditions)
    if isinstance(stmt, TileOp) and stmt.name == COPY_ASYNC.name:
        stored = stmt.region("dst")
        if stored.buffer.space == "global":
            yield from _fronts(stored, conditions)


def _fronts(region: Region, conditions: Conditions) -> Iterator[Assert]:
    """Yield an assertion for each dimension in which an asynchronous store may begin before the tensor.

    source: measured on an H100, where TMA then ends the kernel with CUDA_ERROR_ILLEGAL_INSTRUCTION
    """
    for d in region.box_dims:
        start = region.starts[d]
        cond = build.greater_equal(start, build.const(0, start.dtype))
        low, _ = facts.bounds(start)
        if (low is not None and low >= 0) or conditions.holds(cond):
            continue
        message = (
            f"the asynchronous store begins at {{0}} in dimension {d} of {title(region.buffer)}: "
            "it may extend past the end, but not before the start"
        )
        yield Assert(cond, message, "front", (_number(start),), region.span)


def _barriers(stmt: Stmt) -> Iterator[Element | Region]:
    """Yield the barriers that a statement refers to, which `walk` doesn't count as reads or writes."""
    if isinstance(stmt, (Arrive, WaitPhase, Expect)) and isinstance(stmt.place, Element):
        yield stmt.place
    elif isinstance(stmt, TileOp):
        yield from (o for o in stmt.given if isinstance(o, Region) and o.dtype == barrier)


def _indices(place: Element, conditions: Conditions) -> Iterator[Assert]:
    for d, index in enumerate(place.indices):
        size = place.buffer.shape[d]
        extent = build.const(size, index.dtype) if isinstance(size, int) else build.cast(size, index.dtype)
        cond = _within(index, extent, conditions)
        if cond is not None:
            message = f"index {{0}} is outside dimension {d} of {title(place.buffer)}, whose extent is {{1}}"
            yield Assert(cond, message, "bounds", (_number(index), _number(extent)), place.span)


def _is_updated_whole(stmt: Stmt) -> bool:
    """True if `stmt` is an atomic tile operation without a mask: its accesses past the tensor's edges aren't masked."""
    return isinstance(stmt, TileOp) and stmt.name == ATOMIC.name and "mask" not in stmt.options


def _starts(region: Region, conditions: Conditions) -> Iterator[Assert]:
    for d in region.box_dims:
        start, count, size = region.starts[d], region.counts[d], region.buffer.shape[d]
        extent: Expr = build.const(size, start.dtype) if isinstance(size, int) else build.cast(size, start.dtype)
        may_be_larger = count > (size if isinstance(size, int) else 1)
        cond = _within(start, build.add(build.sub(extent, count), 1), conditions, may_be_negative=may_be_larger)
        if cond is None:
            continue
        first = _number(start)
        values: tuple[Expr, ...] = (first, build.add(first, build.const(count, int64)))
        if not isinstance(size, int):
            values = (*values, _number(extent))
        what = "index {0} is outside" if region.extents[d] is None else "[{0} : {1}] leaves"
        shown = size if isinstance(size, int) else "{2}"
        message = f"{what} dimension {d} of {title(region.buffer)}, whose extent is {shown}"
        yield Assert(cond, message, "bounds", values, region.span)


def _within(index: Expr, limit: Expr, conditions: Conditions, *, may_be_negative: bool = False) -> Expr | None:
    """Return the unproved part of 0 <= index < limit; None if all is proved. may_be_negative: `limit` may be < 0."""
    is_below = conditions.is_below(index, limit)
    low, _ = facts.bounds(index)
    if low is not None and low >= 0:
        return None if is_below else build.less(index, limit)
    least = build.const(0, index.dtype)
    if is_below or conditions.holds(build.greater_equal(index, least)):
        cond = build.greater_equal(index, least) if is_below else build.less(index, limit)
        return None if conditions.holds(cond) else cond
    if may_be_negative:
        cond = build.logical_and(build.greater_equal(index, least), build.less(index, limit))
    else:
        # as an unsigned integer, a negative index exceeds any limit
        unsigned = uint64 if index.dtype.bits == 64 else uint32
        cond = build.less(build.cast(index, unsigned), build.cast(limit, unsigned))
    return None if conditions.holds(cond) else cond


def _number(expr: Expr) -> Expr:
    return build.cast(expr, int64)


def title(buffer: Buffer) -> str:
    """Return a buffer's name for messages; views, which the user doesn't name, are described by their root."""
    return buffer.name if buffer.base is None else f"a view of {buffer.root.name}"
