"""Checks of operations that write shared or global memory: a written region may overlap only an identical region.

If regions overlap in any other way, the operation may write elements that it reads later. Local tiles are values:
operations on them read all operands before they write.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import int64
from ...errors import KernelTypeError
from .. import walk
from ..analyses.overlap import same_or_apart
from ..arithmetic import build
from ..nodes import FALSE, TRUE, Assert, Const, Expr, Kernel, Region, Stmt, TileOp
from ..params import AssertionsParam
from ..text.printer import expr_text
from .conditions import Conditions
from .indices import title


def refuse_overlaps(kernel: Kernel) -> None:
    """Raise KernelTypeError for operands that certainly overlap in part or in a different order.

    It is also raised if the compiler can neither disprove an overlap nor test for it at run time.
    """
    for stmt in walk.each(kernel.body, TileOp):
        for op, written, other, cond in _in_doubt(stmt):
            if cond == FALSE or cond is None:
                _refuse(op, written, other, cond)


def overlapping(stmt: Stmt, conditions: Conditions) -> Iterator[Assert]:
    """Yield an assertion for each pair of operands that may overlap in part or in a different order."""
    for op, written, other, cond in _in_doubt(stmt):
        if cond is None or conditions.holds(cond):
            continue
        values = named_starts(written, other)
        message = overlap_text(op, written, other, values)
        yield Assert(cond, message, "overlap", tuple(build.cast(v, int64) for v in values), op.span)


def pairs(op: TileOp) -> Iterator[tuple[Region, Region]]:
    """Yield each region that an operation writes, paired with each other region among the operands."""
    regions = [(o, rule) for o, rule in zip(op.operands, op.record.operands, strict=False) if isinstance(o, Region)]
    for written, rule in regions:
        if rule.written:
            yield from ((written, other) for other, _ in regions if other is not written)


def _in_doubt(stmt: Stmt) -> Iterator[tuple[TileOp, Region, Region, Expr | None]]:
    """Yield (operation, written region, other region of the same buffer, `same_or_apart` of the two), unless TRUE."""
    if not isinstance(stmt, TileOp):
        return
    for written, other in pairs(stmt):
        if written.buffer.space in ("shared", "global") and other.buffer.root.name == written.buffer.root.name:
            cond = same_or_apart(written, other)
            if cond != TRUE:
                yield stmt, written, other, cond


def _refuse(op: TileOp, written: Region, other: Region, cond: Expr | None) -> None:
    unknown = "the compiler can neither disprove nor test at run time that "
    is_read = any(other is region for region in op.read)
    hint = "copy the operand that is read to a local tile first, so that it is read before anything is written"
    raise KernelTypeError(
        overlap_text(op, written, other, None, unknown if cond is None else ""),
        span=op.span,
        hint=hint if is_read else "write to local tiles first, and copy the tiles afterwards",
    )


def overlap_text(op: TileOp, written: Region, other: Region, values: list[Expr] | None, doubt: str = "") -> str:
    """Return the message for an overlap. values: as for `shown`. doubt: a clause inserted before "they overlap"."""
    verb = "reads " if any(other is region for region in op.read) else ""
    regions = f"{shown(written, values)} and {verb}{shown(other, values)}"
    return f"{op.scope}.{op.name} writes {regions}: {doubt}they overlap in part or in another order"


def named_starts(*regions: Region) -> list[Expr]:
    """Return the distinct starts that aren't constants, but no more than an assertion record can hold."""
    moving: list[Expr] = [start for region in regions for start in region.starts if not isinstance(start, Const)]
    return list(dict.fromkeys(moving))[: AssertionsParam.VALUES]


def shown(region: Region, values: list[Expr] | None = None) -> str:
    """Return the source form of a region. values: starts to show as `{0}`, `{1}`, …"""
    parts = []
    for start, extent, count in zip(region.starts, region.extents, region.counts, strict=True):
        if isinstance(start, Const):
            first, last = str(start.value), str(int(start.value) + count)
        else:
            first = f"{{{values.index(start)}}}" if values and start in values else expr_text(start, int64)
            last = f"{first} + {extent}"
        between = ":" if isinstance(start, Const) else " : "
        parts.append(first if extent is None else f"{first}{between}{last}")
    return f"{title(region.buffer)}[{', '.join(parts)}]"
