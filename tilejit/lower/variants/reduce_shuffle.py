"""Reductions of results that lanes of a warp share.

accepts: as `reduce_registers`, but the reduced axes are distributed over lanes whose numbers differ in single bits; the
    scope has whole warps.
emits: the tree of `reduce_registers`; then for each such bit of the lane, from the lowest on, a shuffle and the
    operation, or fewer if lanes split the results. A result that all lanes share takes one `redux.sync` if the target
    has it for the operation and the type.
source: tilejit/lower/README.md, "Reductions"; PTX ISA, "shfl.sync" and "redux.sync".
"""

from __future__ import annotations

from ...ir.nodes import TileOp
from ..moves.reduction import REDUCTION_CONDITIONS, REDUCTION_OPERANDS, REDUCTIONS, Reducing, plan_reduction
from ..variant import Decline, DispatchContext, Variant

Plan = Reducing


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    made = plan_reduction(op, context)
    if made.shares.sharers == 1:
        return Decline(("no two threads share a result",))
    if made.shares.members:
        return Decline((f"shuffles don't reach the {made.shares.partials} partials of a result: {made.shares.apart}",))
    return made


VARIANT = Variant(
    name="shuffle",
    operations=REDUCTIONS,
    priority=20,
    operands=REDUCTION_OPERANDS,
    when=REDUCTION_CONDITIONS,
    plan=plan,
    emit=Plan.emit,
)
