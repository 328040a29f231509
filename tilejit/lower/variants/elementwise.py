"""Elementwise operations, casts, fills and indices, which compute each element independently.

reg: fills, casts and the operations of `tilejit.ops.elementwise`, in registers.
  accepts: a local destination owned by exactly the threads of the scope; scalars, and local inputs that broadcast to it
    and have the same owners.
  emits: one scalar operation per element, or one per adjacent pair if the target has an instruction for pairs;
    unrolled except for long loops over tiles in local memory.

smem: the same operations on shared or global memory.
  accepts: all tiles in shared or global memory, in any layouts; regions that extend past a global tensor's edges;
    scalars, and inputs that broadcast.
  emits: the widest provably aligned vectors, distributed over the scope's threads: a loop with a load of each input,
    the scalar operation on each element, and a store.

reg, for `indices`: each element's index along an axis.
  accepts: a local tile, or a part of one, owned by exactly the threads of the scope.
  emits: one store per register, of the thread's contribution to the index plus that of the iteration.

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
from ...ops.broadcast import broadcasts
from ...ops.copies import CAST, FILL, INDICES
from ...ops.elementwise import ELEMENTWISE, result_type
from ...ops.elementwise.random import RANDOM_BITS
from ...target import Target
from ..builder import Builder
from ..moves.masked import IndexCondition, VectorRegisters
from ..moves.partition import Partition, each_vector
from ..moves.vectors import OwnedPlan, OwnedVectors
from ..rematerialized import value_of
from ..schedule.placement import need_all_threads, place
from ..schedule.views import DigitSchedule, Operand, View, broadcast_along, need_same_threads
from ..variant import TYPES, Condition, DispatchContext, Variant, tiles_in


def placed_tiles(op: TileOp) -> dict[str, Operand]:
    """Return each tile's placement, and its dimension along each non-unit dimension of the destination.

    That dimension is an index among the tile's non-unit dimensions; None if the tile has none there or is broadcast.
    raises: LayoutError if a tile has no placement.
    """
    shape = op.region("dst").shape
    return {name: (place(tile, op.scope), broadcast_along(tile.shape, shape)) for name, tile in op.tiles.items()}


def schedule(tiles: Mapping[str, Operand]) -> DigitSchedule:
    """Return an operation's iteration space, split into digits, or raise LayoutError as `DigitSchedule.of` does."""
    return DigitSchedule.of(tiles["dst"][0].shape, tiles)


def inputs_of(op: TileOp, b: Builder) -> list[str | Expr]:
    """Return the inputs of `op` in order: the name of each tile, and each scalar as a variable or constant."""
    return [name if isinstance(o, Region) else b.let("scalar", o) for name, o in op.inputs.items()]


@dataclass(frozen=True, slots=True)
class ElementwisePlan(OwnedPlan):
    """In iteration r each thread computes its vector r, counted along the destination's registers.

    packed: name of the instruction that computes a pair of elements; None if elements are computed one by one.
    """

    operation: str
    packed: str | None = None
    #: the offset of random numbers, if it is recomputed
    offset: IndexCondition | None = None

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

    def emit(self, op: TileOp, b: Builder) -> None:
        inputs = inputs_of(op, b)
        for starts in self.owned.starts(b):
            _emit_rounds(self, op, b, inputs, starts)


def _in_registers(op: TileOp, context: DispatchContext) -> ElementwisePlan:
    if op.name == RANDOM_BITS.name:
        return _random(op, context)
    return _paired(plan_tiles(op, placed_tiles(op), context.count(op.scope)), op, context)


def _random(op: TileOp, context: DispatchContext) -> ElementwisePlan:
    """Return a plan of random numbers, with offsets as expressions where possible, which show the block of each."""
    plan = plan_tiles(op, placed_tiles(op), context.count(op.scope))
    # an index needs the digits of its dimension, so digits aren't joined
    threads_share, elements = schedule(placed_tiles(op)).split_by_owner("dst")
    if "b" not in op.tiles or any(digit.dim is None for digit in (*threads_share.digits, *elements.digits)):
        return plan
    owned = OwnedVectors(threads_share, elements, elements, 1)
    return replace(plan, owned=owned, offset=IndexCondition.of(op, context.recomputed, "b"))


