"""Atomic updates of shared or global memory with values in registers.

accepts: a place in shared or global memory, and local tiles owned by exactly the threads of the scope. At least
    one tile of values has the place's shape; the other tiles, except an index, broadcast to it.
emits: the widest vector `red` that applies, if any, to relaxed additions of float tiles at GPU scope that return no
    old values; otherwise one update per element. Of the threads that hold an element, the lowest updates it. The others
    get the old value, if it is used, through shared memory.
source: tilejit/lower/README.md, "Atomic updates".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...dataclass import dataclass
from ...dtypes import int32, int64
from ...ir.arithmetic import build
from ...ir.nodes import Atomic, Expr, Instruction, Load, Region, Store, Sync, TileOp, Var, Vector
from ...isa import Row
from ...isa.atomics import OPERATIONS, RED_VECTOR, VectorForm, row_of, swap_of
from ...layout import TileLayout
from ...target import Target
from ..builder import Builder
from ..moves.masked import MaskedVector, VectorRegisters
from ..moves.vectors import OwnedPlan, OwnedVectors, update_forms, update_schedule
from ..schedule.placement import Placement
from ..variant import TYPES, Condition, DispatchContext, Variant


@dataclass(frozen=True, slots=True)
class Plan(OwnedPlan):
    """In iteration r an active thread updates memory with its vector r; vectors are counted in memory order.

    In `owned`, "memory" is the place, and "registers" the tile with the place's shape; other operands keep their names.
    """

    #: name of the operand that is "registers" in `owned`
    owner: str
    #: the vector instruction; None if elements are updated one by one
    form: VectorForm | None
    #: names of the operands that are tiles, in the operation's order
    order: tuple[str, ...]
    operation: str
    mnemonic: str
    returns: bool
    cta_threads: int

    def side(self, name: str) -> str:
        """Return the name that operand `name` has in `owned`."""
        return {"place": "memory", self.owner: "registers"}.get(name, name)

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(map(self.side, self.order))

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """The mnemonic and its count per thread; a compare-and-swap loop counts as one instruction."""
        return ((self.mnemonic, self.rounds),)

    def is_active(self, thread: Expr, iteration: Expr) -> Expr:
        return self.owned.is_mover(thread, loads=False)

    @property
    def placement(self) -> Placement:
        return self.owned.vectors["registers"].placement


def plan(op: TileOp, context: DispatchContext) -> Plan:
    tiles = op.tiles
    schedule, owner = update_schedule(op, context.count(op.scope))
    owned = OwnedVectors.of(schedule, "registers", "memory")
    form = _form(op, owned, context.target)
    width = 1 if form is None else form.bits // op.region("place").dtype.bits
    owned = owned.of_width(width)
    limit = "elements are updated one by one" if form is None else ""
    operation, returns = str(op.attr("operation")), bool(op.attr("returns")) and "before" in tiles
    row = RED_VECTOR.row(form) if form is not None else _row(op, context.target, returns=returns)
    return Plan(
        width, owned.vectors.count, context.count(op.scope), limit, owned, owner, form, tuple(tiles), operation,
        row.mnemonic, returns, context.threads,
    )


def _row(op: TileOp, target: Target, *, returns: bool) -> Row:
    """Return the instruction that updates one element; if the target has none, the compare-and-swap of a loop."""
    place, order = op.region("place").buffer, str(op.attr("order"))
    row = row_of(str(op.attr("operation")), place.dtype, place.space, order, target, returns=returns)
    return swap_of(place.dtype, place.space, order) if row is None else row


def _form(op: TileOp, owned: OwnedVectors, target: Target) -> VectorForm | None:
    """Return the widest vector form whose elements are contiguous and provably aligned in memory, or None."""
    if not owned.elements.digits:
        # one element per thread
        return None
    widest = owned.widest("memory").elements * op.region("place").dtype.bits
    return next((form for form in update_forms(op, target) if form.bits <= widest), None)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    is_active = plan.owned.is_mover(thread, loads=False)
    if b.has_checks and "mask" in op.options and op.region("place").buffer.space == "global":
        plan.owned.need_inside(b, op, op.region("place"), thread, is_active)
    if plan.returns:
        _clear_old_values(plan, b)
    for registers, memory in plan.owned.each_round(b, thread, is_active, op.index):
        if plan.form is None:
            _one_by_one(plan, op, b, registers, memory)
        else:
            values = registers["registers" if plan.owner == "value" else "value"].consecutive(b)
            memory.update(b, values, lambda place, value: _update(plan, op, b, place, value))
    if plan.returns and plan.placement.replicas:
        _broadcast_old_values(plan, op, b, thread)


def _clear_old_values(plan: Plan, b: Builder) -> None:
    """Clear the registers of the old values: the old value of an element that isn't updated is 0."""
    for register, _ in _old_values(plan, b):
        b.append(Store(register, build.const(0, register.buffer.dtype), span=b.span))


