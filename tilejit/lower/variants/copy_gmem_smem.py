"""copy between global and shared memory, through registers.

accepts: one side global, the other shared; equal dtypes and shapes; regions that `need_slice` accepts, of any
    size, also past a global tensor's edges; any scope.
emits: the widest provably aligned vectors, distributed over the scope's threads: a loop with one load and one
    store. A partial last iteration is predicated; ragged ends of rows take narrower accesses.
source: tilejit/lower/README.md, "Copies"; Apache TVM, TIRx `vec_auto`.
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ..moves.partition import PartitionCopy
from ..schedule.placement import need_slice, place
from ..schedule.views import DigitSchedule
from ..variant import COPY_CONDITIONS, DispatchContext, Variant, between

Plan = PartitionCopy


def slices(op: TileOp) -> DigitSchedule:
    """Return the common digits of both sides, or raise LayoutError, e.g. if `need_slice` rejects a region."""
    placements = {name: place(region, op.scope) for name, region in op.tiles.items()}
    for placement in placements.values():
        need_slice(placement)
    return DigitSchedule.of_same_shape(placements)


def plan(op: TileOp, context: DispatchContext) -> Plan:
    return Plan.of(slices(op), context.count(op.scope))


VARIANT = Variant(
    name="gmem_smem",
    operations=("copy",),
    priority=10,
    operands=(between("global", "shared"),),
    when=COPY_CONDITIONS,
    honours=("fill",),
    plan=plan,
    emit=Plan.emit,
)
