"""Reductions of results that threads share among which shuffles don't reach.

accepts: as `reduce_registers`, but the reduced axes are spread over several warps, over lanes whose number is no power
    of two, or over warps that aren't whole.
emits: the tree of `reduce_registers`, and the shuffles of `reduce_shuffle` as far as they reach; then the lowest thread
    with each partial writes it to shared memory, the scope waits at its barrier, and every thread reads all partials of
    its results, by vectors, and combines them in a tree by rising thread. In a loop a barrier stands in front as well.
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