def _old_values(plan: Plan, b: Builder) -> Iterator[tuple[Vector, Expr]]:
    """Yield the register of each old value and its iteration, in a loop."""
    for starts in plan.owned.starts(b):
        registers = starts[plan.side("before")]
        with b.rounds(plan.rounds, registers.buffer) as iteration:
            yield registers.after(iteration).run, iteration


def _one_by_one(
    plan: Plan, op: TileOp, b: Builder, registers: Mapping[str, VectorRegisters], memory: MaskedVector
) -> None:
    first = build.const(0, int32)
    with b.when(memory.is_accessed):
        operands: list[Expr] = []
        for name in [_OPERAND.get(name, name) for name in OPERATIONS[plan.operation].operands]:
            operand = op.operand(name)
            assert operand is not None, "the operation's rule requires this operand"
            operands.append(Load(registers[plan.side(name)][first]) if isinstance(operand, Region) else operand)
        dtype = memory.view.buffer.dtype
        var = Var(b.name("before"), dtype, data=dtype is int64) if plan.returns else None
        b.append(Atomic(plan.operation, memory.place, tuple(operands), str(op.attr("order")), var, b.span))
        if var is not None:
            b.append(Store(registers[plan.side("before")][first], var, span=b.span))


#: name of an operand in `OPERATIONS` -> its name in the tile operation, if they differ
_OPERAND = {"expected": "value"}


def _update(plan: Plan, op: TileOp, b: Builder, place: Vector, value: Vector) -> None:
    """Emit one update: of a whole vector, or of one element where an edge or a mask cuts the vector."""
    if plan.form is not None and place.width == plan.vector_width:
        b.append(Instruction(RED_VECTOR.row(plan.form).name, (), (place, value), b.span))
        return
    b.append(Atomic(plan.operation, place, (Load(value),), str(op.attr("order")), None, b.span))


def _broadcast_old_values(plan: Plan, op: TileOp, b: Builder, thread: Expr) -> None:
    """Broadcast each old value from the lowest thread that holds the element to all threads that hold it."""
    side, dtype = plan.side("before"), plan.owned.vectors["memory"].buffer.dtype
    layout = TileLayout.row_major((plan.threads * plan.rounds,))
    shared, start = b.exchange(op.scope, plan.cta_threads, "before", dtype, layout)
    lowest = thread
    for step in plan.placement.replicas:
        lowest = build.sub(lowest, build.mul(step.of_thread(thread), step.threads))
    for starts in plan.owned.starts(b):
        registers = starts[side]
        is_lowest = plan.is_active(thread, build.const(0, int32))
        with b.when(is_lowest), b.rounds(plan.rounds, registers.buffer) as iteration:
            at = build.add(start, build.add(build.mul(thread, plan.rounds), iteration))
            b.move(Vector(shared, at), registers.after(iteration).run)
    b.append(Sync(op.scope, span=b.span))
    for register, iteration in _old_values(plan, b):
        b.move(register, Vector(shared, build.add(start, build.add(build.mul(lowest, plan.rounds), iteration))))


def _spaces(op: TileOp, context: DispatchContext) -> str | None:
    space = op.region("place").buffer.space
    if space not in ("global", "shared"):
        return f"updates global and shared memory; got {space}"
    tiles = [tile.buffer for name, tile in op.tiles.items() if name != "place" and tile.buffer.space != "local"]
    unsupported = ", ".join(f"{tile.name} is {tile.space}" for tile in tiles)
    return f"takes values from registers; {unsupported} (load it first)" if unsupported else None


VARIANT = Variant(
    name="update",
    operations=("atomic",),
    priority=10,
    operands=(Condition("spaces", _spaces),),
    when=(TYPES,),
    honours=("before", "desired", "mask", "index"),
    plan=plan,
    emit=emit,
)
