"""copy of anything that can be indexed, element by element and slowly.

accepts: both sides in global, shared or local memory; equal dtypes and shapes; two local tiles in the same threads, or
    one that gives each element a register of its own in threads of the scope.
emits: between memories, elements distributed over the scope's threads; with a local tile, loops of each thread over its
    registers; between local tiles, one move per register.
source: tilejit/lower/README.md, "Copies".
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ..builder import Builder
from ..moves.owner_copy import OwnerCopy
from ..moves.partition import PartitionCopy
from ..schedule.placement import place
from ..schedule.views import DigitSchedule
from ..variant import COPY_CONDITIONS, KINDS, DispatchContext, Variant, among, lead_of
from . import elementwise_reg

Plan = PartitionCopy | OwnerCopy | elementwise_reg.Plan


def plan(op: TileOp, context: DispatchContext) -> Plan:
    threads, regions = context.count(op.scope), op.tiles
    local = sum(r.buffer.space == "local" for r in regions.values())
    if local == 1:
        return OwnerCopy.of(op, threads)
    placements = {name: place(region, op.scope) for name, region in regions.items()}
    if local == 2:
        along = range(len(placements["dst"].shape))
        return elementwise_reg.plan_tiles(op, {name: (p, tuple(along)) for name, p in placements.items()}, threads)
    return PartitionCopy.of(DigitSchedule.of_same_shape(placements), threads, lead_of(regions["src"]), vectorized=False)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    plan.emit(op, b)


VARIANT: Variant[Plan] = Variant(
    name="fallback",
    operations=("copy",),
    priority=0,
    operands=(KINDS, among("global", "shared", "local")),
    when=COPY_CONDITIONS,
    honours=("fill",),
    plan=plan,
    emit=emit,
)
