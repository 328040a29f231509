"""copy of anything that can be indexed, element by element; right always, fast never.

accepts: any two of global, shared and local memory with equal dtypes and shapes; local tiles that lie in the same
    threads, or whose elements the threads of the scope can tell apart.
emits: memory to memory: elements shared out among the scope's threads. With a local tile: each thread looks at its
    own registers. Between local tiles: one move a register.
source: DISPATCH 9.1 and 11.10.
"""

from __future__ import annotations

from ...errors import LayoutError
from ...ir.nodes import Region, TileOp
from ..builder import Builder
from ..conditions import COPY, KINDS, copy_sides, lead_of, memory_pair
from ..engine import Context, Decline, Variant
from ..moves.owner_copy import OwnerCopy, emit_owner_copy, plan_owner_copy
from ..moves.partition import Partition, emit_copy, plan_partition
from ..schedule.placement import side
from . import elementwise_reg

_SPACES = ("global", "shared", "local")

Plan = Partition | OwnerCopy | elementwise_reg.Plan


def plan(op: TileOp, context: Context) -> Plan | Decline:
    regions = copy_sides(op)
    try:
        return _plan(regions, op.scope, context.count(op.scope))
    except LayoutError as error:
        return Decline((error.message,), error.hint)


def _plan(regions: tuple[Region, Region], scope: str, threads: int) -> Plan:
    dst, src = regions
    local = sum(r.buffer.space == "local" for r in regions)
    if local == 1:
        return plan_owner_copy(dst, src, scope, threads)
    sides = (side(dst, scope), side(src, scope))
    if local == 2:
        return elementwise_reg.plan_sides("copy", sides, scope, threads)
    return plan_partition(sides, threads, lead_of(src), vectorized=False)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    if isinstance(plan, Partition):
        emit_copy(plan, op, b)
    elif isinstance(plan, OwnerCopy):
        emit_owner_copy(plan, op, b)
    else:
        elementwise_reg.emit(plan, op, b)


VARIANT: Variant[Plan] = Variant(
    "fallback",
    ("copy",),
    0,
    (KINDS, memory_pair("among global, shared and local", *((d, s) for d in _SPACES for s in _SPACES))),
    COPY,
    plan,
    emit,
)
