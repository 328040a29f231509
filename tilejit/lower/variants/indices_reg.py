"""Indices along an axis, of each thread's own elements.

accepts: a local tile, or a part of one, owned by exactly the threads of the scope.
emits: one store per register, of the thread's contribution to the index plus that of the iteration.
source: tilejit/lower/README.md, "Elementwise operations and indices".
"""

from __future__ import annotations

from ...dataclass import dataclass
from ...dtypes import int32
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Region, Store, TileOp
from ...ops.copies import INDICES
from ..builder import Builder
from ..elementwise import placed_tiles, schedule
from ..moves.vectors import OwnedVectors
from ..plans import VectorPlan
from ..schedule.owners import need_all_threads
from ..variant import KINDS, SCOPE, TYPES, Condition, DispatchContext, Variant, outside


@dataclass(frozen=True, slots=True)
class Plan(VectorPlan):
    """In iteration r each thread writes its register r. dim: the index's dimension; None if its extent is 1."""

    owned: OwnedVectors
    dim: int | None

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return (("indices.int32", self.rounds),)

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(view.placement.region for view in self.owned.vectors.views)

    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        return (self.owned.place("dst", thread, iteration),)

    def emit(self, op: TileOp, b: Builder) -> None:
        dst = op.region("dst").buffer
        thread = b.thread(op.scope, self.threads)
        for starts in self.owned.starts(b):
            with b.rounds(self.rounds, dst) as iteration:
                index = build.cast(self._index(thread, iteration), dst.dtype)
                b.append(Store(starts["dst"].at(iteration), index, span=b.span))

    def _index(self, thread: Expr, iteration: Expr) -> Expr:
        if self.dim is None:
            return build.const(0, int32)
        digits = self.owned.threads_share["dst"].then(self.owned.vectors["dst"])
        values = [*self.owned.threads_share["dst"].of_thread(thread), *self.owned.vectors.digits_of(iteration)]
        return digits.coordinate(self.dim, values, int32)


def _local(op: TileOp, context: DispatchContext) -> str | None:
    unsupported = outside(op, "local")
    return f"works on local tiles; {unsupported}" if unsupported else None


def plan(op: TileOp, context: DispatchContext) -> Plan:
    tiles, threads = placed_tiles(op), context.count(op.scope)
    need_all_threads(tiles["dst"][0], op.scope, threads)
    # digits aren't joined, because an index needs the digits of its dimension
    threads_share, elements = schedule(tiles).split_by_owner("dst")
    owned = OwnedVectors(threads_share, elements, elements, 1)
    axis, shape = op.attr("axis"), op.region("dst").shape
    assert isinstance(axis, int)
    dim = None if shape[axis] == 1 else sum(n != 1 for n in shape[:axis])
    return Plan(1, owned.rounds, threads, "", owned, dim)


VARIANT = Variant(
    name="reg",
    operations=(INDICES.name,),
    priority=10,
    operands=(KINDS, Condition("memory", _local)),
    when=(SCOPE, TYPES),
    plan=plan,
    emit=Plan.emit,
)
