"""any and all over all threads of a scope, by votes.

accepts: `any` and `all`, with operands as for `reduce_registers`, but all threads of a scope of whole warps share each
    result; only a warp may have several results.
emits: the tree of `reduce_registers`, and a vote per result: of a warp's lanes, or at the scope's barrier.
source: PTX ISA, "vote.sync" and "bar.red".
"""

from __future__ import annotations

from ...dataclass import replace
from ...ir.nodes import TileOp
from ...isa.barriers import VOTES
from ...ops.reduce import REDUCTION_OPERATIONS
from ...scopes import SCOPES, WARP
from ...target import WARP as LANES
from ..moves.reduction import REDUCTION_CONDITIONS, REDUCTION_OPERANDS, Reducing, plan_reduction
from ..variant import Condition, Decline, DispatchContext, Variant

Plan = Reducing


def _voters(op: TileOp, context: DispatchContext) -> str | None:
    threads = context.count(op.scope)
    return None if threads % LANES == 0 else f"whole warps vote; the {op.scope} has {threads} threads"


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    made, scope = plan_reduction(op, context), SCOPES[op.scope]
    if made.shares.sharers == 1:
        return Decline(("no two threads share a result",))
    if made.shares.groups > 1:
        return Decline((f"{made.shares.groups} groups of threads have different results",))
    if scope is not WARP and made.shares.results.count > 1:
        return Decline((f"{made.shares.results.count} results would take as many barriers",))
    return replace(made, vote=VOTES[op.name, scope].name)


VARIANT = Variant(
    name="vote",
    operations=tuple(op.name for op in REDUCTION_OPERATIONS if op.reduction is not None and op.reduction.tests),
    priority=30,
    operands=REDUCTION_OPERANDS,
    when=(*REDUCTION_CONDITIONS, Condition("voters", _voters)),
    plan=plan,
    emit=Plan.emit,
)
