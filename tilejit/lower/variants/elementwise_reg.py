"""Elementwise operations, casts and fills in registers, in each thread independently.

accepts: a local destination owned by exactly the threads of the scope; scalars, and local inputs that broadcast to it
    and are in the same threads; any operation of `tilejit.ops.elementwise`.
emits: one scalar operation per register, unrolled, or one per adjacent pair if the target has an instruction for pairs.
source: tilejit/lower/README.md, "Elementwise operations and indices".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dataclass import dataclass, replace
from ...dtypes import DType, float32, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Instruction, Load, Region, Store, TileOp, Var, Vector
from ...isa import Row
from ...isa.convert import NARROW_PAIR, PAIRS, Pair
from ...ops.copies import CAST
from ...ops.elementwise import result_type
from ...target import Target
from ..builder import Builder
from ..elementwise import ELEMENTWISE_CONDITIONS, OPERATIONS, Placed, inputs_of, placed_tiles, schedule
from ..moves.vectors import OwnedVectors, RegisterVectors
from ..plans import VectorPlan
from ..schedule.owners import need_all_threads, need_same_threads
from ..schedule.views import View
from ..values import value_of
from ..variant import KINDS, Condition, DispatchContext, Variant, outside


@dataclass(frozen=True, slots=True)
class Plan(VectorPlan):
    """In iteration r each thread computes its vector r, counted along the destination's registers.

    packed: the instruction that computes a vector of two; None if each element has an instruction.
    """

    operation: str
    owned: OwnedVectors
    packed: str | None = None

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """The mnemonic, or operation and type if LLVM selects the instruction, and its count per thread."""
        if self.packed is not None:
            return ((self.packed, self.rounds),)
        dtype = self.owned.vectors["dst"].buffer.dtype
        return ((f"{self.operation}.{dtype.name}", self.rounds * self.vector_width),)

    @property
    def tiles(self) -> tuple[View, ...]:
        return self.owned.vectors.views

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(tile.placement.region for tile in self.tiles)

    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        return tuple(self.owned.place(tile.name, thread, iteration) for tile in self.tiles)

    def emit(self, op: TileOp, b: Builder) -> None:
        inputs = inputs_of(op, b)
        for starts in self.owned.starts(b):
            _emit_rounds(self, op, b, inputs, starts)


def _local(op: TileOp, context: DispatchContext) -> str | None:
    unsupported = outside(op, "local")
    return f"works on local tiles; {unsupported} (load it first)" if unsupported else None


def plan(op: TileOp, context: DispatchContext) -> Plan:
    return _paired(plan_tiles(op, placed_tiles(op), context.count(op.scope)), op, context)


def plan_tiles(op: TileOp, tiles: Mapping[str, Placed], threads: int) -> Plan:
    """Plan one vector per register of the destination, or raise LayoutError, e.g. if layouts don't match."""
    for placement, _ in tiles.values():
        need_all_threads(placement, op.scope, threads)
    digits = schedule(tiles)
    if digits.is_folded:
        dst = tiles["dst"][0].buffer
        raise LayoutError(f"{dst.name} and an input split a dimension over registers in incompatible ways")
    for name in digits.names[1:]:
        need_same_threads(digits, "dst", name)
    owned = OwnedVectors.of(digits, "dst")
    return Plan(1, owned.rounds, threads, "", op.name, owned)


