"""copy of each thread's own part between registers and shared or global memory.

accepts: one side local and owned by exactly the threads of the scope, possibly with replicas; the other side shared or
    global; equal dtypes and shapes; layouts that split into common digits.
emits: the widest vectors that are contiguous in memory and provably aligned, unrolled except for long loops over a tile
    in local memory. If a vector's registers aren't adjacent, it passes through temporary ones; ptxas removes the moves.
    An index, a scalar or a local tile, selects the boxes of a gathered region. All owners of a replicated element load
    it; the lowest stores it. Padding is masked like elements past the edge of a tensor.
source: tilejit/lower/README.md, "Copies"; Apache TVM, TIRx `vec_auto`.

`schedule/views.py` explains the digits that divide the elements, and `moves/vectors.py` the vectors of one thread.
"""

from __future__ import annotations

from ...dataclass import dataclass, replace
from ...ir.nodes import Expr, TileOp
from ..builder import Builder
from ..moves.masked import IndexCondition
from ..moves.vectors import OwnedPlan, OwnedVectors, fill_value, register_copy
from ..plans import Facts
from ..variant import COPY_CONDITIONS, DispatchContext, Variant, between


@dataclass(frozen=True, slots=True)
class Plan(OwnedPlan):
    """In iteration r a thread moves its vector r, in register order, or in memory order if that makes vectors wider.

    condition: the mask as a condition on elements' indices; None if there is no mask, or if it is read from registers.
    """

    loads: bool
    condition: IndexCondition | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the destination and the source, then of the mask and the index, if any."""
        first = ("registers", "memory") if self.loads else ("memory", "registers")
        return (*first, *(name for name in self.owned.vectors.operands if name not in first))

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """The mnemonic and its count per thread; a vector that moves element by element counts as one access."""
        verb = "ld" if self.loads else "st"
        return ((self.owned.vectors["memory"].access(verb, self.vector_width), self.rounds),)

    def facts(self) -> Facts:
        return replace(OwnedPlan.facts(self), cuts=self.owned.cuts(self.condition))

    def is_active(self, thread: Expr, iteration: Expr) -> Expr:
        return self.owned.is_mover(thread, self.loads)


def plan(op: TileOp, context: DispatchContext) -> Plan:
    """Plan vectors along a thread's registers or along memory, whichever are wider, or raise LayoutError."""
    threads = context.count(op.scope)
    schedule, loads = register_copy(op, threads)
    single = OwnedVectors.of(schedule, "registers")
    width = single.widest("registers", "memory")
    if width.limit:
        along_memory = OwnedVectors.of(schedule, "registers", "memory")
        wider = along_memory.widest("memory")
        if along_memory.vectors.count > 1 and wider.elements > width.elements:
            single, width = along_memory, wider
    owned = single.of_width(width.elements)
    condition = IndexCondition.of(op, context.recomputed) if "mask" in op.tiles else None
    if condition is not None and not owned.is_computed(condition):
        condition = None
    return Plan(width.elements, owned.vectors.count, threads, width.limit, owned, loads, condition)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    mover = plan.owned.is_mover(thread, plan.loads)
    for registers, memory in plan.owned.each_round(b, thread, mover, op.index, plan.condition, loads=plan.loads):
        if plan.loads:
            registers["registers"].load(b, memory, fill_value(op))
        else:
            registers["registers"].store(b, memory)


VARIANT = Variant(
    name="reg",
    operations=("copy",),
    priority=10,
    operands=(between("local", "shared", "global"),),
    when=COPY_CONDITIONS,
    honours=("fill", "mask", "index"),
    plan=plan,
    emit=emit,
)