def plan_tiles(op: TileOp, tiles: Mapping[str, Operand], threads: int) -> ElementwisePlan:
    """Plan vectors of one element, one per register of the destination; raise LayoutError if layouts don't match."""
    for placement, _ in tiles.values():
        need_all_threads(placement, op.scope, threads)
    digits = schedule(tiles)
    if digits.folded:
        dst = tiles["dst"][0].buffer
        raise LayoutError(f"the layouts of {dst.name} and its inputs split a dimension in incompatible ways")
    for name in tiles:
        need_same_threads(digits, "dst", name)
    owned = OwnedVectors.of(digits, "dst")
    return ElementwisePlan(1, owned.vectors.count, threads, "", owned, op.name)


def _paired(plan: ElementwisePlan, op: TileOp, context: DispatchContext) -> ElementwisePlan:
    """Return a plan for pairs if the registers, the operation and the target allow it, else `plan`."""
    if plan.owned.elements.run_length(plan.owned.elements.operands) % 2:
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


#: (float32, narrower type) -> the instruction that converts a pair of elements to the narrower type
_NARROWING: dict[tuple[DType, DType], Row] = {(float32, dtype): NARROW_PAIR.row(dtype) for dtype in NARROW_PAIR.forms()}


_PAIRS: frozenset[Pair] = frozenset(PAIRS.forms())


def _packed_arithmetic(plan: ElementwisePlan, op: TileOp, target: Target) -> str | None:
    """Return the name of an instruction for pairs that has the same results as the scalar operation, or None.

    A pair of float32 elements may be in any two consecutive registers; a pair of 16-bit elements must share one.
    """
    pair = Pair(op.name, plan.tiles[0].buffer.dtype)
    if pair not in _PAIRS or PAIRS.row(pair).missing(target) is not None:
        return None
    rule = result_type(op.name, tuple(o.dtype for o in op.inputs.values()))
    if rule != (pair.dtype, pair.dtype) or any(tile.buffer.dtype != pair.dtype for tile in plan.tiles):
        return None
    return PAIRS.row(pair).name if pair.dtype == float32 or plan.owned.widest().elements >= 2 else None


def _emit_rounds(
    plan: ElementwisePlan, op: TileOp, b: Builder, inputs: Sequence[str | Expr], starts: Mapping[str, VectorRegisters]
) -> None:
    dst, width = plan.owned.vectors["dst"].buffer, plan.vector_width
    staged = b.passage(op.name, dst.dtype, plan.rounds * width, dst) if _overlaps(plan) else None
    paired: Sequence[str | Expr | Vector] = inputs
    if plan.packed is not None:
        paired = [each if isinstance(each, str) else _pair(each, dst.dtype, b) for each in inputs]
    touched = [tile.buffer for tile in plan.tiles] + [each.buffer for each in paired if isinstance(each, Vector)]
    thread = b.thread(op.scope, plan.threads) if plan.offset is not None else None
    with b.rounds(plan.rounds, *touched, *([] if staged is None else [staged])) as iteration:
        values = [starts[each].after(iteration).run if isinstance(each, str) else each for each in paired]
        own = starts["dst"].after(iteration).run
        if plan.offset is not None and thread is not None:
            index = [_coordinate(plan.owned, dim, thread, iteration) for dim in range(len(plan.offset.index))]
            values[1] = plan.offset.element(index)
        to = own if staged is None else Vector(staged, build.mul(iteration, width), width)
        _emit_step(plan, op, b, to, values)
    if staged is not None:
        with b.rounds(plan.rounds, dst, staged) as iteration:
            b.move(starts["dst"].after(iteration).run, Vector(staged, build.mul(iteration, width), width))


def _pair(scalar: Expr, dtype: DType, b: Builder) -> Vector:
    pair = Vector(b.scratch("pair", dtype, 2), build.const(0, int32), 2)
    for k in range(2):
        b.append(Store(_element(pair, k), build.cast(scalar, dtype), span=b.span))
    return pair


def _emit_step(plan: ElementwisePlan, op: TileOp, b: Builder, to: Vector, values: Sequence[Expr | Vector]) -> None:
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


def _overlaps(plan: ElementwisePlan) -> bool:
    """True if in some iteration an input may be read from the destination's buffer, but from another register."""
    dst, *inputs = plan.tiles
    sharing = [view for view in inputs if view.buffer.root.name == dst.buffer.root.name]
    if not sharing:
        return False
    iteration = Var("round", int32, bounds=(0, max(plan.rounds - 1, 0)))
    return any(view.located(iteration) != dst.located(iteration) for view in sharing)


def _in_memory(op: TileOp, context: DispatchContext) -> Partition:
    return Partition.of(schedule(placed_tiles(op)), context.count(op.scope), broadcasts=True)


