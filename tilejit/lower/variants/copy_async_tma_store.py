"""copy_async from shared to global memory by TMA: done when the thread that started it has waited.

accepts: what `tma_load` does, the other way round, and no barrier. A region may pass the tensor's end, not begin in
    front of it. What lies outside isn't written, but for whole chunks of 16 bytes along rows: these must end at a
    multiple, unless the region is known to end inside them.
emits: a box for each block of columns, more for taller ones, by the scope's leader, and a group of them.
source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ...isa.tma import BULK_STORES, STORES
from ..moves.boxes import BoxCopy, box_copy
from ..variant import COPY_CONDITIONS, FILLS_ONE, KINDS, DispatchContext, Variant, from_to, needs

Plan = BoxCopy


def plan(op: TileOp, context: DispatchContext) -> Plan:
    return box_copy(op.region("dst"), op.region("src"), context, loads=False)


VARIANT = Variant(
    name="tma_store",
    operations=("copy_async",),
    priority=40,
    operands=(KINDS, from_to("shared", "global")),
    when=(*COPY_CONDITIONS, FILLS_ONE, needs(STORES)),
    # nothing of shared memory lies outside a global tensor
    honours=("fill",),
    starts=(BULK_STORES,),
    plan=plan,
    emit=Plan.emit,
)