def _paired(plan: Plan, op: TileOp, context: DispatchContext) -> Plan:
    """Return a plan for pairs if the registers, the operation and the target allow it, else `plan`."""
    if plan.owned.elements.run_length % 2:
        return plan
    packed = _packed_arithmetic(plan, op, context.target)
    if packed is None:
        if op.name != CAST.name or plan.owned.widest().elements < 2:
            return plan
        dst, source = (tile.buffer.dtype for tile in plan.tiles)
        row = _NARROWING.get((source, dst)) or _NARROWING.get((dst, source))
        if row is None or row.missing(context.target) is not None:
            return plan
        # only narrowing conversions have an instruction for pairs
        packed = row.name if (source, dst) in _NARROWING else None
    return replace(plan, vector_width=2, rounds=plan.rounds // 2, owned=plan.owned.of_width(2), packed=packed)


#: (source, destination) types, one of them with two elements per register -> the instruction that converts a pair
_NARROWING: dict[tuple[DType, DType], Row] = {(float32, dtype): NARROW_PAIR.row(dtype) for dtype in NARROW_PAIR.forms()}


_PAIRS: frozenset[Pair] = frozenset(PAIRS.forms())


def _packed_arithmetic(plan: Plan, op: TileOp, target: Target) -> str | None:
    """Return the instruction for pairs that has the same results as the scalar instruction, or None.

    A pair of float32 is in any two consecutive registers, a pair of 16-bit elements in one.
    """
    pair = Pair(op.name, plan.tiles[0].buffer.dtype)
    if pair not in _PAIRS or PAIRS.row(pair).missing(target) is not None:
        return None
    rule = result_type(op.name, tuple(o.dtype for o in op.inputs.values()))
    if rule != (pair.dtype, pair.dtype) or any(tile.buffer.dtype != pair.dtype for tile in plan.tiles):
        return None
    return PAIRS.row(pair).name if pair.dtype == float32 or plan.owned.widest().elements >= 2 else None


def _emit_rounds(
    plan: Plan, op: TileOp, b: Builder, inputs: Sequence[str | Expr], starts: Mapping[str, RegisterVectors]
) -> None:
    dst, width = plan.owned.vectors["dst"].buffer, plan.vector_width
    staged = b.passage(op.name, dst.dtype, plan.rounds * width, dst) if _overlaps(plan) else None
    paired = _in_pairs(inputs, plan.tiles[0].buffer.dtype, b) if plan.packed is not None else inputs
    touched = [tile.buffer for tile in plan.tiles] + [each.buffer for each in paired if isinstance(each, Vector)]
    with b.rounds(plan.rounds, *touched, *([] if staged is None else [staged])) as iteration:
        values = [starts[each].at(iteration) if isinstance(each, str) else each for each in paired]
        to = starts["dst"].at(iteration) if staged is None else Vector(staged, build.mul(iteration, width), width)
        _emit_step(plan, op, b, to, values)
    if staged is not None:
        with b.rounds(plan.rounds, dst, staged) as iteration:
            b.move(starts["dst"].at(iteration), Vector(staged, build.mul(iteration, width), width))


def _in_pairs(inputs: Sequence[str | Expr], dtype: DType, b: Builder) -> list[str | Vector]:
    return [each if isinstance(each, str) else _pair(each, dtype, b) for each in inputs]


def _pair(scalar: Expr, dtype: DType, b: Builder) -> Vector:
    pair = Vector(b.scratch("pair", dtype, 2), build.const(0, int32), 2)
    for k in range(2):
        b.append(Store(_element(pair, k), build.cast(scalar, dtype), span=b.span))
    return pair


def _emit_step(plan: Plan, op: TileOp, b: Builder, to: Vector, values: Sequence[Expr | Vector]) -> None:
    if plan.packed is not None:
        b.append(Instruction(plan.packed, (to,), tuple(values), span=b.span))
        return
    for k in range(plan.vector_width):
        scalars = [Load(_element(each, k)) if isinstance(each, Vector) else each for each in values]
        b.append(Store(_element(to, k), value_of(op, scalars, to.buffer.dtype), span=b.span))


def _element(vector: Vector, step: int) -> Vector:
    if vector.width == 1:
        return vector
    return Vector(vector.buffer, build.add(vector.offset, step))


def _overlaps(plan: Plan) -> bool:
    """True if an input shares the destination's buffer, but not always at the same register in an iteration."""
    dst, *inputs = plan.tiles
    sharing = [view for view in inputs if view.buffer.root.name == dst.buffer.root.name]
    if not sharing:
        return False
    iteration = Var("round", int32, bounds=(0, max(plan.rounds - 1, 0)))
    return any(view.located(iteration) != dst.located(iteration) for view in sharing)


VARIANT = Variant(
    name="reg",
    operations=OPERATIONS,
    priority=10,
    operands=(KINDS, Condition("memory", _local)),
    when=ELEMENTWISE_CONDITIONS,
    plan=plan,
    emit=Plan.emit,
)
