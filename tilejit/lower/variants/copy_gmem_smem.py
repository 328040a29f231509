"""copy between global and shared memory, through registers.

accepts: one side global, the other shared; equal dtypes and shapes; any layouts that a slice can name; regions of
    any size, past a global tensor's edges too; any scope.
emits: the widest provable vectors, shared out among the scope's threads: a serial loop over rounds, a load and a
    store each, the last round predicated, ragged ends of rows by narrower accesses.
source: DISPATCH 4 and 13; Apache TVM, TIRx `vec_auto`.
"""

from __future__ import annotations

from ...errors import LayoutError
from ...ir.nodes import TileOp
from ..builder import Builder
from ..conditions import COPY, KINDS, lead_of, memory_pair
from ..engine import Decline, DispatchContext, Variant
from ..moves.partition import Partition, emit_copy, plan_partition
from ..schedule.placement import need_slice, place
from ..schedule.views import Schedule

Plan = Partition


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    regions = op.tiles
    try:
        placements = {name: place(region, op.scope) for name, region in regions.items()}
        for placement in placements.values():
            need_slice(placement)
        schedule = Schedule.alike(placements)
    except LayoutError as error:
        return Decline((error.message,), error.hint)
    return plan_partition(schedule, context.count(op.scope), lead_of(regions["src"]), vectorized=True)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    emit_copy(plan, op, b)


VARIANT = Variant(
    "gmem_smem",
    ("copy",),
    10,
    (KINDS, memory_pair("global <-> shared", ("shared", "global"), ("global", "shared"))),
    COPY,
    plan,
    emit,
)