def _emit_in_memory(plan: Partition, op: TileOp, b: Builder) -> None:
    inputs = inputs_of(op, b)
    dst, *tiles = plan.names
    registers = {name: _registers(plan, op, name, b) for name in plan.names}
    to = registers[dst]
    for vectors in each_vector(plan, op, b):
        for name in tiles:
            vectors[name].load(b, registers[name], build.const(0, registers[name].buffer.dtype))
        with b.loop("element", vectors[dst].width, unrolled=True) as k:
            at = build.add(k, vectors[dst].start)
            value = value_of(op, _values(plan, inputs, registers, at), to.buffer.dtype)
            b.append(Store(Vector(to.buffer, at), value, span=b.span))
        vectors[dst].store(b, to)


def _registers(plan: Partition, op: TileOp, name: str, b: Builder) -> Vector:
    width = 1 if name in plan.single else plan.vector_width
    return Vector(b.scratch(op.name, plan.elements[name].buffer.dtype, width), build.const(0, int32), width)


def _values(plan: Partition, inputs: Sequence[str | Expr], registers: Mapping[str, Vector], at: Expr) -> list[Expr]:
    loads = {
        name: Load(vector if name in plan.single else Vector(vector.buffer, at)) for name, vector in registers.items()
    }
    return [loads[each] if isinstance(each, str) else each for each in inputs]


@dataclass(frozen=True, slots=True)
class Indices(OwnedPlan):
    """In iteration r each thread writes its register r."""

    #: the dimension whose indices are written, as an index among the non-unit dimensions; None if its extent is 1
    dim: int | None

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return (("indices.int32", self.rounds),)

    def emit(self, op: TileOp, b: Builder) -> None:
        dst = op.region("dst").buffer
        thread, zero = b.thread(op.scope, self.threads), build.const(0, int32)
        for starts in self.owned.starts(b):
            with b.rounds(self.rounds, dst) as iteration:
                index = zero if self.dim is None else _coordinate(self.owned, self.dim, thread, iteration)
                b.append(Store(starts["dst"].after(iteration).run, build.cast(index, dst.dtype), span=b.span))


def _coordinate(owned: OwnedVectors, dim: int, thread: Expr, iteration: Expr) -> Expr:
    """Return the index along `dim`, counted among those of several elements, of a thread's element `iteration`."""
    values = [*owned.threads_share["dst"].of_thread(thread), *owned.vectors.digits_of(iteration)]
    return owned.threads_share.then(owned.vectors)["dst"].coordinate(dim, values, int32)

def _indices(op: TileOp, context: DispatchContext) -> Indices:
    tiles, threads = placed_tiles(op), context.count(op.scope)
    need_all_threads(tiles["dst"][0], op.scope, threads)
    # digits aren't joined, because an index needs the digits of its dimension
    threads_share, elements = schedule(tiles).split_by_owner("dst")
    owned = OwnedVectors(threads_share, elements, elements, 1)
    axis, shape = op.attr("axis"), op.region("dst").shape
    assert isinstance(axis, int)
    dim = None if shape[axis] == 1 else sum(n != 1 for n in shape[:axis])
    return Indices(1, owned.vectors.count, threads, "", owned, dim)


def _broadcasts(op: TileOp, context: DispatchContext) -> str | None:
    dst, *inputs = op.tiles.values()
    for tile in inputs:
        if not broadcasts(tile.shape, dst.shape):
            return f"shape {tile.shape} of {tile.buffer.name} doesn't broadcast to {dst.shape}"
    return None


#: tile operations that compute each element independently
_OPERATIONS = (FILL.name, CAST.name, *ELEMENTWISE)
_WHEN = (TYPES, Condition("broadcast", _broadcasts))

REGISTERS = Variant(
    name="reg",
    operations=_OPERATIONS,
    priority=10,
    operands=(tiles_in("local", does="works on local tiles", remedy=" (load it first)"),),
    when=_WHEN,
    plan=_in_registers,
    emit=ElementwisePlan.emit,
)
MEMORY = Variant(
    name="smem",
    operations=_OPERATIONS,
    priority=10,
    operands=(tiles_in("shared", "global", does="works on shared and global memory"),),
    when=_WHEN,
    plan=_in_memory,
    emit=_emit_in_memory,
)
INDEX = Variant(
    name="reg",
    operations=(INDICES.name,),
    priority=10,
    operands=(tiles_in("local", does="works on local tiles"),),
    when=(TYPES,),
    plan=_indices,
    emit=Indices.emit,
)
