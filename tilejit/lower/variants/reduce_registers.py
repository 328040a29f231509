"""Reductions within each thread's registers.

accepts: a local source and a local destination, both owned by exactly the threads of the scope; kept axes in the same
    threads in both; the reduced axes in registers only.
emits: a balanced tree over the registers of each result, in the order of indices except for packed minima and maxima.
    Padding is left out if it is known at compile time, and replaced by the identity otherwise.
source: tilejit/lower/README.md, "Reductions".
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ..moves.reduction import REDUCTION_CONDITIONS, REDUCTION_OPERANDS, REDUCTIONS, Reducing, plan_reduction
from ..variant import Decline, DispatchContext, Variant

Plan = Reducing


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    made = plan_reduction(op, context)
    if made.shares.sharers > 1:
        return Decline((f"{made.shares.sharers} threads share a result",))
    return made


VARIANT = Variant(
    name="registers",
    operations=REDUCTIONS,
    priority=30,
    operands=REDUCTION_OPERANDS,
    when=REDUCTION_CONDITIONS,
    plan=plan,
    emit=Plan.emit,
)
