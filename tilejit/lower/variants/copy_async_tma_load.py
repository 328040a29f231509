"""copy_async from global to shared memory by TMA, completing with a phase of a barrier.

accepts: a barrier; a global source, which is a region of an argument with at most 5 dimensions in any order, whose
    base, outer strides and start along the contiguous dimension are multiples of 16 bytes; a shared destination of
    atoms (`schedule.swizzle_atoms`) in the same order. Regions may pass every edge of the tensor; elements outside
    read as 0. With multicast=, blocks of columns or rows that the CTAs along the axis can share evenly.
emits: one box per block of columns, or several if a block exceeds a box, by the scope's leader; the barrier expects the
    bytes. The launch creates the tensor map, a parameter of the kernel. With multicast=, each CTA sends its share of
    the boxes to all CTAs along the axis; the barrier of each CTA expects all bytes.
source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
"""

from __future__ import annotations

from math import copysign

from ...ir.nodes import Const, TileOp
from ...isa.tma import LOADS
from ...ops.copies import MULTICAST
from ..moves.boxes import BoxCopy, box_copy
from ..variant import COPY_CONDITIONS, KINDS, Condition, DispatchContext, Variant, from_to, needs

Plan = BoxCopy


def _zero_fill(op: TileOp, context: DispatchContext) -> str | None:
    fill = op.value("fill")
    if fill is None or isinstance(fill, Const) and fill.value == 0 and copysign(1, fill.value) > 0:
        return None
    value = fill.value if isinstance(fill, Const) else "a value known only at run time"
    return f"fills with 0; got fill={value}: load 0 and mask, or copy"


def _has_barrier(op: TileOp, context: DispatchContext) -> str | None:
    return None if "barrier" in op.options else "needs barrier=: a load completes on a barrier"


def plan(op: TileOp, context: DispatchContext) -> Plan:
    axis = op.attr(MULTICAST.name)
    assert axis is None or isinstance(axis, int)
    return box_copy(op.region("src"), op.region("dst"), context, loads=True, along=axis)


VARIANT = Variant(
    name="tma_load",
    operations=("copy_async",),
    priority=40,
    operands=(KINDS, from_to("global", "shared")),
    when=(*COPY_CONDITIONS, needs(LOADS), Condition("barrier", _has_barrier), Condition("fill", _zero_fill)),
    honours=("fill", "barrier"),
    plan=plan,
    emit=Plan.emit,
)
