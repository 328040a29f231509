"""Reductions of what each thread has in its own registers.

accepts: a local source and a local destination, both owned by exactly the threads of the scope; kept axes in the same
    threads in both; the reduced ones in registers only.
emits: a balanced tree of the operation over the registers of each result, by rising index. Padding is left out where
    that is known, else it becomes the identity.
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
