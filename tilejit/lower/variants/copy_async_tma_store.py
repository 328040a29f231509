"""copy_async from shared to global memory by TMA, complete once the thread that started it has waited.

accepts: operands as for `tma_load`, in the other direction and without a barrier. A region may pass the tensor's end,
    but not start before it. Elements outside aren't written. Rows are written in chunks of 16 bytes, so they must end
    at a multiple of 16 bytes, unless the region is known or assumed to end inside the tensor.
emits: by the scope's leader, one box per block of columns, or several if a block exceeds a box, and the commit that
    groups them.
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
    # no element of shared memory is out of bounds, so nothing is filled
    honours=("fill",),
    starts=(BULK_STORES,),
    plan=plan,
    emit=Plan.emit,
)
