"""Reductions of results that are shared by threads beyond the reach of shuffles.

accepts: as `reduce_registers`, but the reduced axes are distributed over several warps, partial warps, or lanes whose
    number isn't a power of two.
emits: the tree of `reduce_registers`, and the shuffles of `reduce_shuffle` as far as they reach. Then the lowest thread
    with each partial result stores it to shared memory, the scope synchronizes, and every thread loads the partials of
    its results by vectors and combines them in a tree. If whole warps share results with 16 or 32 partials, each lane
    loads one partial, and shuffles combine them. In a loop another barrier comes first.
source: tilejit/lower/README.md, "Reductions".
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ..moves.reduction import REDUCTION_CONDITIONS, REDUCTION_OPERANDS, REDUCTIONS, Reducing, plan_reduction
from ..variant import Decline, DispatchContext, Variant

Plan = Reducing


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    made = plan_reduction(op, context)
    if not made.shares.members:
        return Decline(("no result has partials that must go through shared memory",))
    return made


VARIANT = Variant(
    name="shared",
    operations=REDUCTIONS,
    priority=10,
    operands=REDUCTION_OPERANDS,
    when=REDUCTION_CONDITIONS,
    plan=plan,
    emit=Plan.emit,
)
